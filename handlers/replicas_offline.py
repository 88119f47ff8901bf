"""Replicas are offline, because their broker died or its log directory failed."""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition

log = structlog.get_logger(__name__)


async def on_replicas_become_offline(replicas: Mapping[BrokerId, Collection[TopicPartition]], c: Controller) -> None:
    """Elect new leaders first, from the ISR as it still is; only then take the replicas out of ISRs.

    The other order would elect from ISRs that have shrunk already, and bump leader epochs twice.
    """
    hidden = hidden_topics(c.context)
    leaderless = c.context.partitions_without_online_leader()
    await c.partitions.handle(leaderless, PartitionState.OFFLINE)
    elections = await c.partitions.trigger_online()
    stopped = {broker: _kept(partitions, hidden) for broker, partitions in replicas.items()}
    is_told = await c.replicas.handle_on(stopped, ReplicaState.OFFLINE)
    await c.deletions.fail(replicas)
    number = sum(map(len, replicas.values()))
    log.info("replicas offline", replicas=number, elected=len(elections.elected), failed=len(elections.failed))
    if not is_told and not elections.elected:
        await c.outbox.update_metadata(c.context.live_or_shutting_down)


def _kept(partitions: Collection[TopicPartition], hidden: AbstractSet[str]) -> Collection[TopicPartition]:
    """Without topics that are being deleted."""
    return [tp for tp in partitions if tp.topic not in hidden] if hidden else partitions
