"""From facts back to records, as far as a fold needs them: the inverse of ``replay.facts.explode``. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from controllerd.record.envelope import Envelope
from controllerd.record.records import (
    SCHEMA_VERSION,
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DeletionRecord,
    DigestRecord,
    GapRecord,
    LeadershipRecord,
    OfflineDirsRecord,
    PartitionStateRecord,
    PendingDeletionsRecord,
    QuarantineRecord,
    Record,
    ReplicaStateRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)

Values = Mapping[str, Sequence[Any]]
"""Facts by column, in the order of the log; a column in which every row is null may be absent."""
_ENVELOPE: Final = ("cluster", "node", "boot", "seq", "epoch", "event", "ts_ms", "mono_us", "kind")


def assemble(columns: Values) -> Iterator[tuple[Envelope, Record]]:
    """The records of these facts, each with its envelope but for ``prev``; kinds that no fold needs are left out.

    :param columns: facts sorted by ``cluster, epoch, node, boot, seq, row``. It may be a part of them: a record whose
        rows are in several parts becomes several, which fold to the same
    """
    count = len(columns["seq"])
    keys = zip(*(columns[name] for name in ("cluster", "node", "boot", "seq")), strict=True)
    start, last = 0, next(keys, None)
    for index, key in enumerate(keys, 1):
        if key != last:
            yield from _record(columns, start, index)
            start, last = index, key
    if count:
        yield from _record(columns, start, count)


def _record(columns: Values, start: int, stop: int) -> Iterator[tuple[Envelope, Record]]:
    kind = columns["kind"][start]
    build = _BUILDERS.get(kind)
    if build is None:
        return
    cluster, node, boot, seq, epoch, event, ts_ms, mono_us, _ = (columns[name][start] for name in _ENVELOPE)
    envelope = Envelope(SCHEMA_VERSION, kind, cluster, node, boot, seq, epoch, event, ts_ms, mono_us * 1000, "")
    yield envelope, build(_Rows(columns, start, stop))


class _Rows:
    """The rows of one record."""

    def __init__(self, columns: Values, start: int, stop: int) -> None:
        self._columns = columns
        self._start = start
        self._stop = stop

    def of(self, *names: str) -> list[list[Any]]:
        """These columns; empty where the record had no rows and its fact speaks of nothing."""
        first = self._columns.get(names[0])
        stop = self._stop if first is not None and first[self._start] is not None else self._start
        return [list(self._columns[name][self._start : stop]) if stop > self._start else [] for name in names]

    def nullable(self, name: str, count: int) -> list[Any]:
        """A column that may be absent."""
        column = self._columns.get(name)
        return list(column[self._start : self._start + count]) if column is not None else [None] * count

    def one(self, name: str) -> Any:
        """The first row's value."""
        column = self._columns.get(name)
        return column[self._start] if column is not None else None

    @property
    def data(self) -> dict[str, Any]:
        """What had no column; empty if the first row is in another part."""
        found = self.one("data")
        return json.loads(found) if found is not None else {}

    @property
    def continues(self) -> bool:
        """Whether this goes on with a record before it, or with a part of itself."""
        return bool(self.one("row") > 0 or self.data.get("continues"))


def _session(rows: _Rows) -> Record:
    return SessionRecord(rows.one("name"), **rows.data)


def _term(rows: _Rows) -> Record:
    return TermRecord(rows.one("name"), reason=rows.one("reason"), **rows.data)


def _snapshot_begin(rows: _Rows) -> Record:
    return SnapshotBegin(**rows.data)


def _snapshot_end(rows: _Rows) -> Record:
    return SnapshotEnd(**rows.data)


def _digest(rows: _Rows) -> Record:
    return DigestRecord(rows.one("name"), **rows.data)


def _gap(rows: _Rows) -> Record:
    return GapRecord(reason=rows.one("reason"), **rows.data)


def _brokers(rows: _Rows) -> Record:
    brokers, changes = rows.of("broker", "after")
    epochs, said = rows.nullable("zxid", len(brokers)), rows.nullable("data", len(brokers))
    record = BrokersRecord()
    for broker, change, epoch, data in zip(brokers, changes, epochs, said, strict=True):
        if change == "live":
            record.live.append(BrokerRow(broker, epoch, **json.loads(data)))
        else:
            (record.gone if change == "gone" else record.shutting_down).append(broker)
    return record


def _topics(rows: _Rows) -> Record:
    names, versions = rows.of("topic", "partition_epoch")
    return TopicsRecord(names, rows.nullable("name", len(names)), versions)


def _topics_forgotten(rows: _Rows) -> Record:
    return TopicsForgotten(*rows.of("topic"))


def _assignment(rows: _Rows) -> Record:
    return AssignmentRecord(*rows.of("topic", "partition", "replicas", "adding", "removing"))


def _leadership(rows: _Rows) -> Record:
    state = ("leader", "leader_epoch", "isr", "state_epoch", "partition_epoch", "recovery")
    return LeadershipRecord(*rows.of("topic", "partition", *state))


def _partition_state(rows: _Rows) -> Record:
    return PartitionStateRecord(*rows.of("topic", "partition", "before", "after"))


def _replica_state(rows: _Rows) -> Record:
    return ReplicaStateRecord(*rows.of("topic", "partition", "broker", "before", "after"))


def _offline_dirs(rows: _Rows) -> Record:
    topics, partitions = rows.of("topic", "partition")
    return OfflineDirsRecord(rows.one("broker"), topics, partitions, rows.continues)


def _quarantine(rows: _Rows) -> Record:
    return QuarantineRecord(rows.one("name"), rows.one("reason"))


def _deletion(rows: _Rows) -> Record:
    topics, changes = rows.of("topic", "after")
    return DeletionRecord(topics, changes, rows.nullable("reason", len(topics)))


def _debt(rows: _Rows) -> Record:
    topics, partitions = rows.of("topic", "partition")
    return PendingDeletionsRecord(
        rows.one("broker"), topics, partitions, rows.nullable("name", len(topics)), rows.continues
    )


_BUILDERS: Final[Mapping[str, Callable[[_Rows], Record]]] = {
    SessionRecord.kind: _session,
    TermRecord.kind: _term,
    SnapshotBegin.kind: _snapshot_begin,
    SnapshotEnd.kind: _snapshot_end,
    DigestRecord.kind: _digest,
    GapRecord.kind: _gap,
    BrokersRecord.kind: _brokers,
    TopicsRecord.kind: _topics,
    TopicsForgotten.kind: _topics_forgotten,
    AssignmentRecord.kind: _assignment,
    LeadershipRecord.kind: _leadership,
    PartitionStateRecord.kind: _partition_state,
    ReplicaStateRecord.kind: _replica_state,
    OfflineDirsRecord.kind: _offline_dirs,
    QuarantineRecord.kind: _quarantine,
    DeletionRecord.kind: _deletion,
    PendingDeletionsRecord.kind: _debt,
}
FOLDED_KINDS: Final = frozenset(_BUILDERS)
"""The facts that are needed; of the others nothing is assembled."""
