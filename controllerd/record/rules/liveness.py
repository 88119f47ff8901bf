"""Invariants about states that must not last: a missing leader, or work that waits without a reason. Pure."""

from collections.abc import Collection, Iterator
from typing import Final

from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, ReplicaState, TopicPartition
from controllerd.record.records import (
    AssignmentRecord,
    BrokersRecord,
    EventEnd,
    LeadershipRecord,
    SessionRecord,
    SnapshotEnd,
    TermRecord,
)
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule
from controllerd.record.state import ClusterState, FoldedPartition

LONGEST_NS: Final = 36_000_000_000
"""Twice the session timeout of 18 s."""
_TOPIC: Final = "/brokers/topics/"
_CHECK_INTERVAL_NS: Final = LONGEST_NS // 6


class LeaderlessPartitionsAreLed(Rule):
    """Liveness within a term and a session: a controller without ZooKeeper can elect no leader.

    The rule checks only at ends of events, because within an event much is half done. It does not check at each end,
    because very many partitions may be without a leader while their ISRs are dead.
    """

    id = "I-34"
    title = "a partition with a live ISR member is without a leader for at most 36 s"
    severity = "error"
    question = "What kept the controller from electing a leader: its queue, ZooKeeper, or a refusal?"
    kinds = frozenset({BrokersRecord, EventEnd, LeadershipRecord, SessionRecord, SnapshotEnd, TermRecord})

    def __init__(self) -> None:
        self._leaderless: dict[TopicPartition, int | None] = {}
        """The time since which a leader could be elected; None if none could at the last check."""
        self._checked_ns = 0

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, state, now_ns = checked.record, checked.state, checked.envelope.mono_ns
        if isinstance(record, LeadershipRecord):
            self._add_leaders(record)
        elif isinstance(record, BrokersRecord):
            gone = set(map(BrokerId, record.gone))
            self._leaderless |= dict.fromkeys(_led_by(gone, state)) if gone else {}
        elif isinstance(record, SnapshotEnd):
            led = ((tp, known.leadership) for tp, known in state.partitions())
            unled = [tp for tp, found in led if found is not None and found.leader not in state.brokers]
            self._leaderless = {tp: self._leaderless.get(tp) for tp in unled}
        elif isinstance(record, SessionRecord | TermRecord):
            self._leaderless = dict.fromkeys(self._leaderless)  # the time counts anew from the next check on
        elif state.controller_epoch and self._leaderless and now_ns - self._checked_ns >= _CHECK_INTERVAL_NS:
            self._checked_ns = now_ns
            yield from self._check_all(state, now_ns)

    def _add_leaders(self, record: LeadershipRecord) -> None:
        for topic, number, leader in zip(record.topics, record.partitions, record.leaders, strict=True):
            tp = TopicPartition(topic, number)
            if leader == NO_LEADER:
                self._leaderless.setdefault(tp)
            else:
                self._leaderless.pop(tp, None)

    def _check_all(self, state: ClusterState, now_ns: int) -> Iterator[str | Evidence]:
        for tp in list(self._leaderless):
            known = state.partition(tp)
            if known is None or known.leadership is None:
                del self._leaderless[tp]
                continue
            candidates = _candidates(tp, known.leadership, state)
            since = self._leaderless[tp]
            if not candidates:
                self._leaderless[tp] = None
            elif since is None:
                self._leaderless[tp] = now_ns
            elif now_ns - since > LONGEST_NS:
                del self._leaderless[tp]
                yield f"{tp} had no leader for {(now_ns - since) / 1e9:.0f} s, though {candidates} could lead it"


