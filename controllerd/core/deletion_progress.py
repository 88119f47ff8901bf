"""The progress of the deletion of a topic, and the reasons why it waits: computed from the context, never stored.

PURE. Kafka's controller stores the topics that are ineligible for deletion, and in some cases never removes them.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import reassignments_to_wait_for
from controllerd.core.model import OUR_IDS, BrokerId, ReplicaState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import is_in_quarantine

_NAMED: Final = 3
"""Number of partitions that a reason names; it counts the others."""


class DeletionProgress(NamedTuple):
    """The brokers that still have replicas of a topic, by their next step; a broker may be in several sets."""

    deleting: frozenset[BrokerId]
    """Brokers that were asked to delete their replicas and have not answered."""
    ready: frozenset[BrokerId]
    """Brokers that can be asked."""
    offline: frozenset[BrokerId]
    """Brokers that cannot be asked: they are not registered, or their log directory failed."""
    has_ineligible: bool
    """Whether a replica could not be deleted and was not stopped since."""

    @property
    def is_done(self) -> bool:
        """Whether no replica is left; also true of a topic without partitions."""
        return not (self.deleting or self.ready or self.offline)


def deletion_progress(context: ControllerContext, topic: str) -> DeletionProgress:
    """Return the progress of the deletion of a known topic."""
    deleting, ready, offline = set[BrokerId](), set[BrokerId](), set[BrokerId]()
    has_ineligible = False
    for record in _different(context, topic):
        for broker in replicas_with_data(record):
            state = record.replica_states[broker]
            has_ineligible = has_ineligible or state is ReplicaState.DELETION_INELIGIBLE
            if state is ReplicaState.DELETION_SUCCESSFUL or is_given_up(context, record.tp, broker):
                continue
            if state is ReplicaState.DELETION_STARTED:
                deleting.add(broker)
            elif can_delete(context, record.tp, broker):
                ready.add(broker)
            else:
                offline.add(broker)
    return DeletionProgress(frozenset(deleting), frozenset(ready), frozenset(offline), has_ineligible)


def _different(context: ControllerContext, topic: str) -> Iterable[PartitionRecord]:
    """Return one partition for each combination of replicas and replica states, of which a topic has few."""
    records = context.topics[topic].partitions.values()
    # Failed log directories and pending deletions differ from partition to partition, so that each counts by itself.
    if context.offline_dirs or context.pending_deletions.brokers():
        return records
    return {(record.assignment.replicas, record.replica_states): record for record in records}.values()


def replicas_with_data(record: PartitionRecord) -> list[BrokerId]:
    """Return the brokers that may have data to delete: ids of controllerd were assigned by mistake and have no disk."""
    return [broker for broker in record.assignment.replicas if broker not in OUR_IDS]


def can_delete(context: ControllerContext, tp: TopicPartition, broker: BrokerId) -> bool:
    """Whether a broker can be asked to delete a replica; a broker that is shutting down still answers."""
    return context.is_online(broker, tp, include_shutting_down=True)


def is_given_up(context: ControllerContext, tp: TopicPartition, broker: BrokerId) -> bool:
    """Whether the replica is on an absent broker, which deletes it if it ever returns (KAFKA-10548)."""
    return broker not in context.brokers and tp in context.pending_deletions.of(broker)


def has_pending_of_earlier_topic(context: ControllerContext, broker: BrokerId, tp: TopicPartition) -> bool:
    """Whether the deletion of a replica of an earlier topic of that name is pending."""
    pending, present = context.pending_deletions.of(broker).get(tp), context.topic_id(tp.topic)
    return pending is not None and present is not None and pending != present


def has_unsent_of_earlier_topic(context: ControllerContext, broker: BrokerId, tp: TopicPartition) -> bool:
    """As ``has_pending_of_earlier_topic``, and the broker was not sent the request to delete the replica."""
    return has_pending_of_earlier_topic(context, broker, tp) and not context.pending_deletions.was_sent(broker, tp)


# -- reasons -----------------------------------------------------------------------------------------------------------


def waiting_reason(context: ControllerContext, topic: str, progress: DeletionProgress) -> str | None:
    """Return the reasons why the deletion of a queued topic cannot go on or end now; None while it is under way."""
    book, reasons = context.deletions, []
    if book.paused is not None:
        reasons.append(book.paused)
    if is_in_quarantine(context, topic):
        reasons.append("its znode cannot be understood")
    if topic not in book.started and (waiting := reassignments_to_wait_for(context, topic)):
        named = ", ".join(map(str, sorted(waiting)[:_NAMED]))
        more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
        reasons.append(f"waits for the reassignment of {named}{more}")
    if topic in book.refused:
        reasons.append(book.refused[topic])
    if progress.offline:
        reasons.append(f"replicas on {names_of(progress.offline)} cannot be deleted: not online")
    return "; ".join(reasons) or None


def names_of(brokers: Iterable[BrokerId]) -> str:
    """Return the brokers as text, such as ``brokers 1, 2``."""
    names = [str(broker) for broker in sorted(brokers)]
    return f"broker {names[0]}" if len(names) == 1 else f"brokers {', '.join(names)}"
