"""Invariants of what one event does from its beginning to its end: role, replies, and who must be told. Pure."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, ReplicaState, TopicPartition
from controllerd.core.text import counted
from controllerd.record.envelope import TERM_BEGINS
from controllerd.record.records import (
    AlarmRecord,
    BrokersRecord,
    DecisionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    ReplicaStateRecord,
    ReplyRecord,
    RequestRecord,
    SessionRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    ZkWriteRecord,
)
from controllerd.record.rules.base import Entry, Evidence, Rule

_MOVES: Final[tuple[type[Record], ...]] = (PartitionStateRecord, ReplicaStateRecord, DecisionRecord, LeadershipRecord)


class NothingMovesOutsideOfATerm(Rule):
    """KAFKA-4447: a controller that has resigned must not work off what it had in hand."""

    id = "I-05"
    title = "an event that begins outside of a term, and begins none, decides, moves and writes nothing"
    severity = "error"
    question = "What was still at work after the role had gone, and did ZooKeeper take any of it?"
    kinds = frozenset(
        {
            TermRecord,
            SessionRecord,
            EventBegin,
            EventEnd,
            PartitionStateRecord,
            ReplicaStateRecord,
            DecisionRecord,
            LeadershipRecord,
            ZkWriteRecord,
        }
    )

    def __init__(self) -> None:
        self._knows_role = False
        self._is_outside = False

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, TermRecord):
            self._knows_role = True
            self._is_outside = self._is_outside and record.change not in TERM_BEGINS
        elif isinstance(record, SessionRecord):
            self._knows_role = True
        elif isinstance(record, EventBegin):
            self._is_outside = self._knows_role and entry.state.controller_epoch == 0
        elif isinstance(record, EventEnd):
            self._is_outside = False
        elif self._is_outside and (isinstance(record, _MOVES) or _is_fenced_write(record)):
            yield f"{entry.event} left a record of kind {record.kind} outside of a term"


def _is_fenced_write(record: object) -> bool:
    return isinstance(record, ZkWriteRecord) and record.fence >= 0 and "ok" in record.results


class MembershipIsTold(Rule):
    """KAFKA-1867: who lives must be known everywhere, though no partition changes.

    A controller that was deposed meanwhile answers no caller, and may notice in the next event only: judged there.
    """

    id = "I-24"
    title = "when brokers came or went, every registered broker is told who lives before the event ends"
    severity = "error"
    question = "Which brokers and clients still believe in the old list of live brokers?"
    kinds = frozenset({BrokersRecord, RequestRecord, TermRecord, EventEnd})

    def __init__(self) -> None:
        self._has_changed = False
        self._told: set[int] = set()
        self._missed = ""

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if self._missed and not isinstance(record, TermRecord):
            yield self._missed
        self._missed = ""
        if isinstance(record, BrokersRecord):
            if record.live or record.gone:
                self._has_changed, self._told = True, set()
        elif not self._has_changed:
            return
        elif isinstance(record, RequestRecord):
            self._see_request(record, entry)
        elif isinstance(record, TermRecord):
            self._has_changed = False
        elif isinstance(record, EventEnd):
            self._has_changed = False
            missing = sorted(entry.state.brokers.keys() - self._told)
            if missing and record.outcome == "done":
                self._missed = f"brokers {missing} were not told who lives after {record.name}"

    def _see_request(self, record: RequestRecord, entry: Entry) -> None:
        if record.api != "UpdateMetadata":
            return
        if {broker for broker in record.live_brokers if broker not in OUR_IDS} == entry.state.brokers.keys():
            self._told.update(record.brokers)


class NewcomersGetEverything(Rule):
    """KAFKA-831: a broker that has just started knows nothing."""

    id = "I-25"
    title = "a broker that joined is told every leader, and its orders for every replica that it hosts"
    severity = "error"
    question = "Which replicas on the new broker are idle, or unknown to its clients?"
    kinds = frozenset({SnapshotBegin, SnapshotEnd, BrokersRecord, RequestRecord, EventEnd, TermRecord})

    def __init__(self) -> None:
        self._joined: dict[int, int] = {}
        self._is_loading = False
        self._told: defaultdict[tuple[str, int], set[TopicPartition]] = defaultdict(set)

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, SnapshotBegin | SnapshotEnd):
            self._is_loading = isinstance(record, SnapshotBegin)
        elif isinstance(record, BrokersRecord) and not self._is_loading:
            self._see_brokers(record, entry)
        elif not self._joined:
            return
        elif isinstance(record, RequestRecord):
            self._see_request(record)
        elif isinstance(record, EventEnd | TermRecord):
            if isinstance(record, EventEnd) and record.outcome == "done":
                yield from self._judge(entry)
            self._joined.clear()
            self._told.clear()

    def _see_brokers(self, record: BrokersRecord, entry: Entry) -> None:
        for gone in record.gone:
            self._joined.pop(gone, None)
        for row in record.live:
            known = entry.state.brokers.get(BrokerId(row.id))
            if known is None or known.epoch != row.epoch:
                self._joined[row.id] = row.epoch

    def _see_request(self, record: RequestRecord) -> None:
        targets = zip(record.brokers, record.broker_epochs, strict=True)
        for broker in [broker for broker, epoch in targets if self._joined.get(broker) == epoch]:
            if record.unnamed and not record.topics:  # the record does not say which partitions it names
                del self._joined[broker]
                continue
            rows = zip(record.topics, record.partitions, strict=True)
            self._told[record.api, broker].update(TopicPartition(topic, number) for topic, number in rows)

    def _judge(self, entry: Entry) -> Iterator[str | Evidence]:
        for joined in self._joined:
            broker = BrokerId(joined)
            shown, ordered = self._told["UpdateMetadata", joined], self._told["LeaderAndIsr", joined]
            doomed = entry.state.deletions  # shown as gone: where only a session ended, the process knows them still
            led = [(tp, known) for tp, known in entry.state.partitions() if known.leadership is not None]
            unseen = [tp for tp, _ in led if tp not in shown]
            idle = [
                tp
                for tp, known in led
                if known.replica_states.get(broker) is ReplicaState.ONLINE
                and tp.topic not in doomed
                and tp not in ordered
            ]
            if unseen:
                hidden = counted(len(unseen), "partition")
                yield f"broker {broker} joined and was not shown {hidden}, such as {unseen[0]}"
            if idle:
                waiting = counted(len(idle), "replica")
                yield f"broker {broker} joined and has no orders for {waiting}, such as {idle[0]}"


class NothingHadToBeStopped(Rule):
    """The daemon looks at its own writes and requests before they leave; what it stops is a defect all the same."""

    id = "RT"
    title = "the daemon found no breach of an invariant in what it was about to do"
    severity = "error"
    question = "Which defect led to this, and did the term begin anew after it?"
    kinds = frozenset({AlarmRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        if isinstance(entry.record, AlarmRecord) and entry.record.what == "invariant broken":
            yield entry.record.detail


class OneReplyPerCall(Rule):
    """KAFKA-10193: a caller waits for it; a second answer would be another call's."""

    id = "I-28"
    title = "a call is answered at most once, in its own event"
    severity = "error"
    question = "Who got the answer to another's question?"
    kinds = frozenset({EventBegin, EventEnd, ReplyRecord})

    def __init__(self) -> None:
        self._number: int | None = None
        self._has_begun = False
        """Whether an event's beginning was seen: it may stand in a part of the log that is gone."""

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if isinstance(record, EventBegin):
            self._number, self._has_begun = record.number, True
        elif isinstance(record, EventEnd):
            self._number = None
        elif isinstance(record, ReplyRecord):
            if record.number != self._number and self._has_begun:
                yield f"{record.name} {record.number} was answered twice or outside of its event"
            self._number = None
