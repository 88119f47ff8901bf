"""The guarantees of the writer: order, chain, bounded memory, and no wait of the event loop for the disk."""

import errno
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from controllerd.audit.lines import GENESIS, digest
from controllerd.audit.reader import AuditReader, verify
from controllerd.audit.segments import AuditInUse, DiskFile, list_segments, read_lines
from controllerd.audit.writer import AuditWriter
from controllerd.record.kinds import KINDS
from controllerd.record.records import (
    AlarmRecord,
    ConfigRecord,
    EventBegin,
    GapRecord,
    LeadershipRecord,
    Record,
    TermRecord,
)
from tests.audit.samples import CLUSTER, NODE, ONE_OF_EACH, FixedClock, alarms, make_writer, read_log, write_log


def wait_until(condition: Callable[[], bool], timeout_s: float = 10.0) -> None:
    """Wait in a thread's world; fails when the time is up."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never held"
        threading.Event().wait(0.005)


def truncated(path: Path) -> None:
    """Empty the file, as another program could."""
    path.write_bytes(b"")


async def write_all(writer: AuditWriter, *numbers: int) -> None:
    """A record of each number, each written before the next."""
    for number in numbers:
        writer.record(*alarms(1, number))
        await writer.accepted()


class ScarceDisk:
    """A disk with limited room and a switch for a stall; it writes real files and keeps count over all of them."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.may_sync = threading.Event()
        self.may_sync.set()
        self.refuses_truncate = False

    def open(self, path: Path) -> "ScarceFile":
        """A file on this disk."""
        return ScarceFile(self, path)


class ScarceFile:
    """A file that takes what room is left, and then says so as the kernel does."""

    def __init__(self, disk: ScarceDisk, path: Path) -> None:
        self._disk = disk
        self._file = DiskFile(path)

    def write(self, data: bytes | memoryview) -> int:
        """Take a part, or ENOSPC."""
        taken = min(len(data), self._disk.room)
        if taken == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._disk.room -= taken
        return self._file.write(data[:taken])

    def truncate(self, size: int) -> None:
        """Cut off, or EIO."""
        if self._disk.refuses_truncate:
            raise OSError(errno.EIO, "Input/output error")
        self._file.truncate(size)

    def sync(self) -> None:
        """Wait for the stall to end."""
        self._disk.may_sync.wait()
        self._file.sync()

    def close(self) -> None:
        """Close."""
        self._file.close()


async def test_every_kind_of_record_survives_the_way_to_the_disk_and_back(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *ONE_OF_EACH)
    assert {record.kind for record in ONE_OF_EACH} == KINDS.keys()
    assert [record for _, record in read_log(directory)] == list(ONE_OF_EACH)


async def test_the_envelope_has_node_time_term_and_event(tmp_path: Path) -> None:
    clock = FixedClock()
    writer = make_writer(tmp_path, clock=clock, boot="boot-1")
    writer.record(AlarmRecord("before", "start"))
    await writer.start(CLUSTER)
    writer.record(TermRecord("elected", 7, 12, "controllerd", ""), EventBegin(3, "BrokerChange", 1, 0.0))
    clock.seconds += 1
    writer.record(AlarmRecord("in", "event"))
    await writer.close()
    (before, _), _, _, (inside, _) = read_log(writer.directory)
    assert (before.cluster, before.node, before.boot) == (CLUSTER, NODE, "boot-1")
    assert (before.seq, before.epoch, before.event) == (1, 0, 0)
    assert (inside.seq, inside.epoch, inside.event) == (4, 7, 3)
    assert (inside.ts_ms - before.ts_ms, inside.mono_ns - before.mono_ns) == (1000, 10**9)


async def test_each_line_carries_the_hash_of_the_line_before_it(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(3))
    (segment,) = list_segments(directory)
    lines = [line[:-1] for line in read_lines(segment)]
    prevs = [envelope.prev for envelope, _ in read_log(directory)]
    assert prevs == [GENESIS, digest(lines[0]), digest(lines[1])]


async def test_a_restart_continues_the_chain_under_a_new_boot(tmp_path: Path) -> None:
    await write_log(tmp_path, *alarms(2), boot="one")
    directory = await write_log(tmp_path, *alarms(2, 3), boot="two")
    assert [(envelope.boot, envelope.seq) for envelope, _ in read_log(directory)] == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
    ]
    assert verify(directory).is_intact


