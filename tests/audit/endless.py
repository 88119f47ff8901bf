"""A process that writes an audit log for as long as it lives, and says on standard output what was accepted.

``python -m tests.audit.endless DIRECTORY BOOT``
"""

import asyncio
import sys
from pathlib import Path

from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.clock import SystemClock
from controllerd.record.records import AlarmRecord, LeadershipRecord
from tests.audit.samples import CLUSTER, NODE

_ROWS = 50


async def write(root: Path, boot: str) -> None:
    """Records of very different sizes, small segments, and compression beside it."""
    settings = AuditSettings(root, segment_bytes=64 * 1024, accept_wait_s=30.0, fsync_interval_s=0.01)
    writer = AuditWriter(settings, NODE, SystemClock(), boot=boot)
    await writer.start(CLUSTER)
    number = 0
    while True:
        number += 1
        ones = [1] * _ROWS
        many = LeadershipRecord(["t"] * _ROWS, list(range(_ROWS)), ones, ones, [[1]] * _ROWS, ones, ones, ones)
        writer.record(AlarmRecord("written", str(number)), *[many] * (number % 7))
        await writer.accepted()
        print(writer.head.seq, flush=True)


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), sys.argv[2]))
