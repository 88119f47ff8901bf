"""Each record of the audit log as one sentence for people, for the live feed."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final

from controllerd.core.counted import counted
from controllerd.core.model import NO_LEADER
from controllerd.core.visible import visible
from controllerd.record import observation, records
from controllerd.record.records import Record

_NAMED: Final = 3
TOPICS_SHOWN: Final = 20


def topics_of(record: Record) -> list[str]:
    """The topics that a record names, in order, each once; at most ``TOPICS_SHOWN``."""
    return list(islice(dict.fromkeys(names_of(record)), TOPICS_SHOWN))


def names_of(record: Record) -> Sequence[str]:
    """The topic of each row; none for a record that is about none, or only counts them."""
    names = getattr(record, "topics", None) or getattr(record, "names", None)
    return names if isinstance(names, list) else ()


def partitions_of(record: Record) -> int:
    """How many partitions a record is about."""
    rows = getattr(record, "partitions", None)
    return len(rows) if isinstance(rows, list) and hasattr(record, "topics") else 0


def _rows(record: Record, one: str = "partition") -> str:
    """``payments-7``, or ``12 partitions of payments``, or ``40 partitions of 6 topics``."""
    topics = names_of(record)
    partitions: Sequence[int] = getattr(record, "partitions", ())
    if len(partitions) == 1:
        return f"{topics[0]}-{partitions[0]}"
    different = set(topics)
    whose = topics[0] if len(different) == 1 else counted(len(different), "topic")
    return f"{len(partitions)} {one}s of {whose}" if partitions else f"no {one}s"


def _listed(names: Sequence[object]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(map(str, names[:_NAMED])) + more


def _tally(values: Sequence[str]) -> str:
    return ", ".join(f"{number} {value}" for value, number in Counter(values).most_common(_NAMED))


def _because(reason: str | None) -> str:
    return f": {reason}" if reason else ""


def _session(record: records.SessionRecord) -> str:
    return f"the ZooKeeper session 0x{record.session_id & (2**64 - 1):x} is {record.state}"


def _term(record: records.TermRecord) -> str:
    return f"term {record.controller_epoch}: {record.change}, {record.holder}{_because(record.reason)}"


def _settings(record: observation.SettingsRecord) -> str:
    changed = [
        f"{name} is {value} ({source})" if value == before else f"{name} changed from {before} to {value} ({source})"
        for name, before, value, source in zip(
            record.settings, record.befores, record.values, record.sources, strict=True
        )
    ]
    return _listed(changed)


def _begin(record: records.EventBegin) -> str:
    return f"event {record.number} {record.name} begins after {record.queued_ms:.1f} ms in the queue"


def _end(record: records.EventEnd) -> str:
    took = f"event {record.number} {record.name} {record.outcome} in {record.took_ms:.1f} ms"
    return took + _because(record.error)


def _brokers(record: records.BrokersRecord) -> str:
    parts = [
        f"broker{'s' * (len(ids) > 1)} {_listed(ids)} {what}"
        for ids, what in (
            ([row.id for row in record.live], "alive"),
            (record.gone, "gone"),
            (record.shutting_down, "shutting down"),
        )
        if ids
    ]
    return "; ".join(parts) or "no change of brokers"


def _leadership(record: records.LeadershipRecord) -> str:
    if len(record.leaders) == 1:
        led = "nobody leads" if record.leaders[0] == NO_LEADER else f"broker {record.leaders[0]} leads"
        return f"{led} {_rows(record)}, isr {record.isrs[0]}, leader epoch {record.leader_epochs[0]}"
    lost = record.leaders.count(NO_LEADER)
    return f"leadership of {_rows(record)}" + (f", {lost} without leader" if lost else "")


def _states(record: records.PartitionStateRecord | records.ReplicaStateRecord) -> str:
    what = "replica" if isinstance(record, records.ReplicaStateRecord) else "partition"
    moves = _moves(record.before, record.after)
    told = ", ".join(f"{number} {before} to {after}" for (before, after), number in moves)
    return f"{_rows(record, what)}: {told}"


def _moves(before: Sequence[str], after: Sequence[str]) -> list[tuple[tuple[str, str], int]]:
    """From what to what most of them went, and how many; mostly all did the same, which is quickly seen."""
    rows = len(before)
    if rows and before.count(before[0]) == after.count(after[0]) == rows:
        return [((before[0], after[0]), rows)]
    return Counter(zip(before, after, strict=True)).most_common(_NAMED)


def _refused(record: records.RefusedRecord) -> str:
    return f"{record.what} refused for {_rows(record)}{_because(_counted_reasons(record.reasons))}"


def _counted_reasons(reasons: Sequence[str]) -> str:
    return reasons[0] if len(set(reasons)) == 1 else _tally(reasons)


def _decision(record: records.DecisionRecord) -> str:
    unclean = sum(record.unclean)
    chosen = f", broker {record.leaders[0]}" if len(record.leaders) == 1 else ""
    return f"elected {_rows(record)} ({record.strategy}){chosen}" + (f", {unclean} UNCLEAN" if unclean else "")


def _quarantine(record: records.QuarantineRecord) -> str:
    if record.reason is None:
        return f"{record.path} is understood again"
    return f"{record.path} is left alone: {record.reason}"


def _deletion(record: records.DeletionRecord) -> str:
    why = _because(next((reason for reason in record.reasons if reason), None))
    return f"deletion of {_listed(record.topics)}: {_tally(record.changes)}{why}"


def _zk(record: records.ZkWriteRecord) -> str:
    failed = [result for result in record.results if result != "ok"]
    outcome = f", {_tally(failed)}" if failed else ""
    return f"ZooKeeper wrote {counted(len(record.operations), 'operation')} in {record.took_ms:.1f} ms{outcome}"


def _request(record: records.RequestRecord) -> str:
    partitions = counted(len(record.partitions) + record.unnamed, "partition")
    what = f"{record.api}, continued, with" if record.continues else f"{record.api} for"
    return f"{what} {partitions} queued for {counted(len(record.brokers), 'broker')}"


def _response(record: records.ResponseRecord) -> str:
    error = f", error {record.error}" if record.error else ""
    errors = f", {counted(len(record.errors), 'partition')} with errors" if record.errors else ""
    return f"broker {record.broker} answered {record.api} after {record.took_ms:.1f} ms{error}{errors}"


def _admin(record: observation.AdminRecord) -> str:
    what = f"{record.verb} of {_listed(record.subjects)}" if record.subjects else record.verb
    became = "" if record.step == "asked" else f": {record.step}" + (f", {record.message}" if record.message else "")
    return f"{record.principal} asked for {what}{became}"


def _observation(record: observation.ObservationRecord) -> str:
    return f"{record.cause}: {counted(len(record.partitions), 'partition')} compared, {_tally(record.verdicts)}"


def _offline_dirs(record: records.OfflineDirsRecord) -> str:
    return f"broker {record.broker}: {counted(len(record.partitions), 'replica')} on failed log directories"


def _snapshot(record: records.SnapshotEnd) -> str:
    brokers, topics = counted(record.brokers, "broker"), counted(record.topics, "topic")
    return f"snapshot of {brokers}, {topics} and {counted(record.partitions, 'partition')}"


_SENTENCES: Final[Mapping[type[Record], Callable[..., str]]] = {
    records.SessionRecord: _session,
    records.TermRecord: _term,
    records.ConfigRecord: lambda record: f"configured with {counted(len(record.values), 'key')}",
    observation.SettingsRecord: _settings,
    records.SnapshotBegin: lambda record: f"snapshot of epoch {record.controller_epoch} begins",
    records.SnapshotEnd: _snapshot,
    records.DigestRecord: lambda record: f"digest {record.digest[:12]} of {counted(record.partitions, 'partition')}",
    records.EventBegin: _begin,
    records.EventEnd: _end,
    records.ReplyRecord: lambda record: f"event {record.number} {record.name} answered: {record.summary}",
    records.BrokersRecord: _brokers,
    records.TopicsRecord: lambda record: f"topics {_listed(record.names)} known",
    records.TopicsForgotten: lambda record: f"topics {_listed(record.names)} gone",
    records.AssignmentRecord: lambda record: f"assignment of {_rows(record)}",
    records.LeadershipRecord: _leadership,
    records.PartitionStateRecord: _states,
    records.ReplicaStateRecord: _states,
    records.RefusedRecord: _refused,
    records.DecisionRecord: _decision,
    records.OfflineDirsRecord: _offline_dirs,
    records.QuarantineRecord: _quarantine,
    records.RejectedRecord: lambda record: f"{record.path} cannot be understood: {record.reason}",
    records.DeletionRecord: _deletion,
    records.PendingDeletionsRecord: lambda record: (
        f"broker {record.broker} owes {counted(len(record.partitions), 'deletion')}"
    ),
    records.ReassignmentRecord: lambda record: f"reassignment of {_rows(record)} {record.step}",
    records.ZkWriteRecord: _zk,
    records.RequestRecord: _request,
    records.ResponseRecord: _response,
    observation.AdminRecord: _admin,
    observation.ObservationRecord: _observation,
    records.AlarmRecord: lambda record: f"{record.what}: {record.detail}",
    records.GapRecord: lambda record: f"{counted(record.lost, 'record')} lost: {record.reason}",
}


def summary_of(record: Record) -> str:
    """The sentence, on one line; for a kind that has none of its own, its name."""
    sentence = _SENTENCES.get(type(record))
    return visible(sentence(record)) if sentence is not None else record.kind.replace("_", " ")
