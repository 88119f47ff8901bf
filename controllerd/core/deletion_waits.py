"""Topics that are served although their deletion was requested, because a reassignment ends first.

PURE. A topic is served in full until its deletion has begun: its leaders are replaced when they die,
its ISR changes are sent to its brokers, and a controlled shutdown moves its leaders. Anything less
does harm for as long as the reassignment lasts, which may be hours. A partition whose leader died
stays without one. A shrunk ISR that is written and not sent fences the leader: it proposes its next
ISR with an outdated partition epoch. And the reassignment that the deletion waits for needs leaders,
which would not be elected. The built-in controller asks in all these places whether the topic is
queued for deletion. There it seldom matters, because it mostly starts to delete in the middle of the
reassignment.

A topic ceases to be served in the same event in which its deletion begins, or in the event that
follows (``controllerd.services.deletions.schedule_deletions``). For this reason a leader
that is gone does not end the wait by itself: the election that follows in the event may replace it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from controllerd.core.model import MAX_LEADER_EPOCH, NO_LEADER, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord

if TYPE_CHECKING:
    from controllerd.core.context import ControllerContext


def is_hidden(context: "ControllerContext", topic: str) -> bool:
    """Whether the topic is no longer served, and brokers are sent its deletion: the deletion has begun, or begins.

    A topic is not hidden while its deletion waits for a reassignment: a leader answers no fetch of
    a topic that is gone, so a new replica would never catch up, and both would wait for ever. Nor
    is it while deletions are paused before its own began, or while its znode is in quarantine,
    because no deletion begins then. A new controller does not know which deletions had begun; a
    deletion that waits for nothing had, or begins before the controller is ready.
    """
    book = context.deletions
    if topic not in book.queued:
        return False
    if topic in book.started or topic in book.begun_before or topic not in context.topics:
        return True
    if book.paused is not None or f"/brokers/topics/{topic}" in context.quarantine:
        return False
    return not any(_to_wait_for(context, topic))


def hidden_topics(context: "ControllerContext") -> set[str]:
    """Return the hidden topics, for passes over many partitions."""
    return {topic for topic in context.deletions.queued if is_hidden(context, topic)}


def reassignments_to_wait_for(context: "ControllerContext", topic: str) -> list[TopicPartition]:
    """Return the partitions of a topic whose reassignment can still end, and so ends first."""
    return list(_to_wait_for(context, topic))


def _to_wait_for(context: "ControllerContext", topic: str) -> Iterator[TopicPartition]:
    being_reassigned = context.being_reassigned
    records = context.topics[topic].partitions.values() if being_reassigned else ()
    return (each.tp for each in records if each.tp in being_reassigned and _can_end(context, each))


def _can_end(context: "ControllerContext", record: PartitionRecord) -> bool:
    """Whether a reassignment can make progress: it has or gets a leader, and the replicas to catch up are online.

    A reassignment in quarantine counts as stuck, because it may never end.
    """
    if f"/brokers/topics/{record.tp.topic}/partitions/{record.tp.partition}" in context.quarantine:
        return False
    leadership, target = record.leadership, record.assignment.target
    if leadership is None or not _is_led(context, record, leadership):
        return False
    online = [broker for broker in target if context.is_online(broker, record.tp)]
    return bool(online) and all(broker in leadership.isr for broker in target if broker not in online)


def _is_led(context: "ControllerContext", record: PartitionRecord, leadership: LeaderAndIsr) -> bool:
    """Whether the partition has a leader, or an election can replace its leader from the ISR.

    A leader that is shutting down leads until it is gone. Where ZooKeeper names no leader, either
    no replica could be elected, or an earlier controller had begun the deletion.
    """
    if leadership.leader == NO_LEADER:
        return False
    if context.is_online(leadership.leader, record.tp, include_shutting_down=True):
        return True
    can_change = leadership.leader_epoch < MAX_LEADER_EPOCH
    return can_change and any(broker in leadership.isr for broker in context.liveness.online(record))
