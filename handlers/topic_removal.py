"""Admin clients delete topics: what is allowed gets its marker, and the deletion begins in the same event.

When it ends is another matter: brokers have to delete their replicas first, and reassignments to come to their end.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import DELETE_TOPICS
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.mutation_quota import Mutation, MutationQuota
from controllerd.errors import NotController
from controllerd.record.records import AlarmRecord
from controllerd.results import WriteResult, Written
from events.admin import DeleteTopics, MutationReply, TopicOutcome
from events.topics import TopicDeletion
from handlers.quotas import THROTTLED, quota_of
from handlers.topic_deletion import on_topic_deletion

log = structlog.get_logger(__name__)


async def on_delete_topics(event: DeleteTopics, c: Controller) -> MutationReply:
    """Ask for the deletion of topics as tools do by markers, and begin with it.

    A topic whose deletion was asked for already is charged to the quota all the same, as in the peer.

    :raises NotController: this instance is not the active controller.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    quota = quota_of(event.by, Mutation.DELETE_TOPICS, c)
    refusals = {topic: _refusal(topic, quota, c) for topic in event.topics}
    allowed = [topic for topic, refusal in refusals.items() if refusal is None]
    ids = {topic: c.context.topic_id(topic) for topic in allowed}
    results = await c.store.create_deletion_markers(allowed) if allowed else {}
    refusals |= {topic: _failed(topic, result, c) for topic, result in results.items()}
    marked = sum(isinstance(result, Written) for result in results.values())
    if marked:
        log.info("topics to be deleted", topics=marked, principal=event.by.principal, client_id=event.by.client_id)
        await on_topic_deletion(TopicDeletion(), c)
    outcomes = {topic: TopicOutcome(refusal, ids.get(topic)) for topic, refusal in refusals.items()}
    return MutationReply(outcomes, quota.throttle)


def _refusal(topic: str, quota: MutationQuota, c: Controller) -> Refusal | None:
    if DELETE_TOPICS in c.policy.unknown:
        return Refusal(KafkaError.TOPIC_DELETION_DISABLED, f"No broker has said its {DELETE_TOPICS} yet; try again.")
    if not c.policy.delete_topic_enable:
        return Refusal(KafkaError.TOPIC_DELETION_DISABLED)
    known = c.context.topics.get(topic)
    if known is None or is_hidden(c.context, topic):
        return Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION)
    return None if quota.take(len(known.partitions), c.clock.monotonic()) else THROTTLED


def _failed(topic: str, result: WriteResult, c: Controller) -> Refusal | None:
    if isinstance(result, Written):
        return None
    log.error("deletion marker was not written", topic=topic, reason=result.reason)
    c.audit.record(AlarmRecord("deletion marker was not written", f"{topic}: {result.reason}"))
    return Refusal(KafkaError.UNKNOWN_SERVER_ERROR)
