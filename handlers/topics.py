"""Topics are created, changed and deleted in ZooKeeper, and deleted by admin clients.

A deletion by an admin client begins in the event that writes its marker. It ends later: brokers delete their replicas
first, and reassignments end.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import DELETE_TOPICS
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.mutation_quota import Mutation, MutationQuota
from controllerd.ports.results import WriteResult, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.deletions import serve_deletion_requests
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.quotas import THROTTLED, quota_of
from controllerd.services.topics import compare_topics, reread_topics
from events.admin import DeleteTopics, MutationReply, TopicOutcome
from events.base import Event
from events.topics import PartitionModifications, TopicDeletion, TopicDeletionRetry

log = structlog.get_logger(__name__)


async def on_topic_change(_event: Event, c: Controller) -> None:
    """Compare the topics in ZooKeeper with the known ones."""
    await compare_topics(c)


async def on_partition_modifications(event: PartitionModifications, c: Controller) -> None:
    """The znode of one topic changed: partitions may have been added."""
    await reread_topics(c, {event.topic})


async def on_topic_deletion(_event: TopicDeletion, c: Controller) -> None:
    """Queue the requested deletions, then see what each waits for.

    Kafka's controller first computes why a topic waits, and drops the result because the topic is not queued yet. A
    queued deletion goes on when deletions are turned off later, because brokers may have deleted replicas.
    """
    await serve_deletion_requests(c)


async def on_deletion_retry(_event: TopicDeletionRetry, c: Controller) -> None:
    """Try deletions again that brokers or ZooKeeper refused a while ago, less and less often."""
    await send_pending_deletions(sorted(c.context.live_or_shutting_down), c)
    await c.deletions.resume_for(set(c.context.deletions.refused))


async def on_delete_topics(event: DeleteTopics, c: Controller) -> MutationReply:
    """Ask for the deletion of topics as tools do by markers, and begin with it.

    A topic whose deletion was asked for already is charged to the quota all the same, as in Kafka.

    :raises NotController: this instance is not the active controller.
    """
    quota = quota_of(event.by, Mutation.DELETE_TOPICS, c)
    refusals = {topic: _refusal_to_delete(topic, quota, c) for topic in event.topics}
    allowed = [topic for topic, refusal in refusals.items() if refusal is None]
    ids = {topic: c.context.topic_id(topic) for topic in allowed}
    results = await c.store.admin.create_deletion_markers(allowed) if allowed else {}
    refusals |= {topic: _refusal_of_marker(topic, result, c) for topic, result in results.items()}
    marked = sum(isinstance(result, Written) for result in results.values())
    if marked:
        log.info("received topic deletions", topics=marked, principal=event.by.principal, client_id=event.by.client_id)
        await serve_deletion_requests(c)
    outcomes = {topic: TopicOutcome(refusal, ids.get(topic)) for topic, refusal in refusals.items()}
    return MutationReply(outcomes, quota.throttle)


def _refusal_to_delete(topic: str, quota: MutationQuota, c: Controller) -> Refusal | None:
    if DELETE_TOPICS in c.policy.unknown:
        return Refusal(KafkaError.TOPIC_DELETION_DISABLED, f"No broker has said its {DELETE_TOPICS} yet; try again.")
    if not c.policy.delete_topic_enable:
        return Refusal(KafkaError.TOPIC_DELETION_DISABLED)
    known = c.context.topics.get(topic)
    if known is None or is_hidden(c.context, topic):
        return Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    return None if quota.take(len(known.partitions), c.clock.monotonic()) else THROTTLED


def _refusal_of_marker(topic: str, result: WriteResult, c: Controller) -> Refusal | None:
    if isinstance(result, Written):
        return None
    log.error("deletion marker was not written", topic=topic, reason=result.reason)
    c.audit.record(AlarmRecord("deletion marker was not written", f"{topic}: {result.reason}"))
    return Refusal(KafkaError.UNKNOWN_SERVER_ERROR)
