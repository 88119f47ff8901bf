"""A disk that refuses at every place where it can, or stalls: the controller goes on, and the gap is exact."""

import errno
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

import pytest

from controllerd.audit import compressor as compressing
from controllerd.audit import segments
from controllerd.audit.reader import verify
from controllerd.audit.segments import LOCK_NAME, AuditInUse, DiskFile, list_segments, log_directory
from controllerd.audit.writer import AuditWriter
from controllerd.record.records import GapRecord
from tests.audit.samples import CLUSTER, NODE, alarms, make_writer, read_log, write_log
from tests.audit.test_writer import wait_until
from tests.fakes.world import World

Place = Literal["open", "write", "half a write", "sync", "close"]
PLACES: Final[tuple[Place, ...]] = ("open", "write", "half a write", "sync", "close")
BOUND: Final = 20


class SickDisk:
    """Real files that fail at chosen operations, for as long as these are in ``refused``."""

    def __init__(self, *refused: Place) -> None:
        self.refused = set(refused)
        self.flows = threading.Event()
        self.flows.set()
        self.waiting = threading.Event()
        """Set while a writer waits for a stalled write."""

    def open(self, path: Path) -> "SickFile":
        """A new file."""
        self.judge("open")
        return SickFile(self, path)

    def judge(self, place: Place) -> None:
        """Refuse as a full disk does."""
        if place in self.refused:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class SickFile:
    """One of its files."""

    def __init__(self, disk: SickDisk, path: Path) -> None:
        self._disk = disk
        self._file = DiskFile(path)

    def write(self, data: bytes | memoryview) -> int:
        """Take all, half, or nothing; or wait until the stall is over."""
        if not self._disk.flows.is_set():
            self._disk.waiting.set()
            self._disk.flows.wait()
        self._disk.judge("write")
        if "half a write" in self._disk.refused:
            self._file.write(data[: len(data) // 2])  # as a network file system may: an error, and yet some of it
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._file.write(data)

    def truncate(self, size: int) -> None:
        """Always possible."""
        self._file.truncate(size)

    def sync(self) -> None:
        """Perhaps."""
        self._disk.judge("sync")
        self._file.sync()

    def close(self) -> None:
        """Perhaps."""
        self._file.close()
        self._disk.judge("close")


def missing(writer: AuditWriter) -> set[int]:
    """The numbers between the first and the last that no line of the log has."""
    present = [envelope.seq for envelope, _ in read_log(writer.directory)]
    return set(range(1, present[-1] + 1)) - set(present)


def declared(writer: AuditWriter) -> set[int]:
    """The numbers that gap records say are lost."""
    gaps = [record for _, record in read_log(writer.directory) if isinstance(record, GapRecord)]
    assert all(gap.lost == gap.last_seq - gap.first_seq + 1 for gap in gaps)
    return {seq for gap in gaps for seq in range(gap.first_seq, gap.last_seq + 1)}


async def record_one_by_one(writer: AuditWriter, numbers: Iterable[int]) -> None:
    """As the event loop does: record, then wait for a bounded time."""
    for number in numbers:
        writer.record(*alarms(1, number))
        await writer.accepted()


@pytest.mark.parametrize("fsync", ["event", "interval", "off"])
@pytest.mark.parametrize("place", PLACES)
async def test_wherever_the_disk_refuses_the_gap_names_precisely_what_is_missing(
    tmp_path: Path, place: Place, fsync: str
) -> None:
    disk = SickDisk()
    writer = make_writer(
        tmp_path, opener=disk.open, fsync=fsync, max_pending_rows=BOUND, segment_bytes=2_000, fsync_interval_s=0.0
    )
    await writer.start(CLUSTER)
    await record_one_by_one(writer, range(1, 10))
    disk.refused.add(place)
    await record_one_by_one(writer, range(10, 100))
    disk.refused.clear()
    writer.record(*alarms(1, 100))
    wait_until(lambda: not writer.is_troubled)
    await record_one_by_one(writer, range(101, 120))
    await writer.close()
    assert missing(writer) == declared(writer)
    assert len(declared(writer)) == writer.records_lost
    assert verify(writer.directory).is_intact


@pytest.mark.parametrize("place", ["open", "write", "half a write"])
async def test_a_disk_that_is_full_from_the_start_does_not_keep_the_daemon_from_starting(
    tmp_path: Path, place: Place
) -> None:
    disk = SickDisk(place)
    writer = make_writer(tmp_path, opener=disk.open, max_pending_rows=BOUND)
    writer.record(*alarms(3))
    await writer.start(CLUSTER)
    await record_one_by_one(writer, range(4, 60))
    assert writer.is_troubled
    disk.refused.clear()
    wait_until(lambda: not writer.is_troubled)
    await record_one_by_one(writer, range(60, 70))
    await writer.close()
    assert missing(writer) == declared(writer)
    assert writer.records_lost > 0
    assert verify(writer.directory).is_intact


async def test_a_directory_is_locked_although_the_disk_has_no_room_for_the_name_of_the_owner(tmp_path: Path) -> None:
    directory = log_directory(tmp_path, CLUSTER, NODE)
    directory.mkdir(parents=True)
    (directory / LOCK_NAME).symlink_to("/dev/full")
    first = make_writer(tmp_path)
    await first.start(CLUSTER)
    with pytest.raises(AuditInUse, match="by another process"):
        await make_writer(tmp_path).start(CLUSTER)
    await first.close()


async def test_a_disk_that_is_full_again_and_again_leaves_one_exact_gap_each_time(tmp_path: Path) -> None:
    disk, next_number = SickDisk(), 1
    writer = make_writer(tmp_path, opener=disk.open, max_pending_rows=BOUND)
    await writer.start(CLUSTER)
    for _ in range(5):
        for place in PLACES[:3]:
            disk.refused = {place}
            await record_one_by_one(writer, range(next_number, next_number + 50))
            disk.refused = set()
            wait_until(lambda: not writer.is_troubled)
            next_number += 50
    await writer.close()
    assert missing(writer) == declared(writer)
    assert writer.gaps >= 5
    assert verify(writer.directory).is_intact


async def test_a_segment_that_cannot_be_compressed_stays_whole_and_leaves_no_half_copy(
    tmp_path: Path, full_for_copies: Callable[[bool], None]
) -> None:
    full_for_copies(True)
    writer = make_writer(tmp_path, segment_bytes=1_000)
    await writer.start(CLUSTER)
    await record_one_by_one(writer, range(1, 40))
    wait_until(lambda: len(list_segments(writer.directory)) > 3)
    assert not any(segment.is_compressed for segment in list_segments(writer.directory))
    wait_until(lambda: not list(writer.directory.glob("*.tmp")))  # the current one is removed soon
    full_for_copies(False)
    await record_one_by_one(writer, range(40, 60))
    wait_until(lambda: sum(segment.is_compressed for segment in list_segments(writer.directory)) > 3)
    await writer.close()
    assert [record for _, record in read_log(writer.directory)] == alarms(59)
    assert verify(writer.directory).is_intact


@pytest.fixture
def full_for_copies(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether the disk has no room for compressed copies."""
    is_full = threading.Event()
    compress = segments.compress

    def perhaps(path: Path) -> Path:
        if is_full.is_set():
            path.with_name(path.name + ".zst.tmp").write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return compress(path)

    monkeypatch.setattr(compressing, "compress", perhaps)
    return lambda full: is_full.set() if full else is_full.clear()


async def test_a_stall_in_the_middle_of_an_event_holds_it_up_for_the_bounded_wait_alone(tmp_path: Path) -> None:
    disk = SickDisk()
    writer = make_writer(tmp_path, opener=disk.open, accept_wait_s=0.05, max_pending_rows=BOUND)
    await writer.start(CLUSTER)
    world = World()
    world.register(1)
    await world.start()
    disk.flows.clear()
    writer.record(*alarms(1))
    waited = writer.accepted()
    wait_until(disk.waiting.is_set)
    await waited
    assert (writer.stalls, writer.is_troubled) == (1, True)
    await record_one_by_one(writer, range(2, 60))
    assert writer.stalls == 1, "one wait for a disk that is known to be in trouble"
    disk.flows.set()
    wait_until(lambda: not writer.is_troubled)
    await record_one_by_one(writer, range(60, 70))
    await writer.close()
    assert missing(writer) == declared(writer)
    assert writer.records_lost > 0
    assert verify(writer.directory).is_intact


async def test_an_event_is_handled_while_the_disk_is_stalled(tmp_path: Path) -> None:
    disk = SickDisk()
    writer = make_writer(tmp_path, opener=disk.open, accept_wait_s=0.05)
    await writer.start(CLUSTER)
    world = World(audit=writer)
    world.register(1)
    world.register(2)
    world.put_topic("t", {0: [1, 2]})
    await world.start()
    disk.flows.clear()
    world.die(1)
    await world.settle()
    assert world.state("t")[0] == 2
    assert writer.stalls == 1
    disk.flows.set()
    await writer.close()
    assert verify(writer.directory).is_intact


async def test_a_directory_that_was_full_at_the_last_end_is_continued(tmp_path: Path) -> None:
    disk = SickDisk()
    writer = make_writer(tmp_path, opener=disk.open, boot="one")
    await writer.start(CLUSTER)
    await record_one_by_one(writer, range(1, 4))
    disk.refused.add("half a write")
    writer.record(*alarms(2, 4))
    await writer.close()
    assert writer.records_lost == 2
    await write_log(tmp_path, *alarms(2), boot="two")
    assert verify(writer.directory).is_intact
