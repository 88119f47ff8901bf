"""Whether a topic whose deletion was requested is still served, because its deletion waits for a reassignment.

PURE. A topic is served in full until its deletion has begun: its leaders are replaced when they die,
its ISR changes are sent to its brokers, and a controlled shutdown moves its leaders. Anything less
would do harm for as long as the reassignment lasts, which may be hours. A partition whose leader dies
would stay without one. A shrunk ISR that is written and not sent would fence the leader, which would
propose its next ISR with an outdated partition epoch. And the reassignment that the deletion waits for
needs leaders, which would not be elected. The built-in controller stops serving a topic as soon as it
is queued for deletion. There that seldom matters, because it mostly starts to delete in the middle of
the reassignment.

A topic ceases to be served in the same event in which its deletion begins, or in the event that
follows (``controllerd.services.deletions.schedule_deletions``). For this reason a leader
that is gone does not end the wait by itself: the election that follows in the event may replace it.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from controllerd.core.deletions import DeletionBook
from controllerd.core.liveness import Liveness
from controllerd.core.model import MAX_LEADER_EPOCH, NO_LEADER, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord, TopicRecord


class DeletionFacts(Protocol):
    """The facts that decide whether a topic is still served; ``ControllerContext`` has them.

    It is a protocol, because ``core/context.py`` imports this module, which so cannot import the context.
    """

    @property
    def deletions(self) -> DeletionBook:
        """The requested deletions, and which of them have begun."""
        ...

    @property
    def topics(self) -> Mapping[str, TopicRecord]:
        """The known topics by name."""
        ...

    @property
    def quarantine(self) -> Mapping[str, str]:
        """The znodes in quarantine by path, each with the reason."""
        ...

    @property
    def being_reassigned(self) -> AbstractSet[TopicPartition]:
        """The partitions of which replicas are being added or removed."""
        ...

    @property
    def liveness(self) -> Liveness:
        """The replicas that are online."""
        ...


def is_hidden(facts: DeletionFacts, topic: str) -> bool:
    """Whether the topic is no longer served, and brokers are sent its deletion: the deletion has begun, or begins.

    A topic is not hidden while its deletion waits for a reassignment: a leader answers no fetch of
    a topic that is gone, so a new replica would never catch up, and both would wait for ever. Nor
    is it hidden while deletions are paused before its own began, or while its znode is in
    quarantine, because no deletion begins then. A new controller does not know which deletions had
    begun. But it may hide each topic whose deletion waits for nothing: either that deletion had begun,
    or it begins before the failover ends.
    """
    book = facts.deletions
    if topic not in book.queued:
        return False
    if topic in book.started or topic in book.begun_before or topic not in facts.topics:
        return True
    if book.paused is not None or f"/brokers/topics/{topic}" in facts.quarantine:
        return False
    return not any(_to_wait_for(facts, topic))


def hidden_topics(facts: DeletionFacts) -> set[str]:
    """Return the hidden topics, for passes over many partitions."""
    return {topic for topic in facts.deletions.queued if is_hidden(facts, topic)}


def reassignments_to_wait_for(facts: DeletionFacts, topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic whose reassignment can still end, so that the deletion waits for it."""
    return list(_to_wait_for(facts, topic))


def _to_wait_for(facts: DeletionFacts, topic: str) -> Iterator[TopicPartition]:
    being_reassigned = facts.being_reassigned
    records = facts.topics[topic].partitions.values() if being_reassigned else ()
    return (each.tp for each in records if each.tp in being_reassigned and _can_end(facts, each))


def _can_end(facts: DeletionFacts, record: PartitionRecord) -> bool:
    """Whether a reassignment can make progress: it has or gets a leader, and the replicas to catch up are online.

    A reassignment in quarantine counts as stuck, because it may never end.
    """
    if f"/brokers/topics/{record.tp.topic}/partitions/{record.tp.partition}" in facts.quarantine:
        return False
    leadership, target = record.leadership, record.assignment.target
    if leadership is None or not _is_led(facts, record, leadership):
        return False
    online = [broker for broker in target if facts.liveness.is_online(broker, record.tp)]
    return bool(online) and all(broker in leadership.isr for broker in target if broker not in online)


def _is_led(facts: DeletionFacts, record: PartitionRecord, leadership: LeaderAndIsr) -> bool:
    """Whether the partition has a leader, or an election can replace its leader from the ISR.

    A leader that is shutting down leads until it is gone. Where ZooKeeper names no leader, either
    no replica could be elected, or an earlier controller had begun the deletion.
    """
    if leadership.leader == NO_LEADER:
        return False
    if facts.liveness.is_online(leadership.leader, record.tp, include_shutting_down=True):
        return True
    can_change = leadership.leader_epoch < MAX_LEADER_EPOCH
    return can_change and any(broker in leadership.isr for broker in facts.liveness.online(record))
