"""No true log breaks a rule, and one small thing wrong in a true log is found: by its rule, and by no other but where
one thing breaks two."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import chain
from typing import Any, Final

import pytest

from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.invariants import RULES, check
from controllerd.record.records import (
    AlarmRecord,
    AssignmentRecord,
    BrokersRecord,
    DecisionRecord,
    DeletionRecord,
    DigestRecord,
    EventBegin,
    EventEnd,
    GapRecord,
    LeadershipRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    Record,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    ResponseRecord,
    SnapshotEnd,
    TermRecord,
    TopicsRecord,
    ZkWriteRecord,
)
from tests.record import mutations as m
from tests.record.logs import Log, stamped_log
from tests.record.mutation import Edit, Place, R, cells, edited, rewritten, with_more, with_record, without
from tests.record.test_true_elections import played, unclean_by_request, unclean_by_topic
from tests.record.true_logs import MORE_SEEDS, SEEDS, true_log

UM, LAI, STOP = "UpdateMetadata", "LeaderAndIsr", "StopReplica"


@cache
def unclean_logs() -> list[Log]:
    """Logs with leaders from outside the ISR, which are rare in the simulation."""
    worlds = [asyncio.run(played(story)) for story in (unclean_by_request, unclean_by_topic)]
    return [stamped_log(world.audit.whole) for world in worlds]


def mutated(edit: Edit) -> Log:
    """The first true log in which there is a place for it, with that one thing wrong."""
    for true in chain(map(true_log, SEEDS), unclean_logs(), map(true_log, MORE_SEEDS)):
        if (log := edit(true)) is not None:
            return log
    raise AssertionError("no true log has a place for this")


# -- edits of single records -------------------------------------------------------------------------------------------


def doubled(kind: type[R], chosen: Callable[[R], bool] = lambda _record: True) -> Edit:
    return rewritten(kind, lambda place, record: with_more(place.log, place.index, record) if chosen(record) else None)


def unwritten(kind: type[Record], chosen: Callable[[Place, Record], bool]) -> Edit:
    return rewritten(kind, lambda place, record: without(place.log, place.index) if chosen(place, record) else None)


def renamed_term(_place: Place, record: TermRecord) -> Record | None:
    is_second = record.change == "elected" and record.controller_epoch > 1
    return replace(record, controller_epoch=record.controller_epoch - 1) if is_second else None


def other_fence(_place: Place, record: ZkWriteRecord) -> Record | None:
    return replace(record, fence=record.fence - 1) if record.fence > 0 else None


def no_fence(_place: Place, record: ZkWriteRecord) -> Record | None:
    return replace(record, fence=-1) if record.fence > 0 and record.paths[0].startswith("/brokers/topics") else None


def other_version_won(_place: Place, record: TermRecord) -> Record | None:
    return replace(record, epoch_zk_version=record.epoch_zk_version + 1) if record.change in TERM_BEGINS else None


def late_write(place: Place, record: ZkWriteRecord) -> Record | None:
    """A write of a term that another term followed."""
    is_last = max(envelope.epoch for envelope, _ in place.log) == place.envelope.epoch
    return replace(record, zxid=m.LATEST) if record.fence > 0 and "ok" in record.results and not is_last else None


def early_write(place: Place, record: ZkWriteRecord) -> Record | None:
    wrote = [e.epoch for e, r in place.log[: place.index] if isinstance(r, ZkWriteRecord) and r.fence > 0 and r.zxid]
    is_second = wrote and wrote[-1] < place.envelope.epoch
    return replace(record, zxid=1) if record.fence > 0 and "ok" in record.results and is_second else None


def move_after_the_term(place: Place, record: TermRecord) -> Log | None:
    ends = record.change in ("resigned", "fenced", "expired") and place.event != ""
    moved = PartitionStateRecord(["t"], [0], ["OnlinePartition"], ["OfflinePartition"])
    event = [EventBegin(10**6, "TopicChange", 0, 0.1), moved, EventEnd(10**6, "TopicChange", "done", 0.1)]
    at = next((i for i, r in place.of_event(EventEnd)), None) if ends else None
    return None if at is None else with_more(place.log, at, *event)


def write_in_quarantine(place: Place, record: ZkWriteRecord) -> Record | None:
    path = next((path for path in place.state.quarantine if path.endswith("/state")), None)
    row = next((i for i, o in enumerate(record.operations) if o == "setData" and record.results[i] == "ok"), None)
    is_free = path is not None and row is not None and record.paths[row].endswith("/state")
    return cells(record, row, paths=path) if is_free and row is not None else None


def with_unknown_outcome(place: Place, record: ZkWriteRecord) -> Record | None:
    """A write of the event has an unknown outcome, but a request of the same event names its partition."""
    named = {
        f"/brokers/topics/{topic}/partitions/{number}/state"
        for index, sent in place.of_event(RequestRecord)
        if index > place.index
        for topic, number in zip(sent.topics, sent.partitions, strict=True)
    }
    others = [r for i, r in place.of_event(ZkWriteRecord) if i > place.index]
    if record.fence <= 0 or len(record.paths) != 1 or record.paths[0] not in named or others:
        return None
    return replace(record, results=["unknown"], ambiguous=True)


def topic_before_its_data(place: Place, record: ReplicaStateRecord) -> Log | None:
    """One of the replicas of a topic that goes in the end was never said to be deleted."""
    gone = {p.split("/")[3] for r in place.later(ZkWriteRecord) for o, p in zip(r.operations, r.paths, strict=True)
            if o == "delete" and p.startswith("/brokers/topics/") and p.count("/") == 3}  # fmt: skip
    rows = zip(record.topics, record.after, strict=True)
    is_last = any(topic in gone and after == "ReplicaDeletionSuccessful" for topic, after in rows)
    return without(place.log, place.index) if is_last and len(set(record.topics)) == 1 else None


def marker_before_topic(place: Place, record: ZkWriteRecord) -> Log | None:
    """The request to delete is removed first."""
    deleted = [path for o, path in zip(record.operations, record.paths, strict=True) if o == "delete"]
    markers = [path for path in deleted if path.startswith("/admin/delete_topics/")]
    if len(markers) != 1 or record.results[0] != "ok":
        return None
    name = markers[0].rsplit("/", 1)[1]
    before = [i for i, r in place.of_event(ZkWriteRecord) if i < place.index and f"/brokers/topics/{name}" in r.paths]
    if not before or name not in place.state.deletions:
        return None
    first = place.log[before[0]][1]
    assert isinstance(first, ZkWriteRecord)
    return with_record(with_record(place.log, before[0], record), place.index, first)


def other_column(column: str, before: str, cell: str) -> Callable[[Place, Record], Record | None]:
    """A state machine goes another way; not while it starts."""

    def edit(place: Place, record: Record) -> Record | None:
        if place.event in ("Startup", "Reelect", "ControllerChange", "RegisterBrokerAndReelect", "Takeover"):
            return None
        values = getattr(record, column)
        return cells(record, values.index(before), **{column: cell}) if before in values else None

    return edit


def not_added(place: Place, record: AssignmentRecord) -> Record | None:
    begun = {tp for _, r in place.of_event(ReassignmentRecord) if r.step == "begun"
             for tp in zip(r.topics, r.partitions, strict=True)}  # fmt: skip
    for row, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
        if tp in begun and record.adding[row]:
            return cells(record, row, adding=[])
    return None


def _completes(place: Place, record: AssignmentRecord) -> int | None:
    """The row that ends a reassignment for good, whose replicas all stay live."""
    ending = {tp for _, r in place.of_event(ReassignmentRecord) if r.step == "completing"
              for tp in zip(r.topics, r.partitions, strict=True)}  # fmt: skip
    later = {tp for r in place.later(AssignmentRecord) for tp in zip(r.topics, r.partitions, strict=True)}
    for row, tp in enumerate(zip(record.topics, record.partitions, strict=True)):
        if tp in ending - later and not record.adding[row] and not record.removing[row]:
            return row
    return None


def one_replica_too_few(place: Place, record: AssignmentRecord) -> Record | None:
    row = _completes(place, record)
    if row is None or len(record.replicas[row]) < 2:
        return None
    return cells(record, row, replicas=record.replicas[row][:-1])


def never_completed(place: Place, record: AssignmentRecord) -> Record | None:
    """The topic znode keeps what is being removed, in quiet times."""
    row = _completes(place, record)
    if row is None or not m.is_quiet_after(place):
        return None
    known = place.state.topics[record.topics[row]].partitions[record.partitions[row]].assignment
    if not known.is_being_reassigned:
        return None
    return cells(record, row, replicas=known.replicas, adding=known.adding, removing=known.removing)


def unasked(place: Place, record: Record) -> bool:
    """The one step of an event that changed an assignment."""
    steps, assigned = place.of_event(ReassignmentRecord), place.of_event(AssignmentRecord)
    wrote = {path for _, r in place.of_event(ZkWriteRecord) for path in r.paths}
    return len(steps) == 1 and any(f"/brokers/topics/{r.topics[0]}" in wrote for _, r in assigned)


def by_another(place: Place, record: EventBegin) -> Record | None:
    changed = [len(r.topics) for _, r in place.of_event(LeadershipRecord)]
    is_one = record.name == m.ALTER and changed == [1] and not place.of_event(DecisionRecord)
    return replace(record, detail={**record.detail, "broker": m.UNKNOWN_BROKER}) if is_one else None


def block_from(shift: int) -> Edit:
    """A block that follows another one of the same log begins elsewhere."""

    def edit(place: Place, record: ReplyRecord) -> Record | None:
        if record.name != "AllocateProducerIds" or "error NONE, start " not in record.summary:
            return None
        start = int(record.summary.split("start ")[1].split(",")[0])
        summary = record.summary.replace(f"start {start}", f"start {start + shift}")
        return replace(record, summary=summary) if start else None

    return edited(ReplyRecord, edit)


def other_answer(column: str, change: Callable[[object], object]) -> Edit:
    """The second answer of a broker to the first kind of request differs."""

    def edit(place: Place, record: ResponseRecord) -> Record | None:
        same = [i for i in place.earlier(ResponseRecord) if _channel(place.log[i][1]) == _channel(record)]
        other: dict[str, Any] = {column: change(getattr(record, column))}
        return replace(record, **other) if same and not record.error else None

    return edited(ResponseRecord, edit)


def _channel(record: Record) -> tuple[int, int]:
    assert isinstance(record, ResponseRecord)
    return record.broker, record.broker_epoch


def torn(log: Log) -> Log:
    """Remove a line without a gap record."""
    at = next(i for i, (_, record) in enumerate(log) if isinstance(record, ResponseRecord))
    return log[:at] + log[at + 1 :]


def clock_back(log: Log) -> Log:
    at = next(i for i, (_, record) in enumerate(log) if isinstance(record, ResponseRecord))
    return [*log[:at], (replace(log[at][0], mono_ns=0), log[at][1]), *log[at + 1 :]]


def twice(log: Log) -> Log:
    """Repeat a line."""
    at = next(i for i, (_, record) in enumerate(log) if isinstance(record, AlarmRecord | PartitionStateRecord))
    return [*log[: at + 1], log[at], *log[at + 1 :]]


def wrong_gap(log: Log) -> Log:
    """Remove two lines, and declare one as lost."""
    at = next(i for i, (_, record) in enumerate(log) if isinstance(record, ResponseRecord))
    envelope = log[at][0]
    gap = GapRecord(1, envelope.seq, envelope.seq, "disk full")
    return [*log[:at], (replace(envelope, kind=gap.kind, seq=envelope.seq + 2), gap), *log[at + 1 :]]


def decision_without_isr(_place: Place, record: DecisionRecord) -> Record | None:
    return None if record.unclean[0] else cells(record, 0, isrs=[], leaders=-1)


def one_partition_more(_place: Place, record: SnapshotEnd) -> Record:
    return replace(record, partitions=record.partitions + 1)


def halted(**columns: str) -> Edit:
    """Change the record of a deletion that begins to wait, which is not one that gets a further reason."""

    def edit(place: Place, record: DeletionRecord) -> DeletionRecord | None:
        known = place.state.deletions.get(record.topics[0])
        begins = record.changes == ["halted"] and known is not None and known.halted is None
        return cells(record, 0, **columns) if begins else None

    return edited(DeletionRecord, edit)


def writes_a_block(_place: Place, record: Record) -> bool:
    return isinstance(record, ZkWriteRecord) and (record.paths, record.results) == ([m.BLOCK], ["ok"])


def said(what: str, detail: str) -> Edit:
    return rewritten(EventEnd, lambda place, _: with_more(place.log, place.index, AlarmRecord(what, detail)))


MUTATIONS: Final[dict[str, tuple[str, Edit]]] = {
    "an epoch is won a second time": ("I-01", doubled(TermRecord, lambda r: r.change == "elected")),
    "a term has the epoch of the one before": ("I-01", edited(TermRecord, renamed_term)),
    "a write has another fence": ("I-02", edited(ZkWriteRecord, other_fence)),
    "a write has no fence": ("I-02", edited(ZkWriteRecord, no_fence)),
    "a term was won at another version": ("I-02", edited(TermRecord, other_version_won)),
    "a request is of the term before": ("I-03", m.request(m.older_term, UM)),
    "a deposed controller writes": ("I-04", edited(ZkWriteRecord, late_write)),
    "a new controller wrote before the old one": ("I-04", edited(ZkWriteRecord, early_write)),
    "an event moves a partition after the term": ("I-05", rewritten(TermRecord, move_after_the_term)),
    "an ISR is empty": ("I-06", m.own_change(lambda _p, _c: {"isrs": [], "leaders": -1}, asked=False)),
    "a decision leaves an empty ISR": ("I-06", edited(DecisionRecord, decision_without_isr)),
    "an unassigned broker is in sync": ("I-07", m.own_change(m.unassigned_in_sync)),
    "a failed broker joins the ISR": ("I-08", m.own_change(m.failed_in_sync, asked=True)),
    "an unassigned broker joins the ISR by request": ("I-08", m.own_change(m.unassigned_in_sync, asked=True)),
    "a leader leads that left the ISR": ("I-09", m.own_change(m.leader_that_left)),
    "a broker is to be led by -2": ("I-09", m.request(m.deleted_leader, LAI)),
    "a broker is sent an older leader": ("I-10", m.request(m.older_leader, LAI)),
    "a broker is sent metadata of a former leader": ("I-11", m.request(m.older_leader, UM)),
    "a leader epoch stays": ("I-12", m.own_change(m.same_epoch)),
    "a leader epoch falls": ("I-12", m.own_change(m.lower_epoch)),
    "a leader epoch falls by request": ("I-12", m.own_change(m.lower_epoch, asked=True)),
    "a leader epoch rises by request": ("I-12", m.own_change(m.next_epoch, asked=True)),
    "metadata has a partition epoch of the future": ("I-13", m.request(m.future_epoch, UM)),
    "LeaderAndIsr has a partition epoch of the future": ("I-13", m.request(m.future_epoch, LAI)),
    "a broker from outside the ISR leads": ("I-14", m.own_change(m.outsider_leads)),
    "an unclean election is recorded as clean": ("I-14", edited(DecisionRecord, m.clean)),
    "an unclean election is not recorded": ("I-14", rewritten(DecisionRecord, m.unrecorded)),
    "the second in the order is elected": ("I-15", edited(DecisionRecord, m.second_in_sync)),
    "a replica comes without being added": ("I-16", edited(AssignmentRecord, not_added)),
    "a replica is lost at the end": ("I-16", edited(AssignmentRecord, one_replica_too_few)),
    "a reassignment is not recorded": ("I-17", unwritten(ReassignmentRecord, unasked)),
    "a running replica is deleted": (
        "I-18", edited(ReplicaStateRecord, other_column("after", "OnlineReplica", "ReplicaDeletionStarted"))),
    "a replica that is being deleted is new": (
        "I-18", edited(ReplicaStateRecord, other_column("after", "ReplicaDeletionStarted", "NewReplica"))),
    "a replica comes from nowhere": (
        "I-18", edited(ReplicaStateRecord, other_column("before", "NewReplica", "NonExistentReplica"))),
    "a partition becomes new again": (
        "I-19", edited(PartitionStateRecord, other_column("before", "NewPartition", "NonExistentPartition"))),
    "a partition that runs is forgotten": (
        "I-19", edited(PartitionStateRecord, other_column("before", "OfflinePartition", "NewPartition"))),
    "a replica in sync is deleted": ("I-20", rewritten(RequestRecord, m.still_in_sync)),
    "an assigned replica is deleted": ("I-21", m.request(m.with_deletion, STOP)),
    "a topic goes before its data": ("I-22", rewritten(ReplicaStateRecord, topic_before_its_data)),
    "the request goes before the topic": ("I-22", rewritten(ZkWriteRecord, marker_before_topic)),
    "the first metadata of a broker has no live brokers": ("I-23", m.request(m.without_live_brokers, UM)),
    "a failure is not sent to brokers": ("I-24", rewritten(BrokersRecord, m.old_list_after_a_failure)),
    "a started broker gets no metadata": ("I-25", m.started_broker_gets_nothing(UM)),
    "a started broker gets no LeaderAndIsr": ("I-25", m.started_broker_gets_nothing(LAI)),
    "a topic has another id": (
        "I-26", edited(TopicsRecord, lambda p, r: cells(r, 0, ids="x" * 22) if r.names[0] in p.state.topics else None)),
    "a request is sent to an unknown broker": ("I-27", m.request(m.to_an_unknown_broker, UM)),
    "a request is sent to an earlier registration of a broker": ("I-27", m.request(m.to_an_earlier_registration, UM)),
    "a call is answered twice": ("I-28", doubled(ReplyRecord)),
    "another call is answered": ("I-28", edited(ReplyRecord, lambda _p, r: replace(r, number=r.number + 1))),
    "an answer has an old number": ("I-29", other_answer("correlation_id", lambda _number: 0)),
    "an unknown broker answers": ("I-29", other_answer("broker", lambda _broker: m.UNKNOWN_BROKER)),
    "an earlier registration of a broker answers": ("I-29", other_answer("broker_epoch", lambda _epoch: 1)),
    "a request that was never sent is answered": ("I-29", other_answer("api", lambda _api: "Nothing")),
    "a snapshot lacks a broker": ("I-30", edited(SnapshotEnd, lambda _p, r: replace(r, brokers=r.brokers + 1))),
    "a snapshot lacks a topic": ("I-30", edited(SnapshotEnd, lambda _p, r: replace(r, topics=r.topics + 1))),
    "a snapshot lacks a partition": ("I-30", edited(SnapshotEnd, one_partition_more)),
    "the controller knew another cluster": ("I-30", edited(DigestRecord, lambda _p, r: replace(r, digest="0" * 16))),
    "a deletion is queued twice": ("I-31", doubled(DeletionRecord, lambda r: r.changes == ["queued"])),
    "a deletion is resumed that never halted": ("I-31", halted(changes="resumed")),
    "a deletion was never queued": ("I-31", halted(topics="unknown")),
    "another broker requests an ISR": ("I-32", edited(EventBegin, by_another)),
    "a request makes another leader": ("I-32", m.own_change(m.other_leader, asked=True)),
    "a partition recovers from nothing": ("I-33", m.own_change(m.recovering)),
    "a partition has recovered by itself": ("I-33", edited(EventBegin, m.recovers_alone)),
    "a partition stays without a leader": ("I-34", m.in_slow_motion(m.own_change(m.without_leader, asked=None))),
    "a reassignment is never completed": ("I-35", m.in_slow_motion(edited(AssignmentRecord, never_completed))),
    "a change was not read": ("I-36", said("picture differs from ZooKeeper", "/brokers/ids")),
    "a znode in quarantine is written": ("I-37", edited(ZkWriteRecord, write_in_quarantine)),
    "brokers are sent a write with an unknown outcome": ("I-38", edited(ZkWriteRecord, with_unknown_outcome)),
    "a block overlaps": ("I-39", block_from(-500)),
    "a block is allocated twice": ("I-39", block_from(-1000)),
    "a block is not written": ("I-39", unwritten(ZkWriteRecord, writes_a_block)),
    "a line is missing": ("I-40", torn),
    "a line is in the log twice": ("I-40", twice),
    "the clock goes back": ("I-40", clock_back),
    "a gap record declares too few lines": ("I-40", wrong_gap),
    "a request was stopped": ("RT", said("invariant broken", "I-06: t-0 would have an empty ISR")),
}  # fmt: skip

COMPANIONS: Final[dict[str, set[str]]] = {
    "a term has the epoch of the one before": {"I-03"},  # its requests have the true one
    "a decision leaves an empty ISR": {"I-15"},  # nor does it elect the first eligible one
    "an unassigned broker joins the ISR by request": {"I-07"},  # which is neither live nor assigned
    "a leader epoch falls by request": {"I-30"},  # a digest follows
    "LeaderAndIsr has a partition epoch of the future": {"I-11"},  # the metadata that follow are older
    "metadata has a partition epoch of the future": {"I-11"},
    "an unclean election is recorded as clean": {"I-33"},  # what follows it is a recovery
    "an unclean election is not recorded": {"I-33"},
    "a partition has recovered by itself": {"I-12"},  # the leader epoch stays, as it does in a request
    "an assigned replica is deleted": {"I-20"},  # which is in sync
    "a partition stays without a leader": {"I-32"},  # after a request of the leader
}
"""The other rules that a mutation violates, and why."""


@pytest.mark.parametrize("seed", SEEDS)
def test_no_true_log_breaks_a_rule(seed: int) -> None:
    assert list(check(true_log(seed))) == []


def test_no_true_log_of_unclean_elections_breaks_a_rule() -> None:
    assert [list(check(log)) for log in unclean_logs()] == [[], []]


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_found_by_its_rule_and_no_other(name: str) -> None:
    rule, edit = MUTATIONS[name]
    found = {violation.id for violation in check(mutated(edit))}
    assert rule in found
    assert found - {rule} <= COMPANIONS.get(name, set())


def test_every_rule_has_a_mutation() -> None:
    assert {rule for rule, _ in MUTATIONS.values()} == {rule.id for rule in RULES}


def test_there_are_at_least_seventy_five_of_them() -> None:
    assert len(MUTATIONS) >= 75
