"""A broker wants to stop and is relieved of its partitions first."""

import structlog

from controllerd.controller import Controller
from controllerd.core.election import ControlledShutdown as ShutdownElection
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH, BrokerId, PartitionState, Replica, ReplicaState, TopicPartition
from controllerd.errors import NotController
from events.admin import ControlledShutdown, ControlledShutdownReply

log = structlog.get_logger(__name__)


async def on_controlled_shutdown(event: ControlledShutdown, c: Controller) -> ControlledShutdownReply:
    """Move leadership away, take the followers out of ISRs, answer with what the broker still leads.

    Each attempt repeats everything. The broker stays ineligible as leader until it is gone or bounces.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    refusal = _refusal(event, c)
    if refusal is not KafkaError.NONE:
        return ControlledShutdownReply(refusal, frozenset())
    c.context.mark_shutting_down(event.broker)
    led = _movable(event.broker, c)
    moving = frozenset(led)
    followed = [tp for tp in _replicated(event.broker, c) if tp not in moving]
    await c.partitions.handle(led, PartitionState.ONLINE, ShutdownElection())
    await _stop_following(event.broker, followed, c)
    remaining = frozenset(_movable(event.broker, c))
    log.info("controlled shutdown", broker=event.broker, led=len(led), followed=len(followed), remaining=len(remaining))
    return ControlledShutdownReply(KafkaError.NONE, remaining)


def _refusal(event: ControlledShutdown, c: Controller) -> KafkaError:
    known = c.context.brokers.get(event.broker)
    if known is None:
        return KafkaError.BROKER_NOT_AVAILABLE
    if event.broker_epoch != NO_EPOCH and event.broker_epoch < known.epoch:
        return KafkaError.STALE_BROKER_EPOCH
    return KafkaError.NONE


def _replicated(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Its partitions that somebody else has as well; the others cannot be moved and do not hold the broker up."""
    return sorted(
        tp
        for tp in c.context.partitions_on(broker)
        if len(c.context.assignment(tp).replicas) > 1
        and c.context.leadership(tp) is not None
        and not c.context.is_queued_for_deletion(tp.topic)
    )


def _movable(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    led = c.context.partitions_led_by(broker)
    return [tp for tp in _replicated(broker, c) if tp in led]


async def _stop_following(broker: BrokerId, followed: list[TopicPartition], c: Controller) -> None:
    async with c.outbox.batch() as batch:  # early, so that the broker stops fetching before the ISRs shrink
        for tp in followed:
            batch.add_stop_replica((broker,), tp, delete=False)
    await c.replicas.handle([Replica(tp, broker) for tp in followed], ReplicaState.OFFLINE)