class WorkMakesProgress(Rule):
    """A request that can be completed is completed. A request that must wait has a reason."""

    id = "I-35"
    title = "a deletion or a reassignment that nothing blocks continues within 36 s"
    severity = "warning"
    question = "What does it wait for, although nothing blocks it?"
    kinds = frozenset({AssignmentRecord, EventEnd, SessionRecord, SnapshotEnd, TermRecord})

    def __init__(self) -> None:
        self._moving: set[TopicPartition] = set()
        self._since: dict[str, int] = {}
        """The time since which each one could continue, by its evidence text."""
        self._checked_ns = 0

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record, state, now_ns = checked.record, checked.state, checked.envelope.mono_ns
        if isinstance(record, AssignmentRecord):
            columns = (record.topics, record.partitions, record.adding, record.removing)
            for topic, number, adding, removing in zip(*columns, strict=True):
                if adding or removing:
                    self._moving.add(TopicPartition(topic, number))
        elif isinstance(record, SnapshotEnd):
            self._moving = {tp for tp, known in state.partitions() if known.assignment.is_being_reassigned}
        elif isinstance(record, SessionRecord | TermRecord):
            self._since.clear()
        elif now_ns - self._checked_ns >= _CHECK_INTERVAL_NS and state.controller_epoch:
            self._checked_ns = now_ns
            yield from self._check_all(state, now_ns)

    def _check_all(self, state: ClusterState, now_ns: int) -> Iterator[str]:
        could = [*self._ready_reassignments(state), *_ready_deletions(state)]
        self._since = {what: self._since.get(what, now_ns) for what in could}
        for what, since in self._since.items():
            if now_ns - since > LONGEST_NS:
                self._since[what] = now_ns  # reported again only after as long a time
                yield f"{what} for {(now_ns - since) / 1e9:.0f} s"

    def _ready_reassignments(self, state: ClusterState) -> Iterator[str]:
        for tp in sorted(self._moving):
            known = state.partition(tp)
            if known is None or not known.assignment.is_being_reassigned:
                self._moving.discard(tp)
            elif _can_complete(tp, known, state):
                yield f"the reassignment of {tp} was not completed, though all new replicas are in sync,"


def _can_complete(tp: TopicPartition, known: FoldedPartition, state: ClusterState) -> bool:
    leadership, target = known.leadership, set(known.assignment.target)
    if leadership is None or leadership.leader not in state.live or tp.topic in state.deletions:
        return False
    if _is_quarantined(tp, state) or any(tp in state.offline_dirs.get(broker, ()) for broker in target):
        return False
    return target <= set(leadership.isr) and target <= state.live


def _ready_deletions(state: ClusterState) -> Iterator[str]:
    for name, deletion in sorted(state.deletions.items()):
        topic = state.topics.get(name)
        if topic is None or deletion.halted is not None or _has_quarantined_znode(name, state):
            continue
        left = [replica for known in topic.partitions.values() for replica in known.replica_states.values()]
        if not deletion.is_started:
            yield f"the deletion of {name} was not begun, though nothing blocks it,"
        elif all(replica is ReplicaState.DELETION_SUCCESSFUL for replica in left):
            yield f"the deletion of {name} was not completed, though all its replicas are deleted,"


def _has_quarantined_znode(topic: str, state: ClusterState) -> bool:
    """Whether the znode of the topic, or a znode below it, is in quarantine."""
    path = _TOPIC + topic
    return any(each == path or each.startswith(f"{path}/") for each in state.quarantine)


def _led_by(gone: Collection[BrokerId], state: ClusterState) -> Iterator[TopicPartition]:
    for tp, known in state.partitions():
        if known.leadership is not None and known.leadership.leader in gone:
            yield tp


def _candidates(tp: TopicPartition, leadership: LeaderAndIsr, state: ClusterState) -> list[BrokerId]:
    """The ISR members that could lead now; none if the partition is led, is being deleted, or is in quarantine."""
    if leadership.leader in state.brokers or tp.topic in state.deletions or _is_quarantined(tp, state):
        return []
    live = state.live
    return [broker for broker in leadership.isr if broker in live and tp not in state.offline_dirs.get(broker, ())]


def _is_quarantined(tp: TopicPartition, state: ClusterState) -> bool:
    """Whether a znode of the partition is in quarantine."""
    topic = _TOPIC + tp.topic
    return not state.quarantine.keys().isdisjoint((topic, f"{topic}/partitions/{tp.partition}", tp.state_path))
