"""Handles brokers that register, change, stop, are drained or die, and log directories that fail.

A drain with ``leaders_only`` leaves the broker in the ISRs; any other drain prepares its stop and takes it out of them.
While a live broker is outside of ISRs and may not return to them, the leaders propose its return without end
(``handlers/isr_change.py``).
"""

from collections.abc import Sequence

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import MoveLeadershipAway
from controllerd.core.intents import LONGEST_MS, PauseView, drain_of
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.errors import BadZnode, CallRefused
from controllerd.planning.drains import DrainPlan, LedPartition, plan_drain
from controllerd.record.records import AlarmRecord
from controllerd.services.brokers import bring_up_to_date, compare_brokers
from controllerd.services.controlled_shutdown import shut_down
from controllerd.services.deletions import repeat_deletions
from controllerd.services.pauses import begin_pause
from controllerd.services.pending_deletions import elect_after_deletion_waived, send_pending_deletions
from controllerd.services.reassignments import additions_to, resume
from controllerd.services.usable_brokers import REGISTRATIONS, alarm_uncovered, keep_out
from events.admin import ControlledShutdown, ControlledShutdownReply, ForgetBroker, Forgotten
from events.base import Event
from events.cluster import BrokerModifications, BrokerRefresh
from events.operator import DrainBroker, DrainReply
from events.replicas import LogDirEventNotification

log = structlog.get_logger(__name__)


async def on_broker_change(_event: Event, c: Controller) -> None:
    """Compare the registered brokers with the known ones."""
    await compare_brokers(c)


async def on_broker_refresh(event: BrokerRefresh, c: Controller) -> None:
    """Send a live broker the full state again, because its queue was dropped with requests that it never gets."""
    known = c.context.brokers.get(event.broker)
    if known is None:
        return
    log.warning("sent full state to broker again", broker=event.broker, reopen=event.reopen)
    if event.reopen:
        c.channels.remove_broker(event.broker)
        c.context.pending_deletions.end_channel(event.broker)
        c.channels.add_broker(known)
    unknown = additions_to(event.broker, c)
    await bring_up_to_date([event.broker], c)
    await resume(unknown, c)
    if event.reopen:  # the requests to delete replicas were lost with the channel
        await repeat_deletions(event.broker, c)
        await elect_after_deletion_waived(
            event.broker, c.context.pending_deletions.end_waiver(event.broker, c.context.partitions_on(event.broker)), c
        )
        await send_pending_deletions([event.broker], c)


async def on_broker_modifications(event: BrokerModifications, c: Controller) -> None:
    """Handle a registration that changed in place: if endpoints or features differ, update the channel and all brokers.

    A registration that cannot be used is put in quarantine.
    """
    try:
        fresh = await c.store.brokers.read_broker(event.broker)
    except BadZnode as bad:
        c.context.put_in_quarantine(bad.path, bad.reason)
        c.audit.record(AlarmRecord("broker registration cannot be used", str(bad)))
        return
    if fresh is None:
        return  # the broker is gone: the event BrokerChange handles it
    if (reason := c.local.reach.why_not_reached(fresh)) is not None:
        keep_out(fresh, "broker asks for TLS or SASL", reason, c)
        return  # the broker is still served at its earlier endpoints, for as long as it lives
    c.context.take_out_of_quarantine(f"{REGISTRATIONS}{event.broker}")
    known = c.context.brokers.get(event.broker)
    if known is None or fresh.epoch != known.epoch:
        # The broker bounced, or its registration was repaired in place: no child of /brokers/ids changed then, and no
        # other event comes.
        await compare_brokers(c)
        return
    if (fresh.endpoints, fresh.features) == (known.endpoints, known.features):
        return
    log.info("broker changed its registration", broker=event.broker)
    c.context.add_broker(fresh)
    c.channels.add_broker(fresh)
    alarm_uncovered(c.context.brokers.values(), c)
    await c.outbox.update_metadata(c.context.live_or_shutting_down)


async def on_log_dir_event(_event: LogDirEventNotification, c: Controller) -> None:
    """Ask brokers that lost log directories which of their replicas are still online.

    Brokers are sent LeaderAndIsr with the present state, and the answer names the replicas on failed log directories
    (``handlers.responses``). A replica that is known to be on a failed log directory is left out, because only a
    restart of the broker brings it back.
    """
    notes = await c.store.notifications.read_log_dir_notifications()
    for bad in notes.broken:
        c.audit.record(AlarmRecord("notification cannot be read", str(bad)))
    known = sorted(broker for broker in notes.brokers if broker in c.context.brokers)
    if known:
        log.warning("received log directory failures", brokers=known)
    asked = {broker: await _replicas_to_ask_for(broker, c) for broker in known}
    new = {broker: [tp for tp in of_one if _is_new_replica(broker, tp, c)] for broker, of_one in asked.items()}
    await c.replicas.handle_on(asked, ReplicaState.ONLINE)
    await c.replicas.handle_on(new, ReplicaState.ONLINE)  # a new replica gets no LeaderAndIsr when it becomes online
    await c.store.notifications.delete_log_dir_notifications(notes.names)


