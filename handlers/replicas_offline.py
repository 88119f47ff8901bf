"""Replicas are offline, because their broker died or its log directory failed."""

from collections.abc import Collection, Mapping

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.machines.beside import beside
from controllerd.machines.elections import Elections

log = structlog.get_logger(__name__)


async def on_replicas_become_offline(replicas: Mapping[BrokerId, Collection[TopicPartition]], c: Controller) -> None:
    """Elect new leaders first, from the ISR as it still is; only then take the replicas out of ISRs.

    The other order would elect from ISRs that have shrunk already, and bump leader epochs twice. What has an online
    leader needs no election, so its ISR is written right behind the elections, while these are told.
    """
    leaderless = c.context.partitions_without_online_leader()
    await c.partitions.handle(leaderless, PartitionState.OFFLINE)
    stopped = {broker: _kept(partitions, c) for broker, partitions in replicas.items()}
    elections, is_told = await _elect_and_stop(stopped, c)
    number = sum(map(len, replicas.values()))
    log.info("replicas offline", replicas=number, elected=len(elections.elected), failed=len(elections.failed))
    if not is_told:
        await c.outbox.update_metadata(c.context.live_or_shutting_down)


async def _elect_and_stop(
    stopped: Mapping[BrokerId, Collection[TopicPartition]], c: Controller
) -> tuple[Elections, bool]:
    """The elections, and whether everybody was told who is live."""
    if len(stopped) != 1:  # a partition may follow on two of them: one after the other
        elections = await c.partitions.trigger_online()
        is_told = await c.replicas.handle_on(stopped, ReplicaState.OFFLINE)
    else:
        removal = c.replicas.removal(*next(iter(stopped.items())))
        async with beside(removal.begin()):
            elections = await c.partitions.trigger_online()
            is_told = await c.replicas.handle_on(stopped, ReplicaState.OFFLINE, removal)
    return elections, is_told or bool(elections.elected)


def _kept(partitions: Collection[TopicPartition], c: Controller) -> Collection[TopicPartition]:
    """Without topics that are being deleted."""
    queued = c.context.queued_for_deletion
    return [tp for tp in partitions if tp.topic not in queued] if queued else partitions
