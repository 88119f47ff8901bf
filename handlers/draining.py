"""A broker is relieved of its leaderships before somebody stops it."""

import structlog

from controllerd.controller import Controller
from controllerd.core.draining import DrainPlan, Led, plan_drain
from controllerd.core.election import Relieve
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.core.pauses import PauseView, drain_of
from controllerd.errors import CallRefused, NotController
from controllerd.machines.outbox import SLICE
from controllerd.pace import Pace, sliced
from controllerd.snapshot import ClusterSnapshot, TopicView
from events.admin import ControlledShutdown
from events.operator import DrainBroker, DrainReply
from handlers.controlled_shutdown import on_controlled_shutdown
from handlers.pauses import begin_pause

log = structlog.get_logger(__name__)

FOR_MS = 3_600_000
"""How long a broker that was relieved of its leaderships alone gets none back by itself, unless it is said."""
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
    if event.leaders_only:
        failed = await _relieve(event, known.epoch, plan.movable, c)
    else:
        failed = await _shut_down(event.broker, known.epoch, c)
    left = c.context.partitions_led_by(event.broker)
    moved = tuple(tp for tp in plan.movable if tp not in left)
    remaining = plan.remaining | {tp: failed.get(tp, _LOST) for tp in plan.movable if tp in left}
    log.info("broker drained", broker=event.broker, by=event.by, moved=len(moved), remaining=len(remaining))
    return DrainReply(moved, remaining)


async def _relieve(
    event: DrainBroker, epoch: int, movable: list[TopicPartition], c: Controller
) -> dict[TopicPartition, str]:
    """Others lead; the broker stays in the ISRs, and the automatic rebalance leaves it alone."""
    until_ms = c.clock.now_ms() + FOR_MS if event.until_ms is None else event.until_ms
    # First, so that no controller that comes between gives anything back.
    await begin_pause(drain_of(event.broker), PauseView(until_ms, event.reason, event.by, epoch), c)
    elections = await c.partitions.handle(movable, PartitionState.ONLINE, Relieve(event.broker))
    return elections.failed


async def _shut_down(broker: BrokerId, epoch: int, c: Controller) -> dict[TopicPartition, str]:
    """As the broker itself would ask for it."""
    reply = await on_controlled_shutdown(ControlledShutdown(broker, epoch), c)
    if reply.error is not KafkaError.NONE:
        raise CallRefused(f"broker {broker} cannot be drained: {reply.error.name}")
    return {}


async def _plan(broker: BrokerId, c: Controller) -> DrainPlan:
    context, plan = c.context, DrainPlan([], {})
    for part in sliced(sorted(context.partitions_led_by(broker)), SLICE):
        records = [context.record(tp) for tp in part]
        led = [
            Led(r.tp, r.assignment, r.leadership, context.liveness.online(r), r.tp.topic in context.queued_for_deletion)
            for r in records
            if r.leadership is not None
        ]
        plan_drain(broker, led, context.quarantine, plan)
        await c.outbox.pace.breathe()
    return plan


async def planned_drain(snapshot: ClusterSnapshot, broker: BrokerId, pace: Pace) -> DrainReply:
    """What ``DrainBroker`` would answer now, by what readers see. Nothing is done."""
    plan = DrainPlan([], {})
    for topic in sorted(snapshot.topics.values(), key=lambda view: view.name):
        plan_drain(broker, _led_of(topic, broker), snapshot.quarantine, plan)
        await pace.breathe()
    return DrainReply(tuple(plan.movable), plan.remaining)


def _led_of(topic: TopicView, broker: BrokerId) -> list[Led]:
    is_queued = topic.deletion is not None and topic.deletion.is_queued
    return [
        Led(TopicPartition(topic.name, view.partition), view.assignment, view.leadership, online, is_queued)
        for view in topic.partitions
        if view.leadership is not None and view.leadership.leader == broker
        for online in [frozenset(view.assignment.replicas).difference(view.offline_replicas)]
    ]
