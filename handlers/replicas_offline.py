"""Replicas are offline, because their broker died or its log directory failed."""

from collections.abc import Collection

import structlog

from controllerd.controller import Controller
from controllerd.core.model import PartitionState, Replica, ReplicaState

log = structlog.get_logger(__name__)


async def on_replicas_become_offline(replicas: Collection[Replica], c: Controller) -> None:
    """Elect new leaders first, from the ISR as it still is; only then take the replicas out of ISRs.

    The other order would elect from ISRs that have shrunk already, and bump leader epochs twice.
    """
    leaderless = c.context.partitions_without_online_leader()
    await c.partitions.handle(leaderless, PartitionState.OFFLINE)
    elections = await c.partitions.trigger_online()
    stopped = [replica for replica in replicas if not c.context.is_queued_for_deletion(replica.tp.topic)]
    await c.replicas.handle(stopped, ReplicaState.OFFLINE)
    log.info("replicas offline", replicas=len(replicas), elected=len(elections.elected), failed=len(elections.failed))
    if not stopped and not elections.elected:
        await c.outbox.update_metadata(c.context.live_or_shutting_down)
