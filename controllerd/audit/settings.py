"""How the audit log is kept: where, how durable, and what to do when it cannot be written."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from controllerd.audit.levels import Level

Fsync = Literal["event", "interval", "off"]
OnFailure = Literal["degrade", "resign"]


@dataclass(frozen=True, slots=True)
class AuditSettings:
    """Settings of the audit log; sizes in bytes of uncompressed lines, times in seconds."""

    directory: Path
    """Root of the audit logs; a folder per cluster and node is made below it."""
    fsync: Fsync = "interval"
    """``event``: before the loop goes on; ``interval``: every ``fsync_interval_s``; ``off``: the kernel decides."""
    fsync_interval_s: float = 0.2
    level: Level = "normal"
    on_failure: OnFailure = "degrade"
    """``degrade``: go on, count, alarm, and write a gap record when it heals; ``resign``: give up the role."""
    accept_wait_s: float = 0.2
    """How long an event waits at most for the writer to take its records."""
    segment_bytes: int = 64 * 1024 * 1024
    segment_age_s: float = 3600.0
    max_pending_rows: int = 2_000_000
    """Rows (a record without columns counts as one) that wait for the disk before records are lost."""
    retry_s: float = 1.0
    """Pause between attempts to write while the disk refuses."""
    close_wait_s: float = 2.0
    """How long ``close`` waits for the last flush."""
