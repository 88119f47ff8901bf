"""Brokers register, bounce and die, and log directories fail: channels, replicas and leaderships follow."""

from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.liveness import BrokerDiff, diff_brokers
from controllerd.core.model import Broker, BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.core.sanitizer import names_us
from controllerd.services.our_replicas import replace_our_replicas
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.reassignments import resume_reassignments_to
from controllerd.services.registration import keep_registered
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
    await keep_registered(c)  # our own registration names a rack only if all live brokers have one


async def _apply(diff: BrokerDiff, observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Start the new brokers, then fail and start the bounced ones, then fail the dead ones.

    Except for the channels it is the order of Kafka's controller, which elects from new brokers before others are gone.

    Kafka replaces the channels of bounced brokers first. But while the new brokers are started, the bounced ones still
    count as live, and requests to them carry their earlier broker epochs. In a new channel such a request would be
    refused, and its topic removals would wait for yet another channel: too late if the topic was created again
    meanwhile (``channel_manager.removals``). So the old channel stays until the failure of its broker is handled. The
    next one begins with the removals that the old one did not deliver.
    """
    # Settings that a broker reported before it bounced are void at once: they must not allow an unclean election.
    expect_answers({broker: observed[broker].epoch for broker in (*diff.new, *diff.bounced)}, c)
    if diff.new:
        await on_broker_startup(diff.new, observed, c)
    if diff.bounced:
        await on_broker_failure(diff.bounced, c)
        await on_broker_startup(diff.bounced, observed, c)
    if diff.dead:
        await on_broker_failure(diff.dead, c)


async def on_broker_startup(brokers: Iterable[BrokerId], observed: Mapping[BrokerId, Broker], c: Controller) -> None:
    """Start brokers: first the other brokers learn of them, then they get metadata and their replicas.

    Each gets UpdateMetadata with all partitions that have a leader, and then one LeaderAndIsr with all its replicas.
    After its first LeaderAndIsr a broker checkpoints high watermarks, and would lose those of partitions not named.
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
    """Send these brokers all partitions that have a leader, then LeaderAndIsr for all their replicas at once.

    The removals that their closed channels did not deliver go first: a topic of that name may exist again. Topics that
    are being deleted are sent as deleted: where only the session of a broker ended, its process lives on and shows
    them.
    """
    await c.outbox.repeat_removals(brokers)
    await c.outbox.update_metadata_of(brokers, list(c.context.records()))
    await c.replicas.handle_on({broker: c.context.partitions_on(broker) for broker in brokers}, ReplicaState.ONLINE)


async def on_broker_failure(brokers: Iterable[BrokerId], c: Controller) -> None:
    """Handle the death of brokers: partitions that they led get another leader, or none."""
    dead = list(brokers)
    for broker in dead:
        c.channels.remove_broker(broker)
        c.context.remove_broker(broker)
    await on_replicas_become_offline({broker: c.context.partitions_on(broker) for broker in dead}, c)


async def on_replicas_become_offline(replicas: Mapping[BrokerId, Collection[TopicPartition]], c: Controller) -> None:
    """Elect new leaders first, from the ISR as it still is; only then take the replicas out of ISRs.

    The other order would elect from ISRs that have shrunk already, and bump leader epochs twice.
    """
    hidden = hidden_topics(c.context)
    leaderless = c.context.partitions_without_online_leader()
    await c.partitions.handle(leaderless, PartitionState.OFFLINE)
    elections = await c.partitions.trigger_online()
    left_alone = _never_started(c)
    stopped = {broker: _to_stop(partitions, hidden, left_alone) for broker, partitions in replicas.items()}
    is_sent = await c.replicas.handle_on(stopped, ReplicaState.OFFLINE)
    await c.deletions.fail(replicas)
    number = sum(map(len, replicas.values()))
    log.info("handled offline replicas", replicas=number, elected=len(elections.elected), failed=len(elections.failed))
    if not is_sent and not elections.elected:  # otherwise the brokers have received which brokers are dead
        await c.outbox.update_metadata(c.context.live_or_shutting_down)


def _never_started(c: Controller) -> AbstractSet[TopicPartition]:
    """Return the New partitions that are assigned to controllerd's own id, and wait for a broker in its place.

    None of their replicas was ever started.
    """
    new = (tp for tp in c.context.waiting_partitions() if c.context.partition_state(tp) is PartitionState.NEW)
    return {tp for tp in new if names_us(c.context.assignment(tp))}


def _to_stop(
    partitions: Collection[TopicPartition], hidden: AbstractSet[str], left_alone: AbstractSet[TopicPartition]
) -> Collection[TopicPartition]:
    """Return the replicas to stop, without topics that are being deleted and replicas that never started."""
    if not hidden and not left_alone:
        return partitions
    return [tp for tp in partitions if tp.topic not in hidden and tp not in left_alone]
