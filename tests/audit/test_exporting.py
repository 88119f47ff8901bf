"""Exported heads: durable lines only, in a file that is whole at every moment, signed, and tried again when refused."""

import errno
import os
from pathlib import Path

from controllerd.audit.exporting import KEPT, ExportSettings, HeadExporter
from controllerd.audit.heads import decode_head, decode_heads
from controllerd.audit.writer import AuditWriter
from controllerd.errors import StoreUnavailable
from controllerd.record.records import TermRecord
from tests.audit.samples import CLUSTER, NODE, FixedClock, alarms, make_writer
from tests.audit.test_full_disk import SickDisk
from tests.audit.test_writer import wait_until

KEY = b"0123456789abcdef"


class Znode:
    """A znode in memory that receives the heads."""

    def __init__(self) -> None:
        self.heads: list[bytes] = []
        self.is_there = True

    async def put(self, head: bytes) -> None:
        """Keep it, unless ZooKeeper is away."""
        if not self.is_there:
            raise StoreUnavailable("the session is suspended")
        self.heads.append(head)


def names(folder: Path) -> set[str]:
    """The names of the files in a folder."""
    return {path.name for path in folder.iterdir()}


async def opened(root: Path, audit: AuditWriter, znode: Znode | None = None) -> HeadExporter:
    """An exporter to ``root/heads``, signing with ``KEY``."""
    (root / "key").write_bytes(KEY)
    settings = ExportSettings(1.0, root / "heads", root / "key")
    exporter = HeadExporter(settings, audit, FixedClock().now_ms, znode.put if znode is not None else None)
    await exporter.open()
    return exporter


async def written(audit: AuditWriter, numbers: range) -> None:
    """Records that are durable."""
    for number in numbers:
        audit.record(*alarms(1, number))
        await audit.accepted()
    wait_until(lambda: (head := audit.durable_head(0)) is not None and head.seq == numbers[-1])


async def test_the_head_is_the_newest_durable_line_signed_and_with_its_origin(tmp_path: Path) -> None:
    audit, znode = make_writer(tmp_path / "log", boot="one", fsync="event"), Znode()
    exporter = await opened(tmp_path, audit, znode)
    await audit.start(CLUSTER)
    audit.record(TermRecord("elected", 7, 12, "controllerd", ""))
    await written(audit, range(2, 4))
    await exporter.export()
    (head,) = decode_heads((tmp_path / "heads").read_bytes(), KEY)
    assert (head.cluster, head.node, head.boot, head.seq, head.epoch) == (CLUSTER, NODE, "one", 3, 7)
    assert head.head == audit.head
    assert [decode_head(data, KEY) for data in znode.heads] == [head]
    await audit.close()


async def test_a_line_that_a_power_cut_would_take_is_not_exported(tmp_path: Path) -> None:
    disk = SickDisk("sync")
    audit = make_writer(tmp_path / "log", opener=disk.open, fsync_interval_s=0.0)
    exporter = await opened(tmp_path, audit)
    await audit.start(CLUSTER)
    audit.record(*alarms(3))
    wait_until(lambda: audit.failures > 0)
    assert audit.durable_head(0) is None
    await exporter.export()
    await audit.close()
    await exporter.finish()
    assert "heads" not in names(tmp_path)


async def test_nothing_is_exported_again_while_the_log_does_not_grow(tmp_path: Path) -> None:
    audit, znode = make_writer(tmp_path / "log", fsync="event"), Znode()
    exporter = await opened(tmp_path, audit, znode)
    await audit.start(CLUSTER)
    for _ in range(3):
        await exporter.export()
    assert znode.heads == [], "a log without a line has no head"
    await written(audit, range(1, 2))
    for _ in range(3):
        await exporter.export()
    assert len(znode.heads) == 1
    await audit.close()


async def test_the_file_keeps_the_heads_of_earlier_boots_up_to_a_bound(tmp_path: Path) -> None:
    for boot in ("one", "two"):
        audit = make_writer(tmp_path / "log", boot=boot, fsync="event")
        exporter = await opened(tmp_path, audit)
        await audit.start(CLUSTER)
        for number in range(1, KEPT // 2 + 11):
            await written(audit, range(number, number + 1))
            await exporter.export()
        await audit.close()
    heads = decode_heads((tmp_path / "heads").read_bytes(), KEY)
    assert len(heads) == KEPT
    assert [head.seq for head in heads if head.boot == "two"] == list(range(1, KEPT // 2 + 11))
    assert names(tmp_path) == {"heads", "key", "log"}


async def test_the_last_head_is_that_of_the_closed_log_and_asks_nothing_of_zookeeper(tmp_path: Path) -> None:
    audit, znode = make_writer(tmp_path / "log"), Znode()
    exporter = await opened(tmp_path, audit, znode)
    await audit.start(CLUSTER)
    audit.record(*alarms(5))
    await audit.close()
    await exporter.finish()
    assert decode_heads((tmp_path / "heads").read_bytes(), KEY)[-1].seq == 5
    assert znode.heads == []


async def test_a_failed_export_is_reported_and_retried(tmp_path: Path) -> None:
    audit, znode = make_writer(tmp_path / "log", fsync="event"), Znode()
    exporter = await opened(tmp_path, audit, znode)
    await audit.start(CLUSTER)
    await written(audit, range(1, 2))
    znode.is_there = False
    await exporter.export()
    troubles = [exporter.trouble]
    znode.is_there = True
    (tmp_path / "heads").unlink()
    (tmp_path / "heads").mkdir()
    await exporter.export()
    troubles.append(exporter.trouble)
    (tmp_path / "heads").rmdir()
    await exporter.export()
    troubles.append(exporter.trouble)
    assert troubles[0] == "the session is suspended"
    assert os.strerror(errno.EISDIR) in str(troubles[1])
    assert troubles[2] is None
    assert len(znode.heads) == 1
    await audit.close()
