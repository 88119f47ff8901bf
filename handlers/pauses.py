"""Operators tell the controller to leave something alone for a while; it ends by itself, and survives a failover."""

from types import MappingProxyType
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId
from controllerd.core.pauses import (
    AUTO_REBALANCE,
    DELETIONS,
    LONGEST_MS,
    PAUSABLE,
    PausesRead,
    PauseView,
    drained_by,
    is_pausable,
)
from controllerd.errors import BadZnode, CallRefused, NotController
from controllerd.snapshot import say_pause
from events.operator import Pause, PauseCheck, Resume
from events.topics import TopicDeletion
from handlers.preparation import quarantine, take_out_of_quarantine

log = structlog.get_logger(__name__)

ZNODE: Final = "/controllerd/pauses"
LOOK_AGAIN_S: Final = 10.0
"""While the znode cannot be understood or written, and after the wall clock was behind."""


# -- at the start of a term --------------------------------------------------------------------------------------------


async def load_pauses(c: Controller) -> None:
    """Learn what is paused, before anything is deleted.

    While the znode cannot be understood nobody knows whether deletions are paused: then none begins, as that alone has
    no way back. What had begun cannot be known either; every topic with a marker is hidden, as after any failover.
    """
    try:
        read = await c.store.read_pauses()
    except BadZnode as bad:
        quarantine(c, [bad])
        book = c.context.deletions
        book.paused = f"held because {ZNODE} cannot be understood ({bad.reason}): repair or delete that znode"
        book.begun_before = await c.store.read_topic_deletions()
        return
    await take_out_of_quarantine(c, ZNODE)
    _apply(PausesRead({w: p for w, p in read.pauses.items() if not _is_over(w, p, c)}, read.begun), c)


def _apply(read: PausesRead, c: Controller) -> None:
    book, pause = c.context.deletions, read.pauses.get(DELETIONS)
    c.context.intents.pauses = MappingProxyType(dict(read.pauses))
    book.paused = say_pause(pause) if pause is not None else None
    book.begun_before = read.begun if pause is not None else frozenset()
    for topic in book.waiting:
        c.context.touch(topic)


# -- by operators ------------------------------------------------------------------------------------------------------


async def on_pause(event: Pause, c: Controller) -> PauseView:
    """Leave something alone until a time that is written down first.

    :raises CallRefused: there is nothing of that name, or the time is over or too far away, or ZooKeeper refuses.
    """
    if event.what not in PAUSABLE:
        raise CallRefused(f"{event.what!r} cannot be paused: only {' and '.join(PAUSABLE)} can")
    pause = PauseView(event.until_ms, event.reason, event.by)
    await begin_pause(event.what, pause, c)
    if event.what == DELETIONS:
        await c.deletions.resume()  # nothing goes on, and each says why
    return pause


async def begin_pause(what: str, pause: PauseView, c: Controller) -> None:
    """Write a pause down, and keep it. :raises CallRefused: it is over or too long, or cannot be written."""
    if not c.is_active:
        raise NotController("not the active controller")
    left_ms = pause.until_ms - c.clock.now_ms()
    if not 0 < left_ms <= LONGEST_MS:
        when = "over already" if left_ms <= 0 else f"more than {LONGEST_MS // 86_400_000} days away"
        raise CallRefused(f"the end of the pause is {when}: give a time within {LONGEST_MS // 86_400_000} days")
    await _write({**c.context.intents.pauses, what: pause}, c)
    log.info("paused", what=what, until_ms=pause.until_ms, reason=pause.reason, by=pause.by)


async def on_resume(event: Resume, c: Controller) -> PauseView | None:
    """End a pause before its time. :raises CallRefused: there is nothing of that name, or ZooKeeper refuses."""
    if not c.is_active:
        raise NotController("not the active controller")
    if not is_pausable(event.what):
        raise CallRefused(f"{event.what!r} cannot be resumed: only {', '.join(PAUSABLE)} and drain-<broker id> can")
    ended = c.context.intents.pauses.get(event.what)
    if ended is not None or ZNODE in c.context.quarantine:
        await _end({event.what}, c)
        log.info("resumed", what=event.what, reason=event.reason, by=event.by)
    return ended


async def _write(pauses: dict[str, PauseView], c: Controller) -> None:
    """:raises CallRefused: the znode cannot be understood or written, and nothing has changed."""
    book = c.context.deletions
    begun = book.begun_before | (book.started & book.queued) if DELETIONS in pauses else frozenset[str]()
    read = PausesRead(pauses, begun)
    try:
        await c.store.write_pauses(read)
    except BadZnode as bad:
        raise CallRefused(f"{bad}: repair or delete that znode, and ask again") from bad
    await take_out_of_quarantine(c, ZNODE)
    _apply(read, c)


async def _end(ended: set[str], c: Controller) -> None:
    was_paused = c.context.deletions.paused is not None
    await _write({what: pause for what, pause in c.context.intents.pauses.items() if what not in ended}, c)
    if was_paused and c.context.deletions.paused is None:
        c.queue.put(TopicDeletion())  # which looks at every marker, and goes on


# -- by themselves -----------------------------------------------------------------------------------------------------


async def on_pause_check(_event: PauseCheck, c: Controller) -> None:
    """End what is over: its time came, or the drained broker registered anew; and see if the znode was repaired."""
    if not c.is_active:
        return
    if ZNODE in c.context.quarantine:
        await load_pauses(c)
        if ZNODE not in c.context.quarantine and c.context.deletions.paused is None:
            c.queue.put(TopicDeletion())
        return
    over = {what for what, pause in c.context.intents.pauses.items() if _is_over(what, pause, c)}
    if not over:
        return
    try:
        await _end(over, c)
    except CallRefused as refusal:
        log.error("the end of a pause was not written", reason=str(refusal))
        return
    log.info("pauses are over", what=sorted(over))


def _is_over(what: str, pause: PauseView, c: Controller) -> bool:
    if pause.until_ms <= c.clock.now_ms():
        return True
    broker = drained_by(what)
    return broker is not None and c.context.epochs().get(broker) != pause.broker_epoch


def is_rebalance_paused(c: Controller) -> bool:
    """Whether the automatic rebalance does nothing now."""
    pause = c.context.intents.pauses.get(AUTO_REBALANCE)
    return pause is not None and not _is_over(AUTO_REBALANCE, pause, c)


def drained_now(c: Controller) -> frozenset[BrokerId]:
    """The brokers that get no leaderships back by themselves."""
    pauses = c.context.intents.pauses
    named = ((drained_by(what), what) for what in pauses)
    return frozenset(broker for broker, what in named if broker is not None and not _is_over(what, pauses[what], c))


def follow_up_pauses(c: Controller) -> None:
    """Called after every event: whatever ends by itself is looked at when its time comes."""
    if not c.is_active:
        return
    if ZNODE in c.context.quarantine:
        c.timers.put_later(LOOK_AGAIN_S, PauseCheck())
    now = c.clock.now_ms()
    for what, pause in c.context.intents.pauses.items():
        if _is_over(what, pause, c):
            c.timers.put_later(LOOK_AGAIN_S, PauseCheck())
        else:
            c.timers.put_later((pause.until_ms - now) / 1000, PauseCheck(pause.until_ms))
