"""Brokers register, change, stop, are drained and die; log directories of brokers fail.

A drained broker stays in the ISRs (``leaders_only``), unless it is stopped next. While a live broker is outside of ISRs
and may not return to them, the leaders ask for its return without end: see ``handlers/isr_change.py``.
"""

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import MoveLeadershipAway
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.core.pauses import LONGEST_MS, PauseView, drain_of
from controllerd.errors import BadZnode, CallRefused
from controllerd.machines.outbox import SLICE
from controllerd.pace import sliced
from controllerd.planning.drains import DrainPlan, Led, plan_drain
from controllerd.record.records import AlarmRecord
from controllerd.services.brokers import bring_up_to_date, compare_brokers
from controllerd.services.controlled_shutdown import shut_down
from controllerd.services.deletions import repeat_deletions
from controllerd.services.pauses import begin_pause
from controllerd.services.pending_deletions import elect_after_deletion_waived, send_pending_deletions
from controllerd.services.reassignments import additions_to, resume
from controllerd.services.usable_brokers import REGISTRATIONS, keep_out, tell_uncovered
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
    """A live broker missed requests that will never be sent: tell it everything again."""
    known = c.context.brokers.get(event.broker)
    if known is None:
        return
    log.warning("bringing a broker up to date again", broker=event.broker, reopen=event.reopen)
    if event.reopen:
        c.channels.remove_broker(event.broker)
        c.context.pending_deletions.end_channel(event.broker)
        c.channels.add_broker(known)
    unheard_of = additions_to(event.broker, c)
    await bring_up_to_date([event.broker], c)
    await resume(unheard_of, c)
    if event.reopen:  # the replicas that it was to delete went with the channel
        await repeat_deletions(event.broker, c)
        await elect_after_deletion_waived(
            event.broker, c.context.pending_deletions.end_waiver(event.broker, c.context.partitions_on(event.broker)), c
        )
        await send_pending_deletions([event.broker], c)


async def on_broker_modifications(event: BrokerModifications, c: Controller) -> None:
    """A registration changed in place: if endpoints or features differ, move our channel there and tell everybody."""
    try:
        fresh = await c.store.read_broker(event.broker)
    except BadZnode as bad:
        c.context.put_in_quarantine(bad.path, bad.reason)
        c.audit.record(AlarmRecord("broker registration cannot be used", str(bad)))
        return
    if fresh is None:
        return  # dead: BrokerChange has it
    if (reason := c.reach.why_no_talk(fresh)) is not None:
        keep_out(fresh, "broker asks for TLS or SASL", reason, c)
        return  # as long as it lives it is served where it was
    c.context.release(f"{REGISTRATIONS}{event.broker}")
    known = c.context.brokers.get(event.broker)
    if known is None or fresh.epoch != known.epoch:
        # Bounced, or mended: then the children of /brokers/ids did not change, and nobody else would notice.
        await compare_brokers(c)
        return
    if (fresh.endpoints, fresh.features) == (known.endpoints, known.features):
        return
    log.info("broker changed its registration", broker=event.broker)
    c.context.add_broker(fresh)
    c.channels.add_broker(fresh)
    tell_uncovered(c.context.brokers.values(), c)
    await c.outbox.update_metadata(c.context.live_or_shutting_down)


async def on_log_dir_event(_event: LogDirEventNotification, c: Controller) -> None:
    """Brokers lost log directories: ask them which of their replicas are still well.

    The question is a LeaderAndIsr that says nothing new, and the answer names the replicas without a directory
    (``handlers.responses``). What we know to be on a failed directory is not asked for: only a restart brings it back.
    """
    notes = await c.store.read_log_dir_notifications()
    for bad in notes.broken:
        c.audit.record(AlarmRecord("notification cannot be read", str(bad)))
    known = sorted(broker for broker in notes.brokers if broker in c.context.brokers)
    if known:
        log.warning("log directories failed", brokers=known)
    asked = {broker: await _replicas_to_ask_for(broker, c) for broker in known}
    new = {broker: [tp for tp in those if _is_new_replica(broker, tp, c)] for broker, those in asked.items()}
    await c.replicas.handle_on(asked, ReplicaState.ONLINE)
    await c.replicas.handle_on(new, ReplicaState.ONLINE)  # who was new is told nothing when it becomes online
    await c.store.delete_log_dir_notifications(notes.names)


