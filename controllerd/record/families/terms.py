"""Kinds about the instance itself: its session, its terms, the loaded snapshots, and the events that it handled."""

from typing import Any, Final, get_args

from controllerd.core.text import counted
from controllerd.record.description import RecordCounter, RecordKind
from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.facts import FactRows, Facts, Values, as_json, micros, one_row
from controllerd.record.phrases import because
from controllerd.record.records import (
    ConfigRecord,
    DigestRecord,
    EventBegin,
    EventEnd,
    ReplyRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
)
from controllerd.record.state import ClusterState
from events.registry import AnyEvent

SESSION_ENDS: Final = frozenset({"lost", "closed"})
FIRST_PHASE: Final = "election"
"""The phase of a failover that ends with the won election. A failover always begins with it."""


def _session_sentence(record: SessionRecord) -> str:
    return f"the ZooKeeper session 0x{record.session_id & (2**64 - 1):x} is {record.state}"


def _fold_session(state: ClusterState, record: SessionRecord) -> None:
    state.session, state.session_id = record.state, record.session_id
    if record.state in SESSION_ENDS:
        state.controller_epoch = 0


def _session_from(rows: FactRows) -> SessionRecord:
    return SessionRecord(rows.one("name"), **rows.data)


SESSION: Final = RecordKind(
    record=SessionRecord,
    sentence=_session_sentence,
    facts=one_row(SessionRecord, name="state"),
    from_facts=_session_from,
    fold=_fold_session,
    counter=None,
)


def _term_sentence(record: TermRecord) -> str:
    return f"term {record.controller_epoch}: {record.change}, {record.holder}{because(record.reason)}"


def _fold_term(state: ClusterState, record: TermRecord) -> None:
    state.term, state.holder = record.change, record.holder
    # "renewed" is recorded twice: with the old epoch at the end of its term, and with the new epoch when it is won.
    is_end = record.change not in TERM_BEGINS or record.controller_epoch == state.controller_epoch
    state.controller_epoch = 0 if is_end else record.controller_epoch
    state.epoch_zk_version = record.epoch_zk_version


def _term_from(rows: FactRows) -> TermRecord:
    return TermRecord(rows.one("name"), reason=rows.one("reason"), **rows.data)


TERM: Final = RecordKind(
    record=TermRecord,
    sentence=_term_sentence,
    facts=one_row(TermRecord, name="change", reason="reason"),
    from_facts=_term_from,
    fold=_fold_term,
    counter=None,
    phase=lambda record: FIRST_PHASE if record.change in TERM_BEGINS else None,
)

CONFIG: Final = RecordKind(
    record=ConfigRecord,
    sentence=lambda record: f"configured with {counted(len(record.values), 'key')}",
    facts=one_row(ConfigRecord),
    from_facts=None,
    fold=None,
    counter=None,
)


def _fold_snapshot_begin(state: ClusterState, record: SnapshotBegin) -> None:
    if not (record.periodic and state.is_whole):
        state.clear()
        state.is_whole = True
    state.controller_epoch = record.controller_epoch
    if record.periodic:
        state.epoch_zk_version = record.epoch_zk_version


SNAPSHOT_BEGIN: Final = RecordKind(
    record=SnapshotBegin,
    sentence=lambda record: f"snapshot of epoch {record.controller_epoch} begins",
    facts=one_row(SnapshotBegin),
    from_facts=lambda rows: SnapshotBegin(**rows.data),
    fold=_fold_snapshot_begin,
    counter=None,
    phase=lambda record: None if record.periodic else "preparation",
    in_snapshot=True,
)


def _snapshot_sentence(record: SnapshotEnd) -> str:
    brokers, topics = counted(record.brokers, "broker"), counted(record.topics, "topic")
    return f"snapshot of {brokers}, {topics} and {counted(record.partitions, 'partition')}"


SNAPSHOT_END: Final = RecordKind(
    record=SnapshotEnd,
    sentence=_snapshot_sentence,
    facts=one_row(SnapshotEnd),
    from_facts=lambda rows: SnapshotEnd(**rows.data),
    fold=None,
    counter=None,
    phase=lambda _: "loading",
)

DIGEST: Final = RecordKind(
    record=DigestRecord,
    sentence=lambda record: f"digest {record.digest[:12]} of {counted(record.partitions, 'partition')}",
    facts=one_row(DigestRecord, name="digest"),
    from_facts=lambda rows: DigestRecord(rows.one("name"), **rows.data),
    fold=None,
    counter=None,
)


def _begin_sentence(record: EventBegin) -> str:
    return f"event {record.number} {record.name} begins after {record.queued_ms:.1f} ms in the queue"


def _begin_facts(record: EventBegin) -> Facts:
    columns: Values = {"name": (record.name,), "state": (record.state,), "queued_us": (micros(record.queued_ms),)}
    if record.detail:
        columns["data"] = as_json(record.detail)
    return 1, columns


EVENT_BEGIN: Final = RecordKind(
    record=EventBegin,
    sentence=_begin_sentence,
    facts=_begin_facts,
    from_facts=None,
    fold=None,
    counter=None,
)


def _end_sentence(record: EventEnd) -> str:
    took = f"event {record.number} {record.name} {record.outcome} in {record.took_ms:.1f} ms"
    return took + because(record.error)


def _end_facts(record: EventEnd) -> Facts:
    columns: Values = {"name": (record.name,), "after": (record.outcome,), "took_us": (micros(record.took_ms),)}
    if record.error is not None:
        columns["reason"] = (record.error,)
    return 1, columns


EVENT_END: Final = RecordKind(
    record=EventEnd,
    sentence=_end_sentence,
    facts=_end_facts,
    from_facts=None,
    fold=None,
    counter=RecordCounter(
        "controllerd_event_failures",
        "Events whose handling ended by a defect.",
        "event",
        tuple(event.__name__ for event in get_args(AnyEvent)),
        lambda record: record.name if record.outcome == "error" else None,
    ),
    phase=lambda _: "bringing online",
)

REPLY: Final = RecordKind(
    record=ReplyRecord,
    sentence=lambda record: f"event {record.number} {record.name} answered: {record.summary}",
    facts=lambda record: (1, {"name": (record.name,), "reason": (record.summary,)}),
    from_facts=None,
    fold=None,
    counter=None,
)

TERMS: Final[tuple[RecordKind[Any], ...]] = (
    SESSION,
    TERM,
    CONFIG,
    SNAPSHOT_BEGIN,
    SNAPSHOT_END,
    DIGEST,
    EVENT_BEGIN,
    EVENT_END,
    REPLY,
)
