"""Mutations of valid logs: each one changes one small thing, which one rule must find."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from controllerd.core.model import NO_LEADER
from controllerd.record.records import (
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    Record,
    RequestRecord,
    SessionRecord,
    TermRecord,
)
from controllerd.record.rules.base import LeadershipChange
from tests.record.logs import Log
from tests.record.mutation import Edit, Place, cells, edited, rewritten, with_record, without

ALTER: Final = "AlterPartitionReceived"
BLOCK: Final = "/latest_producer_id_block"
UNKNOWN_BROKER: Final = 99
_QUIET: Final = 6
"""The number of times at which events end without a disturbance."""
_SLOWER: Final = 1_000_000
LATEST: Final = 10**12
"""More than any zxid."""

Row = Callable[[Place, LeadershipChange], dict[str, object] | None]


def own_change(edit: Row, *, asked: bool | None = False) -> Edit:
    """One write of a state, the last one of its partition; ``asked``: in an AlterPartition, None for both."""

    def change(place: Place, record: LeadershipRecord) -> Record | None:
        rows = list(zip(record.topics, record.partitions, strict=True))
        later = {tp for more in place.later(LeadershipRecord) for tp in zip(more.topics, more.partitions, strict=True)}
        for found in place.changes:
            is_next = found.before is not None and found.after.partition_epoch == found.before.partition_epoch + 1
            if asked not in (None, place.event == ALTER) or not (found.is_ours and is_next) or found.tp in later:
                continue
            if rows.count(found.tp) == 1 and (columns := edit(place, found)) is not None:
                return cells(record, rows.index(found.tp), **columns)
        return None

    return edited(LeadershipRecord, change)


def replicas(place: Place, change: LeadershipChange) -> tuple[int, ...]:
    known = place.state.partition(change.tp)
    return known.assignment.replicas if known is not None else ()


# -- leaderships -------------------------------------------------------------------------------------------------------


def unassigned_in_sync(_place: Place, change: LeadershipChange) -> dict[str, object]:
    return {"isrs": [*change.after.isr, UNKNOWN_BROKER]}


def failed_in_sync(place: Place, change: LeadershipChange) -> dict[str, object] | None:
    dead = [b for b in replicas(place, change) if b not in place.state.live and b not in change.after.isr]
    before = change.before.isr if change.before is not None else ()
    return {"isrs": [*change.after.isr, dead[0]]} if dead and dead[0] not in before else None


def leader_that_left(_place: Place, change: LeadershipChange) -> dict[str, object] | None:
    assert change.before is not None
    left = [b for b in change.before.isr if b not in change.after.isr]
    return {"leaders": left[0]} if left and change.after.isr else None


def same_epoch(_place: Place, change: LeadershipChange) -> dict[str, object] | None:
    assert change.before is not None
    return {"leader_epochs": change.before.leader_epoch}


def lower_epoch(_place: Place, change: LeadershipChange) -> dict[str, object] | None:
    assert change.before is not None
    return {"leader_epochs": change.before.leader_epoch - 1} if change.before.leader_epoch > 0 else None


def next_epoch(_place: Place, change: LeadershipChange) -> dict[str, object]:
    return {"leader_epochs": change.after.leader_epoch + 1}


def outsider_leads(place: Place, change: LeadershipChange) -> dict[str, object] | None:
    assert change.before is not None
    others = [b for b in replicas(place, change) if b not in change.before.isr]
    return {"leaders": others[0], "isrs": [others[0]]} if others else None


def other_leader(_place: Place, change: LeadershipChange) -> dict[str, object] | None:
    others = [b for b in change.after.isr if b != change.after.leader]
    return {"leaders": others[0]} if others and change.before and others[0] in change.before.isr else None


def without_leader(place: Place, change: LeadershipChange) -> dict[str, object] | None:
    """A partition that could have a leader, at a time without disturbances."""
    is_free = not place.state.quarantine and change.tp.topic not in place.state.deletions
    is_live = change.after.leader in place.state.live
    return {"leaders": NO_LEADER} if is_free and is_live and is_quiet_after(place) else None


def is_quiet_after(place: Place) -> bool:
    """Whether events follow at several times before brokers, terms, sessions or deletions change."""
    times = set[int]()
    for envelope, record in place.log[place.index + 1 :]:
        if (envelope.node, envelope.boot) == (place.envelope.node, place.envelope.boot):
            if isinstance(record, BrokersRecord | TermRecord | SessionRecord | DeletionRecord):
                break
            if isinstance(record, EventEnd):
                times.add(envelope.mono_ns)
    return len(times) > _QUIET


def in_slow_motion(edit: Edit) -> Edit:
    """Stretch the log in time, so that short states last too long."""

    def slow(log: Log) -> Log | None:
        found = edit(log)
        return found and [(replace(envelope, mono_ns=envelope.mono_ns * _SLOWER), record) for envelope, record in found]

    return slow


def recovering(_place: Place, change: LeadershipChange) -> dict[str, object] | None:
    return None if change.after.recovery_state else {"recovery_states": 1}


def recovers_alone(place: Place, record: EventBegin) -> Record | None:
    """The recovery ends in an event that is no AlterPartition."""
    if record.name != ALTER:
        return None
    states = [state for _, r in place.of_event(LeadershipRecord) for state in r.recovery_states]
    return replace(record, name="BrokerChange") if states == [0] and _was_recovering(place) else None


def _was_recovering(place: Place) -> bool:
    ((_, changed),) = place.of_event(LeadershipRecord)
    known = place.state.topics[changed.topics[0]].partitions[changed.partitions[0]].leadership
    return known is not None and known.recovery_state == 1


def clean(_place: Place, record: DecisionRecord) -> Record | None:
    return replace(record, unclean=[False] * len(record.unclean)) if any(record.unclean) else None


def unrecorded(place: Place, record: DecisionRecord) -> Log | None:
    return without(place.log, place.index) if any(record.unclean) else None


def second_in_sync(place: Place, record: DecisionRecord) -> Record | None:
    """Another member of the ISR than the first one in the order of the assignment."""
    for index, (leader, isr) in enumerate(zip(record.leaders, record.isrs, strict=True)):
        others = [broker for broker in isr if broker != leader]
        if record.strategy in ("Offline", "Preferred") and others and not record.unclean[index]:
            return cells(record, index, leaders=others[0])
    return None


# -- requests ----------------------------------------------------------------------------------------------------------


def request(edit: Callable[[Place, RequestRecord], Record | None], *apis: str) -> Edit:
    """One request of these kinds, and no part of a longer one."""
    return edited(RequestRecord, lambda place, record: edit(place, record) if record.api in apis else None)


def epochs_before(place: Place, record: RequestRecord, row: int) -> list[int]:
    """The leader epochs of this partition that one of the brokers was sent before, in this registration and term."""
    wanted, found = (record.topics[row], record.partitions[row]), []
    targets = set(zip(record.brokers, record.broker_epochs, strict=True))
    for index in place.earlier(RequestRecord):
        sent = place.log[index][1]
        assert isinstance(sent, RequestRecord)
        is_same = sent.api == record.api and sent.controller_epoch == record.controller_epoch
        if is_same and targets & set(zip(sent.brokers, sent.broker_epochs, strict=True)):
            rows = zip(sent.topics, sent.partitions, sent.leader_epochs, strict=True)
            found += [epoch for *tp, epoch in rows if tuple(tp) == wanted]
    return found


def older_leader(place: Place, record: RequestRecord) -> Record | None:
    for row, leader in enumerate(record.leaders):
        if leader >= 0 and (before := epochs_before(place, record, row)):
            return cells(record, row, leader_epochs=max(before) - 1)
    return None


def future_epoch(_place: Place, record: RequestRecord) -> Record | None:
    row = next((row for row, leader in enumerate(record.leaders) if leader >= 0), None)
    return None if row is None else cells(record, row, partition_epochs=record.partition_epochs[row] + 7)


def deleted_leader(_place: Place, record: RequestRecord) -> Record | None:
    return cells(record, 0, leaders=-2) if record.leaders else None


def older_term(place: Place, record: RequestRecord) -> Record | None:
    is_bare = not record.topics and not _first_recipients(place, record)
    return replace(record, controller_epoch=record.controller_epoch - 1) if is_bare else None


def to_an_unknown_broker(_place: Place, record: RequestRecord) -> Record:
    return replace(record, brokers=[*record.brokers, UNKNOWN_BROKER], broker_epochs=[*record.broker_epochs, 1])


def to_an_earlier_registration(_place: Place, record: RequestRecord) -> Record:
    brokers, epochs = [*record.brokers, record.brokers[0]], [*record.broker_epochs, record.broker_epochs[0] - 1]
    return replace(record, brokers=brokers, broker_epochs=epochs)


def without_live_brokers(place: Place, record: RequestRecord) -> Record | None:
    """The first request of a term to a broker."""
    return replace(record, live_brokers=[]) if _first_recipients(place, record) else None


def _first_recipients(place: Place, record: RequestRecord) -> set[tuple[int, int]]:
    """The brokers of the request that were sent no earlier request in this term."""
    targets = set(zip(record.brokers, record.broker_epochs, strict=True))
    for index in place.earlier(RequestRecord):
        sent = place.log[index][1]
        assert isinstance(sent, RequestRecord)
        if sent.controller_epoch == record.controller_epoch:
            targets -= set(zip(sent.brokers, sent.broker_epochs, strict=True))
    return targets


def with_deletion(place: Place, record: RequestRecord) -> Record | None:
    """Add the deletion to the stop of a replica that stays assigned."""
    for row, (topic, number) in enumerate(zip(record.topics, record.partitions, strict=True)):
        topics = place.state.topics.get(topic)
        known = topics.partitions.get(number) if topics is not None else None
        if known is None or record.delete[row] or topic in place.state.deletions:
            continue
        if all(b in known.assignment.target for b in record.brokers):
            return cells(record, row, delete=True)
    return None


def still_in_sync(place: Place, record: RequestRecord) -> Log | None:
    """The deleted replica of a reassignment had never left the ISR."""
    for topic, number, delete in zip(record.topics, record.partitions, record.delete, strict=False):
        if not delete or topic in place.state.deletions:
            continue
        for index in reversed(place.earlier(LeadershipRecord)):
            written = place.log[index][1]
            assert isinstance(written, LeadershipRecord)
            rows = list(zip(written.topics, written.partitions, strict=True))
            if (topic, number) in rows:
                row = rows.index((topic, number))
                return with_record(place.log, index, cells(written, row, isrs=[*written.isrs[row], *record.brokers]))
    return None


def old_list_after_a_failure(place: Place, record: BrokersRecord) -> Log | None:
    """Send all recipients the earlier list of live brokers, in an event in which the broker does not restart."""
    is_bounce = any(other.live for _, other in place.of_event(BrokersRecord))
    if not record.gone or not place.state.controller_epoch or is_bounce:
        return None
    return _in_event(place, lambda sent: replace(sent, live_brokers=[*sent.live_brokers, *record.gone]))


def started_broker_gets_nothing(api: str) -> Edit:
    """Leave out the rows of one kind of request from all requests of the event to a started broker."""

    def edit(place: Place, record: BrokersRecord) -> Log | None:
        known = place.state.brokers
        joined = [row.id for row in record.live if place.state.controller_epoch and row.id not in known]
        columns = ("topics", "partitions", "leaders", "leader_epochs", "partition_epochs", "is_new")
        emptied: dict[str, Any] = {column: [] for column in columns}

        def spoil(sent: RequestRecord) -> RequestRecord:
            return replace(sent, **emptied) if concerns(sent) else sent

        def concerns(sent: RequestRecord) -> bool:
            return sent.api == api and bool(sent.topics) and bool(set(sent.brokers) & set(joined))

        is_place = place.event == "BrokerChange" and any(concerns(sent) for _, sent in place.of_event(RequestRecord))
        return _in_event(place, spoil) if is_place else None

    return rewritten(BrokersRecord, edit)


def _in_event(place: Place, edit: Callable[[RequestRecord], RequestRecord]) -> Log | None:
    log, found = place.log, place.of_event(RequestRecord)
    for index, sent in found:
        log = with_record(log, index, edit(sent))
    return log if found else None
