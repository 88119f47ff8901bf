"""Checks by the clock: states in quarantine, expired delegation tokens, and the context against ZooKeeper.

**The self audit** compares the context with ZooKeeper from time to time, and not only when a watch announces a change.
A lost watch, a write of an unexpected writer or a defect of ours would otherwise be found hours later, by an operator's
command that decides on an outdated context (Honeycomb, 17 October 2017). A difference is looked at a second time,
because the event of the change may be on its way; if it is still there, it is an alarm, and the handlers of the events
that should have come repair the context.

The second look compares differences, not paths. ZooKeeper delivers a watch before it answers a read
that shows the change, kazoo's threads hand both on within the five seconds, and the queue is first
in, first out: the event of a change that the first look saw is handled before the second look
begins. So a watch counts as lost if the context has the same content of the znode as at the first
look. If it has other content, an event took the znode meanwhile, and the present difference is a
later change, whose event may still come after the second look, seconds later with a slow queue or a
server that lags. A later change gets a second look of its own. A context without the znode is the
same before its creation and after its deletion: there the znode that was found must be the same, too.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping
from itertools import takewhile
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.record.records import AlarmRecord
from controllerd.services.delegation_tokens import delete_expired_tokens, schedule_token_check
from controllerd.services.pending_deletions import send_pending_deletions
from controllerd.services.quarantine import (
    quarantine,
    quarantined_states,
    restore_state,
    serve_repaired,
    still_served,
    take_over_states,
)
from controllerd.services.reassignments import expect_completion
from events.base import Event
from events.cluster import BrokerChange, DelegationTokenExpiryCheck, Difference, SelfAudit
from events.topics import PartitionModifications, TopicChange

log = structlog.get_logger(__name__)


async def on_quarantine_check(_event: Event, c: Controller) -> None:
    """Read the states in quarantine again, and serve each that is sound now. State znodes have no watches."""
    read = await c.store.states.read_states(quarantined_states(c))
    for tp, leadership in read.states.items():
        log.info("read partition state out of quarantine", partition=str(tp))
        restore_state(tp, leadership, c)
    for tp in read.missing:  # deleted: it starts like a new partition, as it would at a failover
        c.context.take_out_of_quarantine(tp.state_path)
    # The release is recorded first: in the audit log, no later write may seem to touch a znode in quarantine.
    await c.outbox.write_down_slowly()
    await c.partitions.handle(still_served(read.missing, c), PartitionState.NEW)
    await serve_repaired(still_served(read.states, c), c)
    expect_completion(read.states, c)
    if read.states or read.missing:  # only now is it known whether pending deletions are due
        await send_pending_deletions(sorted(c.context.live_or_shutting_down), c)


async def on_token_expiry_check(_event: DelegationTokenExpiryCheck, c: Controller) -> None:
    """Delete the tokens that have expired, and check the others again later."""
    await delete_expired_tokens(c)


EVERY_S: Final = 300.0
"""Seconds from the end of one round of the self audit to the next."""
LOOK_AGAIN_S: Final = 5.0
"""Seconds from the first look to the second: the time that an announced change may take to be handled."""
PARTITIONS_AT_ONCE: Final = 5_000
"""Partitions that one event compares; other events have their turn before the next event of the round."""
_TOPICS: Final = "/brokers/topics"
_IDS: Final = "/brokers/ids"


def audit_later(c: Controller) -> None:
    """Schedule the next round of the self audit. The end of the term cancels it."""
    c.timers.put_later(EVERY_S, SelfAudit())


async def on_self_audit(event: SelfAudit, c: Controller) -> None:
    """Compare brokers, topics and a few thousand partitions with ZooKeeper; the next event of the round goes on."""
    if event.suspects:
        await _look_again(event.suspects, c)
        return
    names = _next_topics(event.after, c)
    found = await _differences(names, c)
    if not event.after:
        await schedule_token_check(c, c.policy.delegation_token_expiry_check_interval_s)
        found |= await _brokers(c) | await _topic_names(c)
    if found:
        c.timers.put_later(LOOK_AGAIN_S, SelfAudit(suspects=frozenset(found)))
    if names and names[-1] != max(c.context.topics, default=""):
        c.queue.put(SelfAudit(after=names[-1]))
    else:
        audit_later(c)


def _next_topics(after: str, c: Controller) -> list[str]:
    """The topics that follow this one by name, up to ``PARTITIONS_AT_ONCE`` partitions, and at least one topic."""
    seen = 0

    def has_room(name: str) -> bool:
        nonlocal seen
        before, seen = seen, seen + len(c.context.topics[name].partitions)
        return before < PARTITIONS_AT_ONCE

    return list(takewhile(has_room, sorted(name for name in c.context.topics if name > after)))


async def _look_again(suspects: frozenset[Difference], c: Controller) -> None:
    first = {suspect.path: suspect for suspect in suspects}
    names = sorted({name for path in first if (name := _topic_of(path)) in c.context.topics})
    states = await _states(names, c)
    found = await _topics(names, c) | _of_states(states, c) | await _brokers(c) | await _topic_names(c)
    second = {each for each in found if each.path in first}
    lost = {each for each in second if _was_not_handled(first[each.path], each)}
    if second - lost:
        c.timers.put_later(LOOK_AGAIN_S, SelfAudit(suspects=frozenset(second - lost)))
    await _repair({each.path for each in lost}, states, c)


def _was_not_handled(first: Difference, second: Difference) -> bool:
    """Whether no event handled the znode between the two looks, so that a watch was lost (the module explains it)."""
    return second.known == first.known and (second.known is not None or second.found == first.found)


async def _repair(
    still: Collection[str], states: Mapping[str, tuple[TopicPartition, LeaderAndIsr | None]], c: Controller
) -> None:
    """Alarm the differences, take over the states, and queue the events that should have come for the other znodes."""
    for path in sorted(still):
        log.error("found differences from zookeeper", path=path)
        c.audit.record(AlarmRecord("picture differs from ZooKeeper", path))
    mended = [found for path, found in states.items() if path in still]
    await take_over_states({tp: state for tp, state in mended if state is not None}, c)
    if any(path.startswith(_IDS) for path in still):
        c.queue.put(BrokerChange())
    topics = [_topic_of(path) for path in sorted(still) if path.startswith(_TOPICS) and path not in states]
    if topics:
        c.queue.put(TopicChange())
    for name in topics:
        c.queue.put(PartitionModifications(name))


def _topic_of(path: str) -> str:
    return path.removeprefix(f"{_TOPICS}/").split("/")[0] if path.startswith(f"{_TOPICS}/") else ""


async def _differences(names: Collection[str], c: Controller) -> set[Difference]:
    return await _topics(names, c) | _of_states(await _states(names, c), c)


def _compare(known: Mapping[str, Hashable], found: Mapping[str, Hashable], c: Controller) -> set[Difference]:
    """Return the differences; quarantine itself reports the znodes that are in it."""
    paths = (known.keys() | found.keys()) - c.context.quarantine.keys()
    pairs = ((path, known.get(path), found.get(path)) for path in paths)
    return {Difference(*each) for each in pairs if each[1] != each[2]}


async def _brokers(c: Controller) -> set[Difference]:
    """Return the registrations that differ from the context, by broker epoch."""
    read = await c.store.brokers.read_brokers()
    epochs: Mapping[BrokerId, int] = c.context.epochs()
    known = {f"{_IDS}/{id_}": epoch for id_, epoch in epochs.items()}
    found = {f"{_IDS}/{id_}": broker.epoch for id_, broker in read.brokers.items()}
    broken = {bad.path for bad in read.broken}
    return {each for each in _compare(known, found, c) if each.path not in broken}


async def _topic_names(c: Controller) -> set[Difference]:
    """Return the topics that only one side has.

    The znode of an unknown topic is read as well, to distinguish it from a later topic of its name.
    """
    names = await c.store.topics.read_topic_names()
    gone = {f"{_TOPICS}/{name}": _known(name, c) for name in c.context.topics.keys() - names}
    fresh = sorted(names - c.context.topics.keys())
    return _compare(gone, {}, c) | (await _topics(fresh, c) if fresh else set())


async def _topics(names: Collection[str], c: Controller) -> set[Difference]:
    """Topic znodes at another version than the one that we know. Reading them arms their watches anew."""
    read = await c.store.topics.read_topics(names)
    known = {f"{_TOPICS}/{name}": _known(name, c) for name in names}
    found: dict[str, Hashable] = {bad.path: bad.reason for bad in read.broken}
    found |= {f"{_TOPICS}/{name}": (image.znode_version, image.czxid) for name, image in read.topics.items()}
    return _compare(known, found, c)


def _known(topic: str, c: Controller) -> tuple[int, int] | None:
    image = c.context.topics.get(topic)
    return (image.znode_version, image.czxid) if image is not None else None


def _of_states(states: Mapping[str, tuple[TopicPartition, LeaderAndIsr | None]], c: Controller) -> set[Difference]:
    known = {path: _seen(c.context.leadership(tp), c) for path, (tp, _) in states.items()}
    return _compare(known, {path: _seen(state, c) for path, (_, state) in states.items()}, c)


async def _states(names: Collection[str], c: Controller) -> dict[str, tuple[TopicPartition, LeaderAndIsr | None]]:
    """Return the state znodes that differ from the context, by path, with their content; None: the znode is missing."""
    known = (tp for name in names if not is_hidden(c.context, name) for tp in c.context.partitions_of(name))
    partitions = [tp for tp in known if tp.state_path not in c.context.quarantine]
    read = await c.store.states.read_states(partitions)
    quarantine(c, read.broken.values())
    return {tp.state_path: (tp, read.states.get(tp)) for tp in _wrong(partitions, read.states, c)}


def _wrong(
    partitions: Collection[TopicPartition], found: Mapping[TopicPartition, LeaderAndIsr], c: Controller
) -> Iterator[TopicPartition]:
    for tp in partitions:
        record = c.context.find(tp)
        if record is None or tp.state_path in c.context.quarantine:
            continue
        if _seen(record.leadership, c) != _seen(found.get(tp), c):
            yield tp


def _seen(state: LeaderAndIsr | None, c: Controller) -> LeaderAndIsr | int | None:
    """The part of a state that must be equal in ZooKeeper and in the context.

    Below 2.7-IV2 that is the leader epoch alone: leaders change ISRs themselves and announce it later (KIP-497).
    """
    if state is None or c.context.features.alter_partition:
        return state
    return state.leader_epoch
