"""Which topics are served although their deletion was asked for: those whose reassignments end first.

PURE. A topic is served in full until its deletion has begun: its leaders are replaced when they die, its ISR changes
are sent to its brokers, and a controlled shutdown moves its leaders. Anything less does harm for as long as the
reassignment lasts, which may be hours. A partition whose leader died stays without one. A shrunk ISR that is written
and not sent fences the leader: it proposes its next ISR with a partition epoch that is over. And the reassignment that
the deletion waits for needs the leaders that nobody would elect. The peer asks in all these places whether the topic is
queued for deletion, and does not notice as it mostly starts to delete in the middle of the reassignment.

A topic ceases to be served in the same event in which its deletion begins. That is why a leader that is gone does not
end the wait by itself: the election that follows in the event may replace it.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from controllerd.core.model import MAX_LEADER_EPOCH, NO_LEADER, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord

if TYPE_CHECKING:
    from controllerd.core.context import ControllerContext


def is_hidden(context: "ControllerContext", topic: str) -> bool:
    """Whether the topic is served no more and brokers are told that it is gone: its deletion has begun, or begins.

    Not while its deletion waits for a reassignment: a leader answers no fetch of a topic that is gone, so a new replica
    would never catch up, and both would wait for ever. And not while deletions are paused before it began. A new
    controller does not know which deletions had begun; those that wait for nothing had, or begin before it is ready.
    """
    book = context.deletions
    if topic not in book.queued:
        return False
    if topic in book.started or topic in book.begun_before or topic not in context.topics:
        return True
    return book.paused is None and not any(_to_wait_for(context, topic))


def hidden_topics(context: "ControllerContext") -> set[str]:
    """The topics that are hidden, to be asked once for many partitions."""
    return {topic for topic in context.deletions.queued if is_hidden(context, topic)}


def reassignments_to_wait_for(context: "ControllerContext", topic: str) -> list[TopicPartition]:
    """The partitions of a topic whose reassignment ends first, because it can."""
    return list(_to_wait_for(context, topic))


def _to_wait_for(context: "ControllerContext", topic: str) -> Iterator[TopicPartition]:
    being_reassigned = context.being_reassigned
    records = context.topics[topic].partitions.values() if being_reassigned else ()
    return (each.tp for each in records if each.tp in being_reassigned and _can_end(context, each))


def _can_end(context: "ControllerContext", record: PartitionRecord) -> bool:
    """Whether a reassignment can make progress: it has or gets a leader, and whoever has to catch up is there.

    One that somebody else changed into what cannot be followed is in quarantine, and may never end.
    """
    if f"/brokers/topics/{record.tp.topic}/partitions/{record.tp.partition}" in context.quarantine:
        return False
    leadership, target = record.leadership, record.assignment.target
    if leadership is None or not _is_led(context, record, leadership):
        return False
    online = [broker for broker in target if context.is_online(broker, record.tp)]
    return bool(online) and all(broker in leadership.isr for broker in target if broker not in online)


def _is_led(context: "ControllerContext", record: PartitionRecord, leadership: LeaderAndIsr) -> bool:
    """Whether the partition has a leader, or one whose place another member of the ISR can take.

    A leader that is shutting down leads until it is gone. Where ZooKeeper names no leader nobody could be elected, or
    an earlier controller had begun with the deletion.
    """
    if leadership.leader == NO_LEADER:
        return False
    if context.is_online(leadership.leader, record.tp, include_shutting_down=True):
        return True
    can_change = leadership.leader_epoch < MAX_LEADER_EPOCH
    return can_change and any(broker in leadership.isr for broker in context.liveness.online(record))
