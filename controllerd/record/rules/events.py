"""Invariants of one event from its beginning to its end: the role, replies, and the brokers to inform. Pure."""

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
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule

_CHANGES: Final[tuple[type[Record], ...]] = (PartitionStateRecord, ReplicaStateRecord, DecisionRecord, LeadershipRecord)


class NothingChangesOutsideOfATerm(Rule):
    """KAFKA-4447: a controller that has resigned must not complete work that it had begun."""

    id = "I-05"
    title = "an event that begins outside of a term, and begins none, makes no decision, transition or write"
    severity = "error"
    question = "Which work continued after the role was lost, and did ZooKeeper accept a write of it?"
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
        """Whether the log has shown the role or the session: it may begin in the middle of a term."""
        self._is_outside = False

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, TermRecord):
            self._knows_role = True
            self._is_outside = self._is_outside and record.change not in TERM_BEGINS
        elif isinstance(record, SessionRecord):
            self._knows_role = True
        elif isinstance(record, EventBegin):
            self._is_outside = self._knows_role and checked.state.controller_epoch == 0
        elif isinstance(record, EventEnd):
            self._is_outside = False
        elif self._is_outside and (isinstance(record, _CHANGES) or _is_fenced_write(record)):
            yield f"{checked.event} wrote a record of kind {record.kind} outside of a term"


def _is_fenced_write(record: object) -> bool:
    return isinstance(record, ZkWriteRecord) and record.fence >= 0 and "ok" in record.results


class LiveBrokersAreSent(Rule):
    """KAFKA-1867: every broker must know the live brokers, even if no partition changes.

    A controller that lost its role meanwhile may notice it only after the event. So a violation is reported with the
    next record of ``kinds``, and not at all if that is the record of a term.
    """

    id = "I-24"
    title = "when brokers started or failed, every registered broker is sent the live brokers before the event ends"
    severity = "error"
    question = "Which brokers and clients still use the old list of live brokers?"
    kinds = frozenset({BrokersRecord, RequestRecord, TermRecord, EventEnd})

    def __init__(self) -> None:
        self._has_changed = False
        self._informed: set[int] = set()
        self._missed = ""

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if self._missed and not isinstance(record, TermRecord):
            yield self._missed
        self._missed = ""
        if isinstance(record, BrokersRecord):
            if record.live or record.gone:
                self._has_changed, self._informed = True, set()
        elif not self._has_changed:
            return
        elif isinstance(record, RequestRecord):
            self._add_request(record, checked)
        elif isinstance(record, TermRecord):
            self._has_changed = False
        elif isinstance(record, EventEnd):
            self._has_changed = False
            missing = sorted(checked.state.brokers.keys() - self._informed)
            if missing and record.outcome == "done":
                self._missed = f"brokers {missing} were not sent the live brokers after {record.name}"

    def _add_request(self, record: RequestRecord, checked: CheckedRecord) -> None:
        if record.api != "UpdateMetadata":
            return
        if {broker for broker in record.live_brokers if broker not in OUR_IDS} == checked.state.brokers.keys():
            self._informed.update(record.brokers)


class StartedBrokersGetFullState(Rule):
    """KAFKA-831: a broker that has just started knows no partition."""

    id = "I-25"
    title = "a started broker is sent every leader, and LeaderAndIsr for every replica that it hosts"
    severity = "error"
    question = "Which replicas on the new broker are idle, or unknown to its clients?"
    kinds = frozenset({SnapshotBegin, SnapshotEnd, BrokersRecord, RequestRecord, EventEnd, TermRecord})

    def __init__(self) -> None:
        self._joined: dict[int, int] = {}
        self._is_loading = False
        self._informed: defaultdict[tuple[str, int], set[TopicPartition]] = defaultdict(set)

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, SnapshotBegin | SnapshotEnd):
            self._is_loading = isinstance(record, SnapshotBegin)
        elif isinstance(record, BrokersRecord) and not self._is_loading:
            self._add_brokers(record, checked)
        elif not self._joined:
            return
        elif isinstance(record, RequestRecord):
            self._add_request(record)
        elif isinstance(record, EventEnd | TermRecord):
            if isinstance(record, EventEnd) and record.outcome == "done":
                yield from self._judge(checked)
            self._joined.clear()
            self._informed.clear()

    def _add_brokers(self, record: BrokersRecord, checked: CheckedRecord) -> None:
        for gone in record.gone:
            self._joined.pop(gone, None)
        for row in record.live:
            known = checked.state.brokers.get(BrokerId(row.id))
            if known is None or known.epoch != row.epoch:
                self._joined[row.id] = row.epoch

    def _add_request(self, record: RequestRecord) -> None:
        targets = zip(record.brokers, record.broker_epochs, strict=True)
        for broker in [broker for broker, epoch in targets if self._joined.get(broker) == epoch]:
            if record.unnamed and not record.topics:  # the record only counts its partitions: nothing can be judged
                del self._joined[broker]
                continue
            rows = zip(record.topics, record.partitions, strict=True)
            self._informed[record.api, broker].update(TopicPartition(topic, number) for topic, number in rows)

    def _judge(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        for joined in self._joined:
            broker = BrokerId(joined)
            shown, ordered = self._informed["UpdateMetadata", joined], self._informed["LeaderAndIsr", joined]
            # Topics being deleted are sent as deleted. After a session expiry alone, the process still knows them.
            deleted = checked.state.deletions
            led = [(tp, known) for tp, known in checked.state.partitions() if known.leadership is not None]
            unseen = [tp for tp, _ in led if tp not in shown]
            idle = [
                tp
                for tp, known in led
                if known.replica_states.get(broker) is ReplicaState.ONLINE
                and tp.topic not in deleted
                and tp not in ordered
            ]
            if unseen:
                hidden = counted(len(unseen), "partition")
                yield f"broker {broker} started and was not sent the metadata of {hidden}, such as {unseen[0]}"
            if idle:
                waiting = counted(len(idle), "replica")
                yield f"broker {broker} started and was sent no LeaderAndIsr for {waiting}, such as {idle[0]}"


class NoBreachAtRuntime(Rule):
    """The daemon checks its own writes and requests before they leave. A breach that it stops is still a defect."""

    id = "RT"
    title = "the daemon found no breach of an invariant in what it was about to do"
    severity = "error"
    question = "Which defect led to this, and did a new term begin after it?"
    kinds = frozenset({AlarmRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if isinstance(checked.record, AlarmRecord) and checked.record.what == "invariant broken":
            yield checked.record.detail


class OneReplyPerCall(Rule):
    """KAFKA-10193: each caller waits for its answer. A second answer would reach another call."""

    id = "I-28"
    title = "a call is answered at most once, in its own event"
    severity = "error"
    question = "Which caller received the answer to another call?"
    kinds = frozenset({EventBegin, EventEnd, ReplyRecord})

    def __init__(self) -> None:
        self._number: int | None = None
        self._has_begun = False
        """Whether the log has the beginning of an event; it may be in a missing part."""

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, EventBegin):
            self._number, self._has_begun = record.number, True
        elif isinstance(record, EventEnd):
            self._number = None
        elif isinstance(record, ReplyRecord):
            if record.number != self._number and self._has_begun:
                yield f"{record.name} {record.number} was answered twice or outside of its event"
            self._number = None
