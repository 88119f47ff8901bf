"""The picture of the cluster is compared with ZooKeeper from time to time, not only when something is said to change.

A watch that was lost, a write that nobody expected, a defect of ours: whatever makes the picture part from ZooKeeper is
otherwise found hours later, by an operator's act that decides on it (Honeycomb, 17 October 2017). What differs is
looked at a second time, because the event that tells of it may be on its way; what still differs is an alarm, and the
handlers of the events that should have come put it right.
"""

from collections.abc import Collection, Iterator, Mapping
from itertools import takewhile
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.deletion_progress import is_hidden
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from events.cluster import BrokerChange, SelfAudit
from events.topics import PartitionModifications, TopicChange
from handlers.config_changes import look_for_tokens
from handlers.preparation import quarantine
from handlers.quarantine import take_over_states
from replay.records import AlarmRecord

log = structlog.get_logger(__name__)

EVERY_S: Final = 300.0
"""Seconds from the end of one round to the next."""
LOOK_AGAIN_S: Final = 5.0
"""So long what is on its way may take."""
PARTITIONS_AT_ONCE: Final = 5_000
"""In one event; other events have their turn before the next of the round."""
_TOPICS: Final = "/brokers/topics"
_IDS: Final = "/brokers/ids"


def audit_later(c: Controller) -> None:
    """Begin a round after a while. The end of the term forgets it."""
    c.timers.put_later(EVERY_S, SelfAudit())


async def on_self_audit(event: SelfAudit, c: Controller) -> None:
    """Compare brokers, topics and a few thousand partitions with ZooKeeper; the next event of the round goes on."""
    if not c.is_active:
        return
    if event.suspects:
        await _look_again(event.suspects, c)
        return
    names = _next_topics(event.after, c)
    found = await _differences(names, c)
    if not event.after:
        await look_for_tokens(c)
        found |= await _brokers(c) | await _topic_names(c)
    if found:
        c.timers.put_later(LOOK_AGAIN_S, SelfAudit(suspects=frozenset(found)))
    if names and names[-1] != max(c.context.topics, default=""):
        c.queue.put(SelfAudit(after=names[-1]))
    else:
        audit_later(c)


def _next_topics(after: str, c: Controller) -> list[str]:
    """The topics that follow this one, up to so many partitions, at least one topic."""
    seen = 0

    def has_room(name: str) -> bool:
        nonlocal seen
        before, seen = seen, seen + len(c.context.topics[name].partitions)
        return before < PARTITIONS_AT_ONCE

    return list(takewhile(has_room, sorted(name for name in c.context.topics if name > after)))


async def _look_again(suspects: frozenset[str], c: Controller) -> None:
    names = sorted({name for path in suspects if (name := _topic_of(path)) in c.context.topics})
    states = await _states(names, c)
    still = suspects & (await _topics(names, c) | states.keys() | await _brokers(c) | await _topic_names(c))
    for path in sorted(still):
        log.error("picture differs from zookeeper", path=path)
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


async def _differences(names: Collection[str], c: Controller) -> set[str]:
    return await _topics(names, c) | (await _states(names, c)).keys()


async def _brokers(c: Controller) -> set[str]:
    """Registrations that are not what we know; those in quarantine are told there."""
    read = await c.store.read_brokers()
    known: Mapping[BrokerId, int] = c.context.epochs()
    ids = read.brokers.keys() | known.keys()
    found = {id_: broker.epoch for id_, broker in read.brokers.items()}
    differing = {f"{_IDS}/{id_}" for id_ in ids if found.get(id_) != known.get(id_)}
    return differing - c.context.quarantine.keys() - {bad.path for bad in read.broken}


async def _topic_names(c: Controller) -> set[str]:
    names = await c.store.read_topic_names()
    return {f"{_TOPICS}/{name}" for name in names ^ c.context.topics.keys()} - c.context.quarantine.keys()


async def _topics(names: Collection[str], c: Controller) -> set[str]:
    """Topic znodes at another version than the one that we know. Reading them arms their watches anew."""
    read = await c.store.read_topics(names)
    wrong = {bad.path for bad in read.broken} | {f"{_TOPICS}/{name}" for name in read.missing}
    for name, image in read.topics.items():
        known = c.context.topics.get(name)
        if known is None or (known.znode_version, known.czxid) != (image.znode_version, image.czxid):
            wrong.add(f"{_TOPICS}/{name}")
    return wrong - c.context.quarantine.keys()


async def _states(names: Collection[str], c: Controller) -> dict[str, tuple[TopicPartition, LeaderAndIsr | None]]:
    """Paths of states that are not as we know them, and what they say; None: they are missing."""
    known = (tp for name in names if not is_hidden(c.context, name) for tp in c.context.partitions_of(name))
    partitions = [tp for tp in known if tp.state_path not in c.context.quarantine]
    read = await c.store.read_states(partitions)
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
    """What must be equal. Below 2.7-IV2 leaders change ISRs themselves and tell us when it suits them (KIP-497)."""
    if state is None or c.context.features.alter_partition:
        return state
    return state.leader_epoch
