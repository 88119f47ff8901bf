"""Replicas are offline, because their broker died or its log directory failed."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.core.sanitizer import names_us

log = structlog.get_logger(__name__)


async def on_replicas_become_offline(replicas: Mapping[BrokerId, Collection[TopicPartition]], c: Controller) -> None:
    """Elect new leaders first, from the ISR as it still is; only then take the replicas out of ISRs.

    The other order would elect from ISRs that have shrunk already, and bump leader epochs twice.
    """
    hidden = hidden_topics(c.context)
    leaderless = c.context.partitions_without_online_leader()
    await c.partitions.handle(leaderless, PartitionState.OFFLINE)
    elections = await c.partitions.trigger_online()
    left_alone = _never_started(c)
    stopped = {broker: _kept(partitions, hidden, left_alone) for broker, partitions in replicas.items()}
    is_told = await c.replicas.handle_on(stopped, ReplicaState.OFFLINE)
    await c.deletions.fail(replicas)
    number = sum(map(len, replicas.values()))
    log.info("replicas offline", replicas=number, elected=len(elections.elected), failed=len(elections.failed))
    if not is_told and not elections.elected:
        await c.outbox.update_metadata(c.context.live_or_shutting_down)


def _never_started(c: Controller) -> AbstractSet[TopicPartition]:
    """Return the partitions that wait for a broker in place of controllerd: none of their replicas has started."""
    new = (tp for tp in c.context.waiting_partitions() if c.context.partition_state(tp) is PartitionState.NEW)
    return {tp for tp in new if names_us(c.context.assignment(tp))}


def _kept(
    partitions: Collection[TopicPartition], hidden: AbstractSet[str], left_alone: AbstractSet[TopicPartition]
) -> Collection[TopicPartition]:
    """Return the replicas to stop, without topics that are being deleted and replicas that never started."""
    if not hidden and not left_alone:
        return partitions
    return [tp for tp in partitions if tp.topic not in hidden and tp not in left_alone]