async def _replicas_to_ask_for(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """The broker's replicas that count as online; topics that are being deleted find out by their deletion."""
    offline, hidden = c.context.offline_dirs.get(broker, frozenset()), hidden_topics(c.context)
    each = c.outbox.slicer.each
    return [tp async for tp in each(c.context.partitions_on(broker)) if tp not in offline and tp.topic not in hidden]


def _is_new_replica(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    return c.context.record(tp).replica_states[broker] is ReplicaState.NEW


async def on_controlled_shutdown(event: ControlledShutdown, c: Controller) -> ControlledShutdownReply:
    """Move the broker's leaderships away and take it out of the ISRs; the reply names what it still leads.

    Each request repeats every step. The broker cannot be elected until its registration ends or changes.
    """
    return await shut_down(event.broker, event.broker_epoch, c)


DRAIN_PAUSE_MS = 3_600_000
"""Milliseconds for which the automatic rebalance gives no leaderships back after a drain with ``leaders_only``.

It is the default of the request. Any other drain holds for ``LONGEST_MS``: the broker is to be stopped, and a later
controller would not know that.
"""
_NOT_MOVED = "the election did not move it: see the log"


async def on_drain_broker(event: DrainBroker, c: Controller) -> DrainReply:
    """Move the leaderships of a broker away; the reply names the partitions that moved, and why the others did not.

    :raises CallRefused: the broker is not registered, or the pause of the automatic rebalance cannot be written.
    """
    known = c.context.brokers.get(event.broker)
    if known is None:
        raise CallRefused(f"broker {event.broker} is not registered: it leads nothing")
    plan = await _drain_plan(event.broker, c)
    # The pause is written first, so that no later controller gives leaderships back.
    await begin_pause(drain_of(event.broker), _drain_pause(event, known.epoch, c), c)
    if event.leaders_only:
        failed = (
            await c.partitions.handle(plan.movable, PartitionState.ONLINE, MoveLeadershipAway(event.broker))
        ).failed
    else:
        failed = await _shut_down_for_drain(event.broker, known.epoch, c)
    left = c.context.partitions_led_by(event.broker)
    moved = tuple(tp for tp in plan.movable if tp not in left)
    remaining = plan.remaining | {tp: failed.get(tp, _NOT_MOVED) for tp in plan.movable if tp in left}
    log.info("broker drained", broker=event.broker, by=event.by, moved=len(moved), remaining=len(remaining))
    return DrainReply(moved, remaining)


def _drain_pause(event: DrainBroker, epoch: int, c: Controller) -> PauseView:
    """The pause during which the automatic rebalance gives the broker nothing back, unless it registers anew."""
    until_ms = event.until_ms
    if until_ms is None:
        until_ms = c.clock.now_ms() + (DRAIN_PAUSE_MS if event.leaders_only else LONGEST_MS)
    return PauseView(until_ms, event.reason, event.by, epoch)


async def _shut_down_for_drain(broker: BrokerId, epoch: int, c: Controller) -> dict[TopicPartition, str]:
    """Carry out the controlled shutdown that the broker itself would request; no partition has a reason of its own."""
    reply = await shut_down(broker, epoch, c)
    if reply.error is not KafkaError.NONE:
        raise CallRefused(f"broker {broker} cannot be drained: {reply.error.name}")
    return {}


async def _drain_plan(broker: BrokerId, c: Controller) -> DrainPlan:
    context, plan, hidden = c.context, DrainPlan([], {}), hidden_topics(c.context)

    def add(part: Sequence[TopicPartition]) -> None:
        led = [
            LedPartition(r.tp, r.assignment, r.leadership, context.liveness.online(r), r.tp.topic in hidden)
            for r in map(context.record, part)
            if r.leadership is not None
        ]
        plan_drain(broker, led, context.quarantine, plan)

    await c.outbox.slicer.for_each_slice(sorted(context.partitions_led_by(broker)), add)
    return plan


async def on_forget_broker(event: ForgetBroker, c: Controller) -> Forgotten:
    """Give up a broker that never returns, so that topic deletions no longer wait for its replicas (KAFKA-10548).

    First the deletion of the replicas on its disks becomes pending: it is sent if the broker returns after all.

    :raises CallRefused: the broker is registered.
    """
    if event.broker in c.context.brokers:
        raise CallRefused(f"broker {event.broker} is registered: only a broker that is gone can be forgotten")
    given_up = await _undeleted_replicas(event.broker, c)
    topics = tuple(sorted({tp.topic for tp in given_up}))
    log.warning("broker forgotten", broker=event.broker, reason=event.reason, topics=topics, replicas=len(given_up))
    await c.pending_deletions.add({event.broker: given_up})
    await c.deletions.resume_for(topics)
    return Forgotten(topics, len(given_up))


async def _undeleted_replicas(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """The broker's replicas of queued topics that are not deleted yet."""
    queued = c.context.queued_for_deletion
    return [
        record.tp
        async for record in c.outbox.slicer.each(c.context.records_on(broker))
        if record.tp.topic in queued and record.replica_states[broker] is not ReplicaState.DELETION_SUCCESSFUL
    ]
