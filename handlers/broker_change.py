"""Brokers come, bounce, change and die."""

from collections.abc import Iterable, Mapping

import structlog

from controllerd.controller import Controller
from controllerd.core.brokers import BrokerDiff, diff_brokers
from controllerd.core.model import Broker, BrokerId, ReplicaState
from controllerd.errors import BadZnode
from controllerd.record.records import AlarmRecord
from events.base import Event
from events.cluster import BrokerModifications, BrokerRefresh
from handlers.debts import let_lead, pay_debts
from handlers.our_replicas import replace_our_replicas
from handlers.reassignments import additions_to, resume, resume_reassignments_to
from handlers.registration import keep_registered
from handlers.replicas_offline import on_replicas_become_offline
from handlers.settings_records import expect_answers
from handlers.topic_deletion import repeat_deletions
from handlers.usable_brokers import REGISTRATIONS, keep_out, tell_uncovered, usable_brokers

log = structlog.get_logger(__name__)


async def on_broker_change(_event: Event, c: Controller) -> None:
    """Compare the registered brokers with the known ones; a greater broker epoch is a bounce: dead, then new."""
    if not c.is_active:
        return
    observed = await usable_brokers(c)
    diff = diff_brokers(c.context.epochs(), {broker.id: broker.epoch for broker in observed.values()})
    if diff:
        log.info("brokers changed", new=diff.new, bounced=diff.bounced, dead=diff.dead)
        await _apply(diff, observed, c)
    await keep_registered(c)  # it has a rack if and only if all live brokers have one


async def _apply(diff: BrokerDiff, observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Start, bury, start, bury: the order of Kafka's controller, which elects from new brokers before others are gone.

    While the new brokers are started, the others still count as live, and requests to them carry their earlier broker
    epochs. So a channel is closed when its broker is buried, and not before. Such a request is either answered before,
    or it ends with the channel, and the next channel begins with what it was to remove from the broker's metadata. In
    the next channel it would be refused for its broker epoch, and its removals would be kept for the channel after
    that: too late if the topic was created anew meanwhile (``channel_manager.removals``).

    What a broker said before it bounced allows no unclean election, also while it still counts as live.
    """
    expect_answers({broker: observed[broker].epoch for broker in (*diff.new, *diff.bounced)}, c)
    if diff.new:
        await _start(diff.new, observed, c)
    if diff.bounced:
        await _bury(diff.bounced, c)
        await _start(diff.bounced, observed, c)
    if diff.dead:
        await _bury(diff.dead, c)


async def _start(brokers: Iterable[BrokerId], observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Brokers are live now.

    They get everything that has a leader before their LeaderAndIsr, and that one names all their partitions at once,
    because a broker starts to checkpoint high watermarks after the first. Everybody else learns first that they live.
    """
    started = list(brokers)
    for broker in started:
        c.channels.add_broker(observed[broker])
        c.context.add_broker(observed[broker])
    await c.outbox.update_metadata(sorted(c.context.live_or_shutting_down - set(started)))
    await _bring_up_to_date(started, c)
    await replace_our_replicas(c)
    await c.partitions.trigger_online()
    await resume_reassignments_to(started, c)
    await c.deletions.resume_for({tp.topic for broker in started for tp in c.context.partitions_on(broker)})
    await pay_debts(started, c)


async def _bring_up_to_date(brokers: list[BrokerId], c: Controller) -> None:
    """Everything that has a leader, then all replicas of these brokers at once.

    What their closed channels were still to remove from their metadata goes first: a topic of that name may exist
    again. Topics that go are told as gone: where only the session of a broker ended, its process lives on and
    shows them.
    """
    await c.outbox.repeat_removals(brokers)
    await c.outbox.update_metadata_of(brokers, list(c.context.records()))
    await c.replicas.handle_on({broker: c.context.partitions_on(broker) for broker in brokers}, ReplicaState.ONLINE)


async def on_broker_refresh(event: BrokerRefresh, c: Controller) -> None:
    """A live broker missed requests that will never be sent: tell it everything again."""
    known = c.context.brokers.get(event.broker)
    if not c.is_active or known is None:
        return
    log.warning("bringing a broker up to date again", broker=event.broker, reopen=event.reopen)
    if event.reopen:
        c.channels.remove_broker(event.broker)
        c.context.debts.end_channel(event.broker)
        c.channels.add_broker(known)
    unheard_of = additions_to(event.broker, c)
    await _bring_up_to_date([event.broker], c)
    await resume(unheard_of, c)
    if event.reopen:  # the replicas that it was to delete went with the channel
        await repeat_deletions(event.broker, c)
        await let_lead(event.broker, c.context.debts.end_waiver(event.broker, c.context.partitions_on(event.broker)), c)
        await pay_debts([event.broker], c)


async def _bury(brokers: Iterable[BrokerId], c: Controller) -> None:
    """Brokers are dead: whatever they led is led by others, or by nobody."""
    dead = list(brokers)
    for broker in dead:
        c.channels.remove_broker(broker)
        c.context.remove_broker(broker)
    await on_replicas_become_offline({broker: c.context.partitions_on(broker) for broker in dead}, c)


async def on_broker_modifications(event: BrokerModifications, c: Controller) -> None:
    """A registration changed in place: if endpoints or features differ, move our channel there and tell everybody."""
    if not c.is_active:
        return
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
        await on_broker_change(event, c)
        return
    if (fresh.endpoints, fresh.features) == (known.endpoints, known.features):
        return
    log.info("broker changed its registration", broker=event.broker)
    c.context.add_broker(fresh)
    c.channels.add_broker(fresh)
    tell_uncovered(c.context.brokers.values(), c)
    await c.outbox.update_metadata(c.context.live_or_shutting_down)
