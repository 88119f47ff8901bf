"""What of all that is recorded is written, by ``audit.level``.

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

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Literal

from controllerd.record.records import (
    DecisionRecord,
    Record,
    ReplicaStateRecord,
    RequestRecord,
    ResponseRecord,
    SnapshotBegin,
    ZkWriteRecord,
)

Level = Literal["off", "summary", "normal", "full"]

_LEFT_OUT: Final[Mapping[Level, tuple[type[Record], ...]]] = {
    "off": (Record,),
    "summary": (DecisionRecord, ReplicaStateRecord, RequestRecord, ZkWriteRecord),
    "normal": (),
    "full": (),
}


def is_written(level: Level, kind: type[Record]) -> bool:
    """Whether records of this kind are written; what is not need not be made."""
    return not issubclass(kind, _LEFT_OUT[level])


def at_level(level: Level, record: Record) -> Record | None:
    """The record as it is written, None if it is left out."""
    if not is_written(level, type(record)):
        return None
    if isinstance(record, SnapshotBegin):
        return replace(record, level=level)
    if level == "summary" and isinstance(record, ResponseRecord):
        return replace(record, errors={})
    return record
