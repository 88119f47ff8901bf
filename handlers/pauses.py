"""Operators pause work of the controller for a while; a pause ends by itself, and survives a failover."""

import structlog

from controllerd.controller import Controller
from controllerd.core.intents import DELETIONS, PAUSABLE, PauseView, is_pausable
from controllerd.errors import CallRefused
from controllerd.services.pauses import ZNODE, begin_pause, end_pauses, is_pause_over, load_pauses
from events.operator import Pause, PauseCheck, Resume
from events.topics import TopicDeletion

log = structlog.get_logger(__name__)


# -- by operators ------------------------------------------------------------------------------------------------------


async def on_pause(event: Pause, c: Controller) -> PauseView:
    """Begin a pause until a given time; the pause is written to ZooKeeper first.

    :raises CallRefused: no pause has that name, the time is over or too far away, or ZooKeeper refuses the write.
    """
    if event.what not in PAUSABLE:
        raise CallRefused(f"{event.what!r} cannot be paused: only {' and '.join(PAUSABLE)} can")
    pause = PauseView(event.until_ms, event.reason, event.by)
    await begin_pause(event.what, pause, c)
    if event.what == DELETIONS:
        await c.deletions.resume()  # no deletion goes on, and the reason of each is updated
    return pause


async def on_resume(event: Resume, c: Controller) -> PauseView | None:
    """End a pause before its time; returns the pause, None if there was none.

    :raises CallRefused: no pause has that name, or ZooKeeper refuses the write.
    """
    if not is_pausable(event.what):
        raise CallRefused(f"{event.what!r} cannot be resumed: only {', '.join(PAUSABLE)} and drain-<broker id> can")
    ended = c.context.intents.pauses.get(event.what)
    if ended is not None or ZNODE in c.context.quarantine:
        await end_pauses({event.what}, c)
        log.info("ended pause", what=event.what, reason=event.reason, by=event.by)
    return ended


# -- by themselves -----------------------------------------------------------------------------------------------------


async def on_pause_check(_event: PauseCheck, c: Controller) -> None:
    """End the pauses that are over; while the znode is in quarantine, only check whether it was repaired."""
    if ZNODE in c.context.quarantine:
        await load_pauses(c)
        if ZNODE not in c.context.quarantine and c.context.deletions.paused is None:
            c.queue.put(TopicDeletion())
        return
    over = {what for what, pause in c.context.intents.pauses.items() if is_pause_over(what, pause, c)}
    if not over:
        return
    try:
        await end_pauses(over, c)
    except CallRefused as refusal:
        log.error("the end of a pause was not written", reason=str(refusal))
        return
    log.info("ended expired pauses", what=sorted(over))
