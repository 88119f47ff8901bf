"""Settings of the audit log, and the meaning of ``audit.level``: which records are written, with which fields.

``full``: every record of ``normal``. In addition, control requests and responses of brokers name every partition, and
details of events and summaries of replies are written in full: a call with 10,000 topics names them.

``normal``: every change, decision, refusal, transaction and control request, and each response with its errors. Of long
details of events, only the size is written. Records of LeaderAndIsr and UpdateMetadata have the broker, the time and
the number of partitions, but not their names: the names would be half of all rows, and the content is in the leadership
records. StopReplica names its partitions. The rules I-10, I-11, I-13 and I-25 cannot be checked, nor the part of I-07,
I-09 and I-38 that concerns requests.

``summary``: the records from which a replay knows the cluster at any time. These are sessions, terms, events and
replies, alarms, brokers, topics, assignments, leaderships, states of partitions, deletions, reassignments, quarantine,
snapshots, digests, and the responses of brokers without their errors. Transactions, control requests, decisions and
states of replicas are left out: the rules about these report nothing.

``off``: no record at all, in order to measure the cost of the log.

At every level except ``off``, the folded state equals ZooKeeper's, and digests agree. The ``config`` records of a log
name its level, and so does the beginning of each snapshot.
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
    """Settings of the audit log. Sizes are bytes of uncompressed lines, times are seconds."""

    directory: Path
    """The root of the audit logs. Each cluster and node has a folder below it."""
    fsync: Fsync = "interval"
    """``event``: before requests leave; ``interval``: every ``fsync_interval_s``; ``off``: the kernel decides."""
    fsync_interval_s: float = 0.2
    level: Level = "normal"
    on_failure: OnFailure = "degrade"
    """``degrade``: continue, count lost records, write a gap record after recovery; ``resign``: give up the role."""
    accept_wait_s: float = 0.2
    """The longest time that an event waits until its records are written."""
    segment_bytes: int = 64 * 1024 * 1024
    segment_age_s: float = 3600.0
    max_pending_rows: int = 2_000_000
    """The most rows in the queue; further records are lost. A record without columns counts as one row."""
    retry_s: float = 1.0
    """The pause between two attempts to write after an error."""
    close_wait_s: float = 2.0
    """The longest time that ``close`` waits for the last write."""


def is_written(level: Level, kind: type[Record]) -> bool:
    """Whether records of this kind are written. Callers need not make the others."""
    return level != "off" and not (level == "summary" and kind in _NOT_IN_SUMMARY)


def at_level(level: Level, record: Record) -> Record | None:
    """The record in the form in which this level writes it; None if it is left out."""
    if not is_written(level, type(record)):
        return None
    if isinstance(record, SnapshotBegin):
        return replace(record, level=level)
    if level == "summary" and isinstance(record, ResponseRecord):
        return replace(record, errors={})
    return record
