"""A broker wants to stop and is relieved of its partitions first."""

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import ControlledShutdown as ShutdownElection
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH, BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.errors import NotController
from controllerd.machines.outbox import SLICE
from controllerd.pace import sliced
from events.admin import ControlledShutdown, ControlledShutdownReply
from handlers.broker_change import on_broker_change

log = structlog.get_logger(__name__)


async def on_controlled_shutdown(event: ControlledShutdown, c: Controller) -> ControlledShutdownReply:
    """Move leadership away, take the followers out of ISRs, answer with what the broker still leads.

    Each attempt repeats everything. The broker stays ineligible as leader until it is gone or bounces.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    known = c.context.brokers.get(event.broker)
    if known is not None and event.broker_epoch > known.epoch:
        # It registered anew and we have not looked yet: when we do, we would forget that it is leaving and elect it.
        await on_broker_change(event, c)
    refusal = _refusal(event, c)
    if refusal is not KafkaError.NONE:
        return ControlledShutdownReply(refusal, frozenset())
    c.context.mark_shutting_down(event.broker)
    replicated = await _replicated(event.broker, c)
    led, followed = _by_role(event.broker, replicated, c)
    await c.partitions.handle(led, PartitionState.ONLINE, ShutdownElection())
    await _stop_following(event.broker, followed, c)
    await c.deletions.resume()  # a reassignment to this broker cannot end before the broker is gone
    still_led, _ = _by_role(event.broker, replicated, c)
    remaining = frozenset(still_led)
    log.info("controlled shutdown", broker=event.broker, led=len(led), followed=len(followed), remaining=len(remaining))
    return ControlledShutdownReply(KafkaError.NONE, remaining)


def _refusal(event: ControlledShutdown, c: Controller) -> KafkaError:
    """Why nothing is done.

    BROKER_NOT_AVAILABLE: nobody with this id is registered, whatever epoch it gives (Kafka fails where it gives one).
    STALE_BROKER_EPOCH: the request is of an earlier life of the broker; epoch -1 means that it does not know its own.
    """
    known = c.context.brokers.get(event.broker)
    if known is None:
        return KafkaError.BROKER_NOT_AVAILABLE
    if event.broker_epoch != NO_EPOCH and event.broker_epoch < known.epoch:
        return KafkaError.STALE_BROKER_EPOCH
    return KafkaError.NONE


async def _replicated(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Its partitions that somebody else has as well; the others cannot be moved and do not hold the broker up."""
    found: list[TopicPartition] = []
    pace, hidden = c.outbox.pace, hidden_topics(c.context)
    for part in sliced(c.context.records_on(broker), SLICE):
        found += [
            record.tp
            for record in part
            if len(record.assignment.replicas) > 1 and record.leadership is not None and record.tp.topic not in hidden
        ]
        await pace.breathe()
    return found


def _by_role(
    broker: BrokerId, partitions: list[TopicPartition], c: Controller
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Those that the broker leads, and those that it follows."""
    led = c.context.partitions_led_by(broker)
    return [tp for tp in partitions if tp in led], [tp for tp in partitions if tp not in led]


async def _stop_following(broker: BrokerId, followed: list[TopicPartition], c: Controller) -> None:
    await c.outbox.stop_replicas(broker, followed)  # early, so that the broker stops fetching before the ISRs shrink
    await c.replicas.handle_on({broker: followed}, ReplicaState.OFFLINE)
