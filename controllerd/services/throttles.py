"""The throttle of reassignments that an operator set: it ends when its reassignments have ended.

Its values, and the values that they replace, are in ZooKeeper before any broker gets them.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from controllerd.controller import Controller
from controllerd.core.model import TopicPartition
from controllerd.core.throttles import ThrottleView
from controllerd.errors import BadZnode
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from events.operator import ThrottleCheck

ZNODE: Final = "/controllerd/throttle"
GRACE_S: Final = 60.0
"""Seconds that a throttle, which comes before its reassignments, waits for them to begin."""


async def load_throttle(c: Controller) -> None:
    """At the start of a term: the throttle that an earlier controller set."""
    try:
        found = await c.store.operators.read_throttle()
    except BadZnode as bad:
        quarantine(c, [bad])
        return
    await take_out_of_quarantine(c, ZNODE)
    if found is not None:
        expect_reassignments(found.view, found.view.partitions, c)


def expect_reassignments(view: ThrottleView, coming: AbstractSet[TopicPartition], c: Controller) -> None:
    """Keep the throttle until its reassignments are over; the coming ones have a while to begin."""
    intents = c.context.intents
    intents.throttle = view
    left_s = GRACE_S - (c.clock.now_ms() - view.set_ms) / 1000
    left_s = min(left_s, GRACE_S)  # a wall clock that was set back must not make it wait for ever
    intents.awaited = set(coming - c.context.being_reassigned) if left_s > 0 else set()
    if intents.awaited:
        # ``set_ms`` makes it differ from other checks: of equal events a timer has only the earliest.
        c.timers.put_later(left_s, ThrottleCheck(set_ms=view.set_ms))


def is_throttle_over(view: ThrottleView, c: Controller) -> bool:
    return not c.context.intents.awaited and view.partitions.isdisjoint(c.context.being_reassigned)


def schedule_throttle_check(c: Controller) -> None:
    """Run after every event: note the reassignments that have begun; if the throttle is over, schedule its removal."""
    intents = c.context.intents
    if intents.throttle is None or not c.is_active:
        return
    if intents.awaited:
        intents.awaited -= c.context.being_reassigned
    if is_throttle_over(intents.throttle, c):
        left_s = max(0.0, intents.lift_not_before - c.clock.monotonic())  # a failed removal is repeated later
        c.timers.put_later(left_s, ThrottleCheck())
