"""From records of the audit log to facts: one row per record, or one per partition where it speaks of many. Pure.

Which field goes into which column is a table at the end; what has no column is JSON in ``data``. The inverse, for the
records that a fold needs, is ``replay.facts.assemble``.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from controllerd.record.envelope import UnknownRecord
from controllerd.record.observation import AdminRecord, ObservationRecord, SettingsRecord
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    BrokersRecord,
    ConfigRecord,
    DecisionRecord,
    DeletionRecord,
    DigestRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    ReassignmentRecord,
    Record,
    RefusedRecord,
    RejectedRecord,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
    ZkWriteRecord,
)
from replay.facts.buffer import FactBuffer, Place, short_hash

SOURCE: Final = "audit"
UNKNOWN_KIND: Final = "unknown_kind"
NO_TERM: Final = frozenset({"held", "refused"})
"""Changes of a term that begin and end none: the epoch in them is somebody else's, or an old one."""

Values = dict[str, Sequence[Any]]
Exploded = tuple[int, Values]
"""How many rows, and the values of their columns. For no rows one is made: every record has a fact."""
_encode: Final = msgspec.json.Encoder().encode


class Stamp(Protocol):
    """What of an ``Envelope`` is needed here: a line that was just decoded has it without becoming one."""

    @property
    def kind(self) -> str: ...
    @property
    def cluster(self) -> str: ...
    @property
    def node(self) -> int: ...
    @property
    def boot(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def epoch(self) -> int: ...
    @property
    def event(self) -> int: ...
    @property
    def ts_ms(self) -> int: ...
    @property
    def mono_ns(self) -> int: ...
    @property
    def prev(self) -> str: ...


def explode(
    buffer: FactBuffer, envelope: Stamp, record: Record, *, file: str, line: int, digest: str | None = None
) -> None:
    """Put the facts of one record into the buffer.

    :param file: name of the file that it was read from, and ``line`` the number of its line from 1
    :param digest: the hash of its line in hexadecimal, as the next line's ``prev`` has it; None: nobody computed it
    :raises ValueError: its columns are not equally long, or a hash is no hash; nothing was put in
    """
    count, columns = _EXPLODERS[type(record)](record)
    if not count:
        count, columns = 1, {}
    if digest is not None:
        columns["hash"] = (short_hash(digest),)
    if envelope.prev:
        columns["prev"] = (short_hash(envelope.prev),)
    buffer.put(_place(envelope, record, file, line), columns, count)


def _place(envelope: Stamp, record: Record, file: str, line: int) -> Place:
    epoch, event, kind = envelope.epoch, envelope.event, envelope.kind
    if isinstance(record, EventBegin | EventEnd | ReplyRecord):
        event = record.number
    elif isinstance(record, TermRecord) and record.change not in NO_TERM:
        epoch = record.controller_epoch
    elif isinstance(record, UnknownRecord):
        kind = UNKNOWN_KIND
    return Place(
        envelope.cluster,
        SOURCE,
        envelope.node,
        envelope.boot,
        epoch,
        envelope.seq,
        event,
        envelope.ts_ms,
        envelope.mono_ns // 1000,
        kind,
        file,
        line,
    )


def micros(milliseconds: float) -> int:
    """A duration as facts have it."""
    return round(milliseconds * 1000)


def _json(**said: object) -> tuple[str]:
    return (_encode(said).decode(),)


def _term(record: TermRecord) -> Exploded:
    data = _json(
        controller_epoch=record.controller_epoch, epoch_zk_version=record.epoch_zk_version, holder=record.holder
    )
    return 1, {"name": (record.change,), "reason": (record.reason,), "data": data}


def _event_begin(record: EventBegin) -> Exploded:
    columns: Values = {
        "name": (record.name,),
        "state": (record.state,),
        "queued_us": (micros(record.queued_ms),),
    }
    if record.detail:
        columns["data"] = (_encode(record.detail).decode(),)
    return 1, columns


def _event_end(record: EventEnd) -> Exploded:
    columns: Values = {
        "name": (record.name,),
        "after": (record.outcome,),
        "took_us": (micros(record.took_ms),),
    }
    if record.error is not None:
        columns["reason"] = (record.error,)
    return 1, columns


def _reply(record: ReplyRecord) -> Exploded:
    return 1, {"name": (record.name,), "reason": (record.summary,)}


def _brokers(record: BrokersRecord) -> Exploded:
    live, gone, leaving = record.live, record.gone, record.shutting_down
    rest = len(gone) + len(leaving)
    said: list[str | None] = [_json(endpoints=row.endpoints, rack=row.rack)[0] for row in live]
    return len(live) + rest, {
        "broker": [row.id for row in live] + gone + leaving,
        "after": ["live"] * len(live) + ["gone"] * len(gone) + ["shutting_down"] * len(leaving),
        "zxid": [row.epoch for row in live] + [None] * rest,
        "data": said,
    }


def _decision(record: DecisionRecord) -> Exploded:
    count = len(record.topics)
    return count, {
        "name": [record.strategy] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "leader": record.leaders,
        "isr": record.isrs,
        "unclean": record.unclean,
    }


def _refused(record: RefusedRecord) -> Exploded:
    count = len(record.topics)
    return count, {
        "name": [record.what] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "reason": record.reasons,
    }


def _offline_dirs(record: OfflineDirsRecord) -> Exploded:
    count = max(len(record.topics), 1)
    columns = _or_null({"topic": record.topics, "partition": record.partitions}, count)
    return count, {"broker": [record.broker] * count, **columns, "data": _json(continues=record.continues)}


def _debt(record: PendingDeletionsRecord) -> Exploded:
    count = max(len(record.topics), 1)
    named: Values = {"topic": record.topics, "partition": record.partitions, "name": record.topic_ids}
    return count, {
        "broker": [record.broker] * count,
        **_or_null(named, count),
        "data": _json(continues=record.continues),
    }


def _or_null(columns: Values, count: int) -> Values:
    """Columns of a record whose single row must speak of its broker when it has no partition."""
    return {name: values or [None] * count for name, values in columns.items()}


def _reassignment(record: ReassignmentRecord) -> Exploded:
    count = len(record.topics)
    return count, {"after": [record.step] * count, "topic": record.topics, "partition": record.partitions}


def _zk(record: ZkWriteRecord) -> Exploded:
    data = _json(
        fence=record.fence,
        operations=record.operations,
        paths=record.paths,
        expected=record.expected,
        results=record.results,
        versions=record.versions,
        ambiguous=record.ambiguous,
    )
    return 1, {"zxid": (record.zxid,), "took_us": (micros(record.took_ms),), "data": data}


def _request(record: RequestRecord) -> Exploded:
    data = _json(
        controller_epoch=record.controller_epoch,
        brokers=record.brokers,
        broker_epochs=record.broker_epochs,
        topics=record.topics,
        partitions=record.partitions,
        leaders=record.leaders,
        leader_epochs=record.leader_epochs,
        partition_epochs=record.partition_epochs,
        live_brokers=record.live_brokers,
        delete=record.delete,
        is_new=record.is_new,
        continues=record.continues,
        unnamed=record.unnamed,
        led=record.led,
    )
    return 1, {"name": (record.api,), "data": data}


def _response(record: ResponseRecord) -> Exploded:
    data = _json(
        broker_epoch=record.broker_epoch,
        version=record.version,
        correlation_id=record.correlation_id,
        errors=record.errors,
    )
    return 1, {
        "broker": (record.broker,),
        "name": (record.api,),
        "took_us": (micros(record.took_ms),),
        "error": (record.error,),
        "attempts": (record.attempts,),
        "bytes": (record.bytes_sent,),
        "data": data,
    }


def _observation(record: ObservationRecord) -> Exploded:
    count = len(record.topics)
    data = _json(
        subjects=record.subjects,
        controller_epoch=record.controller_epoch,
        leaders_before=record.leaders_before,
        leader_epochs_before=record.leader_epochs_before,
        isrs_before=record.isrs_before,
        leaders_would=record.leaders_would,
        leader_epochs_would=record.leader_epochs_would,
        isrs_would=record.isrs_would,
        continues=record.continues,
    )
    return count, {
        "name": [record.cause] * count,
        "topic": record.topics,
        "partition": record.partitions,
        "leader": record.leaders_after,
        "leader_epoch": record.leader_epochs_after,
        "isr": record.isrs_after,
        "reason": record.verdicts,
        "data": data,
    }


def _settings(record: SettingsRecord) -> Exploded:
    return len(record.settings), {
        "name": record.settings,
        "before": record.befores,
        "after": record.values,
        "reason": record.problems,
        "data": _json(sources=record.sources),
    }


def _fields(record: Any, columns: Mapping[str, str], data: Sequence[str]) -> Exploded:
    """A record of one row: fields by column, and those that go into ``data``."""
    row: Values = {column: (getattr(record, name),) for column, name in columns.items()}
    if data:
        row["data"] = _json(**{name: getattr(record, name) for name in data})
    return 1, row


def _rows(record: Any, columns: Mapping[str, str]) -> Exploded:
    """A record of columns: fields by column."""
    found = {column: getattr(record, name) for column, name in columns.items()}
    return len(next(iter(found.values()))), found


def _one(kind: type[Record], **columns: str) -> Callable[[Any], Exploded]:
    """One row; the fields that are not named here go into ``data``."""
    rest = [one.name for one in fields(kind) if one.name not in columns.values()]
    return partial(_fields, columns=columns, data=rest)


def _many(**columns: str) -> Callable[[Any], Exploded]:
    return partial(_rows, columns=columns)


_PARTITION: Final = {"topic": "topics", "partition": "partitions"}
_EXPLODERS: Final[Mapping[type[Record], Callable[[Any], Exploded]]] = {
    SessionRecord: _one(SessionRecord, name="state"),
    TermRecord: _term,
    ConfigRecord: _one(ConfigRecord),
    SnapshotBegin: _one(SnapshotBegin),
    SnapshotEnd: _one(SnapshotEnd),
    DigestRecord: _one(DigestRecord, name="digest"),
    EventBegin: _event_begin,
    EventEnd: _event_end,
    ReplyRecord: _reply,
    BrokersRecord: _brokers,
    TopicsRecord: _many(topic="names", name="ids", partition_epoch="znode_versions"),
    TopicsForgotten: _many(topic="names"),
    AssignmentRecord: _many(**_PARTITION, replicas="replicas", adding="adding", removing="removing"),
    LeadershipRecord: _many(
        **_PARTITION,
        leader="leaders",
        leader_epoch="leader_epochs",
        isr="isrs",
        state_epoch="controller_epochs",
        partition_epoch="partition_epochs",
        recovery="recovery_states",
    ),
    PartitionStateRecord: _many(**_PARTITION, before="before", after="after"),
    ReplicaStateRecord: _many(**_PARTITION, broker="brokers", before="before", after="after"),
    RefusedRecord: _refused,
    DecisionRecord: _decision,
    OfflineDirsRecord: _offline_dirs,
    QuarantineRecord: _one(QuarantineRecord, name="path", reason="reason"),
    RejectedRecord: _one(RejectedRecord, name="path", reason="reason"),
    DeletionRecord: _many(topic="topics", after="changes", reason="reasons"),
    PendingDeletionsRecord: _debt,
    ReassignmentRecord: _reassignment,
    ZkWriteRecord: _zk,
    RequestRecord: _request,
    ResponseRecord: _response,
    AdminRecord: _one(AdminRecord, name="verb", reason="reason"),
    AlarmRecord: _one(AlarmRecord, name="what", reason="detail"),
    ObservationRecord: _observation,
    SettingsRecord: _settings,
    GapRecord: _one(GapRecord, reason="reason"),
    UnknownRecord: _one(UnknownRecord, name="name"),
}
