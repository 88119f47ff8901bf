"""Answers of brokers to control requests."""

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import ControllerMoved
from controllerd.services.brokers import on_replicas_become_offline
from controllerd.services.deletions import LAST_RETRY_S
from controllerd.services.pending_deletions import elect_after_deletion_waived, replace_replicas_of_earlier_topics
from controllerd.services.registration import keep_registered
from events.responses import ApiVersionsReceived, LeaderAndIsrResponseReceived, UpdateMetadataResponseReceived
from events.topics import TopicDeletionRetry, TopicDeletionStopReplicaResponseReceived

log = structlog.get_logger(__name__)


async def on_leader_and_isr_response(event: LeaderAndIsrResponseReceived, c: Controller) -> None:
    """Find the replicas on failed log directories, and the replicas of earlier topics of the same name.

    Other errors of partitions change nothing.
    """
    if event.controller_epoch != c.context.epoch:
        return
    if event.error is not KafkaError.NONE:
        await on_top_level_error(event.broker, "LeaderAndIsr", event.error, c)
        return
    if c.context.epochs().get(event.broker) != event.broker_epoch:
        return
    if c.context.pending_deletions.of(event.broker):
        await replace_replicas_of_earlier_topics(event, c)
    errors = event.partition_errors
    if not errors and not c.context.offline_dirs.get(event.broker):
        return  # the usual case, decided without a pass over up to 100,000 partitions
    offline = {tp for tp, error in errors.items() if error is KafkaError.KAFKA_STORAGE_ERROR}
    online = {tp for tp in event.partitions if errors.get(tp, KafkaError.NONE) is KafkaError.NONE}
    before = c.context.offline_dirs.get(event.broker, frozenset())
    after = frozenset(tp for tp in (before - online) | offline if tp in c.context)
    c.context.set_offline_dirs(event.broker, after)
    newly = sorted(after - before)
    if newly:
        log.warning("found replicas on a failed log directory", broker=event.broker, partitions=len(newly))
        await on_replicas_become_offline({event.broker: newly}, c)


async def on_update_metadata_response(event: UpdateMetadataResponseReceived, c: Controller) -> None:
    """Handle an error of the whole request; an answer without an error changes nothing."""
    if event.controller_epoch == c.context.epoch and event.error is not KafkaError.NONE:
        await on_top_level_error(event.broker, "UpdateMetadata", event.error, c)


async def on_api_versions(event: ApiVersionsReceived, c: Controller) -> None:
    """Store the release of the broker, unless it has died or bounced since; register controllerd if it needs that."""
    if c.context.epochs().get(event.broker) != event.broker_epoch:
        return
    log.info("received broker release", broker=event.broker, release=str(event.release))
    c.context.releases[event.broker] = event.release
    await keep_registered(c)


async def on_top_level_error(broker: BrokerId, api: str, error: KafkaError, c: Controller) -> None:
    """Handle an error of a whole request; a higher controller epoch is the earliest sign that we were replaced.

    :raises ControllerMoved: ``/controller`` is not ours any more.
    """
    log.warning("broker refused a control request", broker=broker, api=api, error=error.name)
    if error is KafkaError.STALE_CONTROLLER_EPOCH and not await c.role.elector.is_ours():
        raise ControllerMoved(f"broker {broker} knows a higher controller epoch than {c.context.epoch}")


async def on_stop_replica_response(event: TopicDeletionStopReplicaResponseReceived, c: Controller) -> None:
    """A broker deleted replicas, or failed to. The answer of an earlier registration of it does not count."""
    if event.controller_epoch != c.context.epoch:
        return
    if event.error is not KafkaError.NONE:
        await on_top_level_error(event.broker, "StopReplica", event.error, c)
    if c.context.epochs().get(event.broker) != event.broker_epoch:
        return
    deleted, failed = await _outcomes(event, c)
    await c.pending_deletions.clear(event.broker, c.context.pending_deletions.sent(event.broker) & set(deleted))
    c.context.pending_deletions.end_waiver(event.broker, [*deleted, *failed])
    await elect_after_deletion_waived(event.broker, [*deleted, *failed], c)
    if not failed.keys().isdisjoint(c.context.pending_deletions.of(event.broker)):
        # A pending deletion need not belong to a topic deletion, so that no retry may be scheduled for it yet.
        c.timers.put_later(LAST_RETRY_S, TopicDeletionRetry())
    await c.deletions.refuse(event.broker, failed)
    await c.deletions.complete(event.broker, deleted)


async def _outcomes(
    event: TopicDeletionStopReplicaResponseReceived, c: Controller
) -> tuple[list[TopicPartition], dict[TopicPartition, KafkaError]]:
    """The replicas that the broker deleted, and the errors of the others.

    An answer for a replica that was sent a newer deletion since is left out.
    """
    deleted, failed = list[TopicPartition](), dict[TopicPartition, KafkaError]()
    async for tp, error in c.outbox.slicer.each(event.partition_errors.items()):
        if not c.context.pending_deletions.take_answer(event.broker, tp):
            continue
        reason = event.error if error is KafkaError.NONE else error
        if reason is KafkaError.NONE:
            deleted.append(tp)
        else:
            failed[tp] = reason
    return deleted, failed