async def _replicas_to_ask_for(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """Its replicas that are taken to be well; those of topics being deleted are found out about by deleting them."""
    offline, hidden = c.context.offline_dirs.get(broker, frozenset()), hidden_topics(c.context)
    found: list[TopicPartition] = []
    for part in sliced(list(c.context.partitions_on(broker)), SLICE):
        found += [tp for tp in part if tp not in offline and tp.topic not in hidden]
        await c.outbox.pace.breathe()
    return found


def _is_new_replica(broker: BrokerId, tp: TopicPartition, c: Controller) -> bool:
    return c.context.record(tp).replica_states[broker] is ReplicaState.NEW


async def on_controlled_shutdown(event: ControlledShutdown, c: Controller) -> ControlledShutdownReply:
    """Move leadership away, take the followers out of ISRs, answer with what the broker still leads.

    Each attempt repeats everything. The broker stays ineligible as leader until it is gone or bounces.
    """
    return await shut_down(event.broker, event.broker_epoch, c)


DRAIN_PAUSE_MS = 3_600_000
"""How long a broker that was relieved of its leaderships alone gets none back by itself, unless it is said.

One that was drained as a whole is to be stopped, which no controller after this one knows: it gets none back for as
long as anything can be paused.
"""
_NOT_MOVED = "the election did not move it: see the log"


async def on_drain_broker(event: DrainBroker, c: Controller) -> DrainReply:
    """Move what can be moved; the reply says what, and why the rest stays.

    :raises CallRefused: the broker is not registered, or the pause that goes with it cannot be begun.
    """
    known = c.context.brokers.get(event.broker)
    if known is None:
        raise CallRefused(f"broker {event.broker} is not registered: it leads nothing")
    plan = await _drain_plan(event.broker, c)
    # First, so that no controller that comes between or after gives anything back.
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
    """For how long the automatic rebalance leaves the broker alone, unless it registers anew."""
    until_ms = event.until_ms
    if until_ms is None:
        until_ms = c.clock.now_ms() + (DRAIN_PAUSE_MS if event.leaders_only else LONGEST_MS)
    return PauseView(until_ms, event.reason, event.by, epoch)


async def _shut_down_for_drain(broker: BrokerId, epoch: int, c: Controller) -> dict[TopicPartition, str]:
    """As the broker itself would ask for it."""
    reply = await shut_down(broker, epoch, c)
    if reply.error is not KafkaError.NONE:
        raise CallRefused(f"broker {broker} cannot be drained: {reply.error.name}")
    return {}


async def _drain_plan(broker: BrokerId, c: Controller) -> DrainPlan:
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


async def on_forget_broker(event: ForgetBroker, c: Controller) -> Forgotten:
    """A broker never returns: its replicas of topics that are being deleted hold nobody up any more (KAFKA-10548).

    What it may still have on its disks is written down first, and deleted should it return after all.

    :raises CallRefused: the broker is registered.
    """
    if event.broker in c.context.brokers:
        raise CallRefused(f"broker {event.broker} is registered: only a broker that is gone can be forgotten")
    given_up = await _held_up_by(event.broker, c)
    topics = tuple(sorted({tp.topic for tp in given_up}))
    log.warning("broker forgotten", broker=event.broker, reason=event.reason, topics=topics, replicas=len(given_up))
    await c.pending_deletions.add({event.broker: given_up})
    await c.deletions.resume_for(topics)
    return Forgotten(topics, len(given_up))


async def _held_up_by(broker: BrokerId, c: Controller) -> list[TopicPartition]:
    """The broker's replicas of queued topics that are not deleted yet."""
    queued, found = c.context.queued_for_deletion, list[TopicPartition]()
    for part in sliced(c.context.records_on(broker), SLICE):
        found += [
            record.tp
            for record in part
            if record.tp.topic in queued and record.replica_states[broker] is not ReplicaState.DELETION_SUCCESSFUL
        ]
        await c.outbox.pace.breathe()
    return found
