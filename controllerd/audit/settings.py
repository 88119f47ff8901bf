"""How the audit log is kept, and which of the records are written: the meaning of ``audit.level``.

``full``: everything of ``normal``; besides, control requests and the answers of brokers name every partition, and
details of events and summaries of replies are written out: a call with 10,000 topics names them.

``normal``: every change, decision, refusal, transaction and control request, each answer with its errors; long details
of events only by their size. LeaderAndIsr and UpdateMetadata say to whom, when and about how many partitions, but not
which: these would be half of all rows, and what is said of a partition stands in its leadership. StopReplica names its
partitions. Not judged are I-10, I-11, I-13 and I-25, and of I-07, I-09 and I-38 what concerns requests.

``summary``: what a replay needs to know the cluster at any time. Sessions, terms, events and replies, alarms, brokers,
topics, assignments, leaderships, states of partitions, deletions, reassignments, quarantine, snapshots, digests, and
the answers of brokers without their errors. Left out are transactions, control requests, decisions and states of
replicas: rules about these cannot be judged, and say nothing.

``off``: nothing at all, which is for measuring what the log costs.

At every level but ``off`` the fold equals ZooKeeper, and digests agree. Which level a log has stands in its ``config``
records, and at the beginning of each snapshot.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import Record, ResponseRecord, SnapshotBegin

_NOT_IN_SUMMARY: Final = frozenset(kind.record for kind in DESCRIPTIONS.values() if not kind.in_summary)

Level = Literal["off", "summary", "normal", "full"]
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


def is_written(level: Level, kind: type[Record]) -> bool:
    """Whether records of this kind are written; the others need not be made."""
    return level != "off" and not (level == "summary" and kind in _NOT_IN_SUMMARY)


def at_level(level: Level, record: Record) -> Record | None:
    """The record as it is written, None if it is left out."""
    if not is_written(level, type(record)):
        return None
    if isinstance(record, SnapshotBegin):
        return replace(record, level=level)
    if level == "summary" and isinstance(record, ResponseRecord):
        return replace(record, errors={})
    return record
