"""Moves the leaderships of a broker away before an operator stops it.

The broker stays in the ISRs (``leaders_only``), unless it is stopped next. While a live broker is
outside of ISRs and may not return to them, the leaders ask for its return without end: see
``handlers/isr_change.py``.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.draining import DrainPlan, Led, plan_drain
from controllerd.core.election import Relieve
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.pauses import LONGEST_MS, PauseView, drain_of
from controllerd.errors import CallRefused, NotController
from controllerd.machines.outbox import SLICE
from controllerd.pace import sliced
from events.admin import ControlledShutdown
from events.operator import DrainBroker, DrainReply
from handlers.controlled_shutdown import on_controlled_shutdown
from handlers.pauses import begin_pause

log = structlog.get_logger(__name__)

FOR_MS = 3_600_000
"""How long a broker that was relieved of its leaderships alone gets none back by itself, unless it is said.

One that was drained as a whole is to be stopped, which no controller after this one knows: it gets none back for as
long as anything can be paused.
"""
_LOST = "the election did not move it: see the log"


async def on_drain_broker(event: DrainBroker, c: Controller) -> DrainReply:
    """Move what can be moved; the reply says what, and why the rest stays.

    :raises CallRefused: the broker is not registered, or the pause that goes with it cannot be begun.
    """
    if not c.is_active:
        raise NotController("not the active controller")
    known = c.context.brokers.get(event.broker)
    if known is None:
        raise CallRefused(f"broker {event.broker} is not registered: it leads nothing")
    plan = await _plan(event.broker, c)
    # First, so that no controller that comes between or after gives anything back.
    await begin_pause(drain_of(event.broker), _pause(event, known.epoch, c), c)
    if event.leaders_only:
        failed = (await c.partitions.handle(plan.movable, PartitionState.ONLINE, Relieve(event.broker))).failed
    else:
        failed = await _shut_down(event.broker, known.epoch, c)
    left = c.context.partitions_led_by(event.broker)
    moved = tuple(tp for tp in plan.movable if tp not in left)
    remaining = plan.remaining | {tp: failed.get(tp, _LOST) for tp in plan.movable if tp in left}
    log.info("broker drained", broker=event.broker, by=event.by, moved=len(moved), remaining=len(remaining))
    return DrainReply(moved, remaining)


def _pause(event: DrainBroker, epoch: int, c: Controller) -> PauseView:
    """For how long the automatic rebalance leaves the broker alone, unless it registers anew."""
    until_ms = event.until_ms
    if until_ms is None:
        until_ms = c.clock.now_ms() + (FOR_MS if event.leaders_only else LONGEST_MS)
    return PauseView(until_ms, event.reason, event.by, epoch)


async def _shut_down(broker: BrokerId, epoch: int, c: Controller) -> dict[TopicPartition, str]:
    """As the broker itself would ask for it."""
    reply = await on_controlled_shutdown(ControlledShutdown(broker, epoch), c)
    if reply.error is not KafkaError.NONE:
        raise CallRefused(f"broker {broker} cannot be drained: {reply.error.name}")
    return {}


async def _plan(broker: BrokerId, c: Controller) -> DrainPlan:
    context, plan, hidden = c.context, DrainPlan([], {}), hidden_topics(c.context)
    for part in sliced(sorted(context.partitions_led_by(broker)), SLICE):
        records = [context.record(tp) for tp in part]
        led = [
            Led(r.tp, r.assignment, r.leadership, context.liveness.online(r), r.tp.topic in hidden)
            for r in records
            if r.leadership is not None
        ]
        plan_drain(broker, led, context.quarantine, plan)
        await c.outbox.pace.breathe()
    return plan
