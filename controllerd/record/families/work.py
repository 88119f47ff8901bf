"""Kinds about work that takes longer than one event, and about its obstacles.

Failed log directories, znodes in quarantine, deletions of topics, pending replica deletions and reassignments.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.record.description import RecordKind, Touched
from controllerd.record.facts import PARTITION, FactRows, Facts, broker_rows, many_rows, one_row
from controllerd.record.phrases import because, listed, partitions_phrase, tally
from controllerd.record.records import (
    DeletionRecord,
    OfflineDirsRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    ReassignmentRecord,
    RejectedRecord,
)
from controllerd.record.state import ClusterState, FoldedDeletion


def _offline_dirs_sentence(record: OfflineDirsRecord) -> str:
    return f"broker {record.broker}: {counted(len(record.partitions), 'replica')} on failed log directories"


def _offline_dirs_from(rows: FactRows) -> OfflineDirsRecord:
    topics, partitions = rows.of("topic", "partition")
    return OfflineDirsRecord(rows.one("broker"), topics, partitions, rows.continues)


def _fold_offline_dirs(state: ClusterState, record: OfflineDirsRecord) -> None:
    rows = {TopicPartition(topic, number) for topic, number in zip(record.topics, record.partitions, strict=True)}
    before = state.offline_dirs.get(BrokerId(record.broker), set()) if record.continues else set()
    state.offline_dirs[BrokerId(record.broker)] = before | rows


OFFLINE_DIRS: Final = RecordKind(
    record=OfflineDirsRecord,
    sentence=_offline_dirs_sentence,
    facts=partial(broker_rows, **PARTITION),
    from_facts=_offline_dirs_from,
    fold=_fold_offline_dirs,
    counter=None,
    in_snapshot=True,
)


def _quarantine_sentence(record: QuarantineRecord) -> str:
    if record.reason is None:
        return f"{record.path} is readable again"
    return f"{record.path} is in quarantine: {record.reason}"


def _fold_quarantine(state: ClusterState, record: QuarantineRecord) -> None:
    if record.reason is None:
        state.quarantine.pop(record.path, None)
    else:
        state.quarantine[record.path] = record.reason


QUARANTINE: Final = RecordKind(
    record=QuarantineRecord,
    sentence=_quarantine_sentence,
    facts=one_row(QuarantineRecord, name="path", reason="reason"),
    from_facts=lambda rows: QuarantineRecord(rows.one("name"), rows.one("reason")),
    fold=_fold_quarantine,
    counter=None,
    in_snapshot=True,
)

REJECTED: Final = RecordKind(
    record=RejectedRecord,
    sentence=lambda record: f"{record.path} is unreadable: {record.reason}",
    facts=one_row(RejectedRecord, name="path", reason="reason"),
    from_facts=None,
    fold=None,
    counter=None,
)


def _deletion_sentence(record: DeletionRecord) -> str:
    why = because(next((reason for reason in record.reasons if reason), None))
    return f"deletion of {listed(record.topics)}: {tally(record.changes)}{why}"


def _deletion_from(rows: FactRows) -> DeletionRecord:
    topics, changes = rows.of("topic", "after")
    return DeletionRecord(topics, changes, rows.nullable("reason", len(topics)))


def _fold_deletion(state: ClusterState, record: DeletionRecord) -> None:
    for name, change, reason in zip(record.topics, record.changes, record.reasons, strict=True):
        deletion = state.deletions.setdefault(name, FoldedDeletion())
        deletion.is_started = deletion.is_started or change == "started"
        if change in ("halted", "resumed"):
            deletion.halted = reason


def _deletion_notes(record: DeletionRecord, tp: TopicPartition) -> Iterator[str]:
    for topic, change, why in zip(record.topics, record.changes, record.reasons, strict=True):
        if topic == tp.topic:
            yield f"deletion of the topic {change}{because(why)}"


DELETION: Final = RecordKind(
    record=DeletionRecord,
    sentence=_deletion_sentence,
    facts=many_rows(topic="topics", after="changes", reason="reasons"),
    from_facts=_deletion_from,
    fold=_fold_deletion,
    counter=None,
    touched=lambda record: Touched(record.topics),
    notes=_deletion_notes,
    in_snapshot=True,
)


def _pending_deletions_from(rows: FactRows) -> PendingDeletionsRecord:
    topics, partitions = rows.of("topic", "partition")
    topic_ids = rows.nullable("name", len(topics))
    return PendingDeletionsRecord(rows.one("broker"), topics, partitions, topic_ids, rows.continues)


def _fold_pending_deletions(state: ClusterState, record: PendingDeletionsRecord) -> None:
    broker = BrokerId(record.broker)
    rows = zip(record.topics, record.partitions, record.topic_ids, strict=True)
    pending = state.pending_deletions.pop(broker, {}) if record.continues else {}
    pending.update((TopicPartition(name, number), topic_id) for name, number, topic_id in rows)
    if pending:
        state.pending_deletions[broker] = pending
    else:
        state.pending_deletions.pop(broker, None)


PENDING_DELETIONS: Final = RecordKind(
    record=PendingDeletionsRecord,
    sentence=lambda record: f"broker {record.broker} has {counted(len(record.partitions), 'pending deletion')}",
    facts=partial(broker_rows, **PARTITION, name="topic_ids"),
    from_facts=_pending_deletions_from,
    fold=_fold_pending_deletions,
    counter=None,
    in_snapshot=True,
)


def _reassignment_facts(record: ReassignmentRecord) -> Facts:
    count = len(record.topics)
    return count, {"after": [record.step] * count, "topic": record.topics, "partition": record.partitions}


def _reassignment_notes(record: ReassignmentRecord, tp: TopicPartition) -> Iterator[str]:
    if tp in zip(record.topics, record.partitions, strict=True):
        yield f"reassignment {record.step}"


REASSIGNMENT: Final = RecordKind(
    record=ReassignmentRecord,
    sentence=lambda record: f"reassignment of {partitions_phrase(record)} {record.step}",
    facts=_reassignment_facts,
    from_facts=None,
    fold=None,
    counter=None,
    touched=lambda record: Touched(record.topics, record.partitions),
    notes=_reassignment_notes,
)

WORK: Final[tuple[RecordKind[Any], ...]] = (
    OFFLINE_DIRS,
    QUARANTINE,
    REJECTED,
    DELETION,
    PENDING_DELETIONS,
    REASSIGNMENT,
)