async def test_a_restart_continues_after_the_last_whole_line_of_a_torn_segment(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, *alarms(2), boot="one")
    with list_segments(directory)[0].path.open("ab") as file:
        file.write(b'{"v":1,"kind":"al')
    await write_log(tmp_path, *alarms(1), boot="two")
    report = verify(directory)
    assert report.is_intact
    assert [tail.bytes for tail in report.torn_tails] == [17]


async def test_segments_are_closed_by_size_and_compressed(tmp_path: Path) -> None:
    writer = make_writer(tmp_path, segment_bytes=1000)
    await writer.start(CLUSTER)
    for record in alarms(20):
        writer.record(record)
        await writer.accepted()
    wait_until(lambda: sum(segment.is_compressed for segment in list_segments(writer.directory)) >= 3)
    await writer.close()
    assert [record for _, record in read_log(writer.directory)] == alarms(20)
    assert verify(writer.directory).is_intact


async def test_a_segment_is_closed_by_age(tmp_path: Path) -> None:
    clock = FixedClock()
    writer = make_writer(tmp_path, clock=clock, segment_age_s=60.0)
    await writer.start(CLUSTER)
    writer.record(*alarms(1))
    await writer.accepted()
    clock.seconds += 61
    writer.record(*alarms(1))
    await writer.close()
    assert len(list_segments(writer.directory)) == 2


async def test_segments_left_by_an_earlier_boot_are_compressed_at_the_start(tmp_path: Path) -> None:
    await write_log(tmp_path, *alarms(2), boot="one")
    writer = make_writer(tmp_path, boot="two")
    await writer.start(CLUSTER)
    wait_until(lambda: list_segments(writer.directory)[0].is_compressed)
    await writer.close()
    assert verify(writer.directory).is_intact


async def test_a_second_writer_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    first = make_writer(tmp_path, boot="first")
    await first.start(CLUSTER)
    with pytest.raises(AuditInUse, match="boot first, process"):
        await make_writer(tmp_path).start(CLUSTER)
    await first.close()
    await write_log(tmp_path, *alarms(1))


async def test_a_full_disk_delays_records_and_loses_none_that_fit_in_memory(tmp_path: Path) -> None:
    disk = ScarceDisk(room=700)
    writer = make_writer(tmp_path, opener=disk.open)
    await writer.start(CLUSTER)
    writer.record(*alarms(20))
    await writer.accepted()
    assert writer.is_troubled
    disk.room = 1_000_000
    wait_until(lambda: not writer.is_troubled)
    await writer.close()
    assert [record for _, record in read_log(writer.directory)] == alarms(20)
    assert verify(writer.directory).is_intact
    assert not verify(writer.directory).torn_tails


async def test_a_tail_that_cannot_be_cut_off_is_left_behind_and_nothing_is_lost(tmp_path: Path) -> None:
    disk = ScarceDisk(room=700)
    disk.refuses_truncate = True
    writer = make_writer(tmp_path, opener=disk.open)
    await writer.start(CLUSTER)
    writer.record(*alarms(3))
    writer.record(*alarms(20, 4))
    wait_until(lambda: writer.failures > 1)
    disk.room = 1_000_000
    wait_until(lambda: not writer.is_troubled)
    await writer.close()
    report = verify(writer.directory)
    assert [record for _, record in read_log(writer.directory)] == alarms(23)
    assert report.is_intact
    assert len(report.torn_tails) == 1


@pytest.mark.parametrize("loss", [Path.unlink, lambda path: path.rename(path.with_suffix(".old")), truncated])
async def test_a_segment_that_was_removed_is_reported_and_a_new_one_is_begun(
    tmp_path: Path, loss: Callable[[Path], object]
) -> None:
    writer = make_writer(tmp_path, fsync_interval_s=0.0)
    await writer.start(CLUSTER)
    await write_all(writer, 1, 2)
    loss(list_segments(writer.directory)[0].path)
    wait_until(lambda: writer.is_troubled)
    assert writer.trouble is not None
    assert "removed, replaced or cut" in writer.trouble
    await write_all(writer, 3, 4)
    wait_until(lambda: not writer.is_troubled)
    await writer.close()
    assert [record for _, record in read_log(writer.directory)][-2:] == [*alarms(1, 3), *alarms(1, 4)]


