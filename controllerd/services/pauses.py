"""Pauses: work that the controller leaves alone for a while at the request of an operator.

A pause ends by itself, and outlives a failover because it is in ZooKeeper.
"""

from types import MappingProxyType
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.intents import AUTO_REBALANCE, DELETIONS, LONGEST_MS, PausesRead, PauseView, drained_by
from controllerd.core.model import BrokerId
from controllerd.errors import BadZnode, CallRefused
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from controllerd.views import describe_pause
from events.operator import PauseCheck
from events.topics import TopicDeletion

log = structlog.get_logger(__name__)

ZNODE: Final = "/controllerd/pauses"
LOOK_AGAIN_S: Final = 10.0
"""Seconds until the next look while the znode cannot be parsed or written, or the wall clock was behind."""


async def load_pauses(c: Controller) -> None:
    """Load the pauses, before anything is deleted.

    While the znode cannot be parsed, it is unknown whether deletions are paused. Then no deletion begins, because of
    all work that can be paused only a deletion cannot be undone. It is unknown as well which deletions had begun. So
    every topic whose deletion is requested is hidden from clients, as after any failover.
    """
    try:
        read = await c.store.operators.read_pauses()
    except BadZnode as bad:
        quarantine(c, [bad])
        book = c.context.deletions
        book.paused = f"held because {ZNODE} cannot be understood ({bad.reason}): repair or delete that znode"
        book.begun_before = await c.store.admin.read_topic_deletions()
        return
    await take_out_of_quarantine(c, ZNODE)
    _apply(PausesRead({w: p for w, p in read.pauses.items() if not is_pause_over(w, p, c)}, read.begun), c)


def _apply(read: PausesRead, c: Controller) -> None:
    book, pause = c.context.deletions, read.pauses.get(DELETIONS)
    c.context.intents.pauses = MappingProxyType(dict(read.pauses))
    book.paused = describe_pause(pause) if pause is not None else None
    book.begun_before = read.begun if pause is not None else frozenset()
    for topic in book.waiting:
        c.context.touch(topic)


async def begin_pause(what: str, pause: PauseView, c: Controller) -> None:
    """Write a pause to ZooKeeper, then into the context.

    :raises CallRefused: the pause is over or too long, or cannot be written.
    """
    left_ms = pause.until_ms - c.clock.now_ms()
    if not 0 < left_ms <= LONGEST_MS:
        when = "over already" if left_ms <= 0 else f"more than {LONGEST_MS // 86_400_000} days away"
        raise CallRefused(f"the end of the pause is {when}: give a time within {LONGEST_MS // 86_400_000} days")
    await _write({**c.context.intents.pauses, what: pause}, c)
    log.info("began pause", what=what, until_ms=pause.until_ms, reason=pause.reason, by=pause.by)


async def _write(pauses: dict[str, PauseView], c: Controller) -> None:
    """Write all pauses to ZooKeeper, then into the context.

    :raises CallRefused: the znode cannot be understood or written, and nothing has changed.
    """
    book = c.context.deletions
    begun = book.begun_before | (book.started & book.queued) if DELETIONS in pauses else frozenset[str]()
    read = PausesRead(pauses, begun)
    try:
        await c.store.operators.write_pauses(read)
    except BadZnode as bad:
        raise CallRefused(f"{bad}: repair or delete that znode, and ask again") from bad
    await take_out_of_quarantine(c, ZNODE)
    _apply(read, c)


async def end_pauses(ended: set[str], c: Controller) -> None:
    """End these pauses; where deletions are no longer paused, they go on in an event of their own.

    :raises CallRefused: the znode cannot be understood or written, and nothing has changed.
    """
    was_paused = c.context.deletions.paused is not None
    await _write({what: pause for what, pause in c.context.intents.pauses.items() if what not in ended}, c)
    if was_paused and c.context.deletions.paused is None:
        c.queue.put(TopicDeletion())  # its handler reads all requested deletions, and goes on with them


def is_pause_over(what: str, pause: PauseView, c: Controller) -> bool:
    """Whether the time of a pause has passed, or the drained broker that it is for has registered anew or is gone."""
    if pause.until_ms <= c.clock.now_ms():
        return True
    broker = drained_by(what)
    return broker is not None and c.context.epochs().get(broker) != pause.broker_epoch


def is_rebalance_paused(c: Controller) -> bool:
    """Whether the automatic rebalance does nothing now."""
    pause = c.context.intents.pauses.get(AUTO_REBALANCE)
    return pause is not None and not is_pause_over(AUTO_REBALANCE, pause, c)


def drained_now(c: Controller) -> frozenset[BrokerId]:
    """The drained brokers, to which the automatic rebalance gives no leaderships back."""
    pauses = c.context.intents.pauses
    named = ((drained_by(what), what) for what in pauses)
    return frozenset(
        broker for broker, what in named if broker is not None and not is_pause_over(what, pauses[what], c)
    )


def schedule_pause_check(c: Controller) -> None:
    """Run after every event: check each pause when its time comes."""
    if not c.is_active:
        return
    if ZNODE in c.context.quarantine:
        c.timers.put_later(LOOK_AGAIN_S, PauseCheck())
    now = c.clock.now_ms()
    for what, pause in c.context.intents.pauses.items():
        if is_pause_over(what, pause, c):
            c.timers.put_later(LOOK_AGAIN_S, PauseCheck())
        else:
            c.timers.put_later((pause.until_ms - now) / 1000, PauseCheck(pause.until_ms))
