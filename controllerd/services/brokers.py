"""Brokers come, bounce and die: their channels, replicas and leaderships follow."""

from collections.abc import Iterable, Mapping

import structlog

from controllerd.controller import Controller
from controllerd.core.brokers import BrokerDiff, diff_brokers
from controllerd.core.model import Broker, BrokerId, ReplicaState
from controllerd.services.our_replicas import replace_our_replicas
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.reassignments import resume_reassignments_to
from controllerd.services.registration import keep_registered
from controllerd.services.replicas_offline import on_replicas_become_offline
from controllerd.services.settings_changes import expect_answers
from controllerd.services.usable_brokers import usable_brokers

log = structlog.get_logger(__name__)


async def compare_brokers(c: Controller) -> None:
    """Compare the registered brokers with the known ones; a greater broker epoch is a bounce: dead, then new."""
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
        await on_broker_startup(diff.new, observed, c)
    if diff.bounced:
        await on_broker_failure(diff.bounced, c)
        await on_broker_startup(diff.bounced, observed, c)
    if diff.dead:
        await on_broker_failure(diff.dead, c)


async def on_broker_startup(brokers: Iterable[BrokerId], observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Brokers are live now.

    They get everything that has a leader before their LeaderAndIsr, and that one names all their partitions at once,
    because a broker starts to checkpoint high watermarks after the first. Everybody else learns first that they live.
    """
    started = list(brokers)
    for broker in started:
        c.channels.add_broker(observed[broker])
        c.context.add_broker(observed[broker])
    await c.outbox.update_metadata(sorted(c.context.live_or_shutting_down - set(started)))
    await bring_up_to_date(started, c)
    await replace_our_replicas(c)
    await c.partitions.trigger_online()
    await resume_reassignments_to(started, c)
    await c.deletions.resume_for({tp.topic for broker in started for tp in c.context.partitions_on(broker)})
    await send_pending_deletions(started, c)


async def bring_up_to_date(brokers: list[BrokerId], c: Controller) -> None:
    """Everything that has a leader, then all replicas of these brokers at once.

    What their closed channels were still to remove from their metadata goes first: a topic of that name may exist
    again. Topics that go are told as gone: where only the session of a broker ended, its process lives on and
    shows them.
    """
    await c.outbox.repeat_removals(brokers)
    await c.outbox.update_metadata_of(brokers, list(c.context.records()))
    await c.replicas.handle_on({broker: c.context.partitions_on(broker) for broker in brokers}, ReplicaState.ONLINE)


async def on_broker_failure(brokers: Iterable[BrokerId], c: Controller) -> None:
    """Brokers are dead: whatever they led is led by others, or by nobody."""
    dead = list(brokers)
    for broker in dead:
        c.channels.remove_broker(broker)
        c.context.remove_broker(broker)
    await on_replicas_become_offline({broker: c.context.partitions_on(broker) for broker in dead}, c)