async def test_records_beyond_the_bound_are_named_by_a_gap_record_when_the_disk_heals(tmp_path: Path) -> None:
    disk = ScarceDisk(room=0)
    writer = make_writer(tmp_path, opener=disk.open, max_pending_rows=10)
    await writer.start(CLUSTER)
    writer.record(*alarms(1))
    wait_until(lambda: writer.is_troubled)
    writer.record(*alarms(25, 2))
    disk.room = 1_000_000
    wait_until(lambda: not writer.is_troubled)
    await writer.accepted()
    writer.record(*alarms(1, 27))
    await writer.close()
    gaps = [record for _, record in read_log(writer.directory) if isinstance(record, GapRecord)]
    assert gaps == [GapRecord(15, 12, 26, "[Errno 28] No space left on device")]
    assert writer.records_lost == 15
    assert verify(writer.directory).is_intact


async def test_a_full_disk_asks_for_resignation_once_if_so_configured(tmp_path: Path) -> None:
    reasons: list[str] = []
    disk = ScarceDisk(room=0)
    writer = make_writer(tmp_path, on_failure="resign", on_resign=reasons.append, opener=disk.open)
    await writer.start(CLUSTER)
    writer.record(*alarms(1))
    wait_until(lambda: writer.failures > 3)
    await writer.close()
    assert reasons == ["[Errno 28] No space left on device"]


async def test_records_that_cannot_be_written_before_the_end_are_counted(tmp_path: Path) -> None:
    disk = ScarceDisk(room=0)
    writer = make_writer(tmp_path, opener=disk.open)
    await writer.start(CLUSTER)
    writer.record(*alarms(3))
    await writer.close()
    writer.record(*alarms(2))
    assert writer.records_lost == 5


async def test_a_stalled_disk_costs_one_bounded_wait_and_not_one_per_event(tmp_path: Path) -> None:
    disk = ScarceDisk(room=1_000_000)
    writer = make_writer(tmp_path, opener=disk.open, fsync="event", accept_wait_s=0.05)
    await writer.start(CLUSTER)
    disk.may_sync.clear()
    for record in alarms(50):
        writer.record(record)
        await writer.accepted()
    assert writer.stalls == 1
    disk.may_sync.set()
    wait_until(lambda: not writer.is_troubled)
    await writer.close()
    assert [record for _, record in read_log(writer.directory)] == alarms(50)


async def test_accepted_returns_only_when_the_records_are_in_the_file(tmp_path: Path) -> None:
    writer = make_writer(tmp_path)
    await writer.start(CLUSTER)
    for number in range(1, 20):
        writer.record(*alarms(1, number))
        await writer.accepted()
        assert len(read_log(writer.directory)) == number
    await writer.close()


async def test_a_record_that_has_no_json_becomes_an_alarm(tmp_path: Path) -> None:
    directory = await write_log(tmp_path, ConfigRecord({"broken": "\udcff"}), ConfigRecord({"path": tmp_path}))
    (_, first), (_, second) = read_log(directory)
    assert isinstance(first, AlarmRecord)
    assert second == ConfigRecord({"path": str(tmp_path)})


@pytest.mark.parametrize("cluster", ["", ".", "..", "../../etc", "a/b"])
async def test_no_cluster_id_leads_out_of_the_root(tmp_path: Path, cluster: str) -> None:
    writer = make_writer(tmp_path / "root")
    await writer.start(cluster)
    await writer.close()
    assert writer.directory.parent.parent == tmp_path / "root"
    assert writer.directory.resolve() == writer.directory


async def test_figures_for_100_000_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = 5_000
    record: Record = LeadershipRecord(
        [f"topic-{row % 500}" for row in range(rows)],
        list(range(rows)),
        [row % 100 for row in range(rows)],
        [5] * rows,
        [[1, 2, 3] for _ in range(rows)],
        [7] * rows,
        [9] * rows,
        [0] * rows,
    )
    writer = make_writer(tmp_path)
    await writer.start(CLUSTER)
    began = time.perf_counter()
    writer.record(*[record] * 20)
    queued = time.perf_counter()
    await writer.accepted()
    written = time.perf_counter()
    await writer.close()
    assert sum(1 for _ in AuditReader(writer.directory)) == 20
    read = time.perf_counter()
    with capsys.disabled():
        print(
            f"\naudit, 100 000 rows: record() {1e6 * (queued - began):.0f} us, written after {written - began:.3f} s, "
            f"{writer.bytes_written / 1e6:.1f} MB, read back in {read - written:.3f} s"
        )
