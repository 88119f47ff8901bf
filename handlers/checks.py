"""Checks by the clock: states in quarantine, and delegation tokens that may have expired."""

import structlog

from controllerd.controller import Controller
from controllerd.core.model import PartitionState
from controllerd.services.delegation_tokens import delete_expired_tokens
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.quarantined_states import quarantined_states, serve_mended, still_served, take_back
from controllerd.services.reassignments import expect_completion
from events.base import Event
from events.cluster import DelegationTokenExpiryCheck

log = structlog.get_logger(__name__)


async def on_quarantine_check(_event: Event, c: Controller) -> None:
    """Read the states in quarantine again and serve those that are sound now. Nothing watches state znodes."""
    read = await c.store.read_states(quarantined_states(c))
    for tp, leadership in read.states.items():
        log.info("partition state can be understood again", partition=str(tp))
        take_back(tp, leadership, c)
    for tp in read.missing:  # deleted: it starts like a new partition, as it would at a failover
        c.context.release(tp.state_path)
    await c.outbox.write_down_slowly()  # what is written next must not look as if it were in quarantine
    await c.partitions.handle(still_served(read.missing, c), PartitionState.NEW)
    await serve_mended(still_served(read.states, c), c)
    expect_completion(read.states, c)
    if read.states or read.missing:  # only now can anybody say whether a replica that is owed is counted on
        await send_pending_deletions(sorted(c.context.live_or_shutting_down), c)


async def on_token_expiry_check(_event: DelegationTokenExpiryCheck, c: Controller) -> None:
    """Delete the tokens that have expired, and check the others again later."""
    await delete_expired_tokens(c)
