"""Controlled shutdown: move the leaderships of a broker away, and remove it from the ISRs in which it follows.

The broker repeats its request until the reply names no partition, and stops then. Four rules protect data:

**The broker is marked first.** A broker that is shutting down is no candidate of any election, from the first write on.
Otherwise a later election of the same request, or of another event before the broker has stopped, could choose it
again. The mark ends when its registration ends or changes (``core/context.py``), not with the reply: each request
repeats every step.

**The broker epoch fences.** A request with an epoch below the registered one comes from an earlier run of the broker,
and would move the leaderships of the present run away: STALE_BROKER_EPOCH. An epoch above the known one means that the
broker has registered again and the controller has not handled it yet. The brokers are compared first then, because
handling the registration afterwards would remove the mark and elect the broker again.

**Leaders before followers.** The elections come first, each written before its requests are sent (``state_changes.py``
in ``machines``). Only then does the broker leave the ISRs in which it follows: it gets StopReplica before those ISRs
shrink, so that it stops fetching and no leader adds it again at once.

**No partition is given up.** A partition without another replica in sync keeps its leader, and the reply names it. A
partition with one replica cannot move; it is not named, because the broker would wait for it in vain.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import ControlledShutdownElection
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import NO_EPOCH, BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.services.brokers import compare_brokers
from events.admin import ControlledShutdownReply

log = structlog.get_logger(__name__)


async def shut_down(broker: BrokerId, broker_epoch: int, c: Controller) -> ControlledShutdownReply:
    """Move the leaderships of a broker away, take it out of the ISRs that it follows in; return what it still leads."""
    known = c.context.brokers.get(broker)
    if known is not None and broker_epoch > known.epoch:
        # The broker registered anew, and the controller has not handled that yet ("The broker epoch fences").
        await compare_brokers(c)
    refusal = _refusal(broker, broker_epoch, c)
    if refusal is not KafkaError.NONE:
        return ControlledShutdownReply(refusal, frozenset())
    c.context.mark_shutting_down(broker)
    replicated = await _replicated(broker, c)
    led, followed = _by_role(broker, replicated, c)
    await c.partitions.handle(led, PartitionState.ONLINE, ControlledShutdownElection())
    await _stop_following(broker, followed, c)
    await c.deletions.resume()  # a reassignment to this broker cannot end before the broker is gone
    still_led, _ = _by_role(broker, replicated, c)
    remaining = frozenset(still_led)
    log.info(
        "prepared controlled shutdown", broker=broker, led=len(led), followed=len(followed), remaining=len(remaining)
    )
    return ControlledShutdownReply(KafkaError.NONE, remaining)


def _refusal(broker: BrokerId, broker_epoch: int, c: Controller) -> KafkaError:
    """Return the error of a request that is refused, or NONE.

    BROKER_NOT_AVAILABLE: no broker with this id is registered, whichever epoch it gives (Kafka fails if it gives one).
    STALE_BROKER_EPOCH: the request is of an earlier life of the broker; epoch -1 means that it does not know its own.
    """
    known = c.context.brokers.get(broker)
    if known is None:
        return KafkaError.BROKER_NOT_AVAILABLE
    if broker_epoch != NO_EPOCH and broker_epoch < known.epoch:
        return KafkaError.STALE_BROKER_EPOCH
    return KafkaError.NONE


async def _replicated(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """The broker's partitions that have other replicas; the others cannot be moved and do not delay the shutdown."""
    hidden = hidden_topics(c.context)
    return [
        record.tp
        async for record in c.outbox.slicer.each(c.context.records_on(broker))
        if len(record.assignment.replicas) > 1 and record.leadership is not None and record.tp.topic not in hidden
    ]


def _by_role(
    broker: BrokerId, partitions: list[TopicPartition], c: Controller
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Divide partitions into the ones that the broker leads and the ones that it follows."""
    led = c.context.partitions_led_by(broker)
    return [tp for tp in partitions if tp in led], [tp for tp in partitions if tp not in led]


async def _stop_following(broker: BrokerId, followed: list[TopicPartition], c: Controller) -> None:
    await c.outbox.stop_replicas(broker, followed)  # early, so that the broker stops fetching before the ISRs shrink
    await c.replicas.handle_on({broker: followed}, ReplicaState.OFFLINE)
