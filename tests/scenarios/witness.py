"""The check after every scenario: the logs of all controllers together match ZooKeeper, and break no rule."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Final

from controllerd.audit.reader import AuditReader
from controllerd.core.model import TopicPartition
from controllerd.record.digest import RunningDigest, digest_of
from controllerd.record.fold import Observed, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.record.state import ClusterState
from controllerd.record.travel import StateFold, merged
from controllerd.zk.store import ZooKeeperStore
from events.queue import EventQueue
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import World
from tests.fakes.zookeeper import FakeZooKeeper
from tests.record.logs import Log, stamped_log

_of_topic: Final = re.compile(r"/brokers/topics/([^/]+)(?:/partitions/(\d+)(?:/state)?)?").fullmatch
_ONLOOKER: Final = 99_999
"""Session id of the client that reads a tree in memory."""


MEANT: Final[Mapping[str, tuple[str, str]]] = {
    "test_a_missed_change_is_found_and_put_right_before_it_does_harm_history_62": (
        "I-36 ",
        "watches are silenced, so that the comparison with ZooKeeper is what finds the changes",
    ),
    "test_a4_a_zombie_does_not_create_the_state_of_a_new_topic_kafka_6082": (
        "topic t |partition t-",
        "the topic comes when the only controller is deposed, and no instance of ours leads after it",
    ),
}
"""Scenarios whose logs must differ: how the sentences begin, separated by bars, and why."""


def are_meant(found: Sequence[str], scenario: str) -> bool:
    """Whether the findings are the expected ones of the scenario: none, unless it has an entry, and then some."""
    beginnings, _ = MEANT.get(scenario, ("", ""))
    if not beginnings:
        return not found
    return bool(found) and all(line.startswith(tuple(beginnings.split("|"))) for line in found)


async def findings(worlds: Sequence[World]) -> list[str]:
    """Errors in the logs of controllers over ZooKeepers in memory, as sentences; empty if there are none."""
    found: list[str] = []
    for together in _by_tree(worlds):
        logs = [log_of_world(world, boot) for boot, world in enumerate(together)]
        found += broken(logs)
        leading = [world for world in together if is_at_rest(world)]
        if leading:
            state = folded(logs)
            found += differences(state, await observed(store_over(leading[-1])))
            if digest_of(state) != (own := digest_of_world(leading[-1])):
                found.append(f"the digest of the replay is {digest_of(state)}, that of the controller {own}")
    return found


async def findings_of_rig(directory: Path, store: ZooKeeperStore) -> list[str]:
    """Errors in the logs of whole nodes that kept their data below a directory and have ended."""
    logs, damages = read_logs(directory)
    return [*damages, *broken(logs), *differences(folded(logs), await observed(store))]


def read_logs(directory: Path) -> tuple[list[Log], list[str]]:
    """The audit logs of all nodes, and the places where they are damaged."""
    readers = [AuditReader(log) for log in sorted(directory.glob("*/audit/*/*"))]
    logs = [list(reader) for reader in readers]
    return logs, [f"a log is damaged: {finding}" for reader in readers for finding in reader.report().findings]


def log_of_world(world: World, boot: int = 0) -> Log:
    """Everything that a controller recorded, from the beginning on."""
    return stamped_log(world.audit.whole, node=world.c.node_id, boot=f"boot {boot}")


def broken(logs: Sequence[Log]) -> list[str]:
    """The rules that the logs break together."""
    return [f"{one.id} at seq {one.seq} of {one.boot}: {one.evidence}" for one in check(chain.from_iterable(logs))]


def folded(logs: Sequence[Log]) -> ClusterState:
    """The cluster at the end of the logs of all nodes."""
    fold = StateFold()
    for envelope, record in merged(logs):
        fold.apply(envelope, record)
    return fold.state


def differences(state: ClusterState, seen: Observed) -> list[str]:
    """Differences between the replay and ZooKeeper; znodes in quarantine cannot be compared."""
    excused = tuple(chain.from_iterable(map(_beginnings, state.quarantine)))
    return [found for found in diff_with_zookeeper(state, seen) if not found.startswith(excused)]


def _beginnings(path: str) -> Iterator[str]:
    """How sentences about a znode of a topic begin."""
    match = _of_topic(path)
    if match is not None and match[2] is None:
        yield from (f"topic {match[1]} ", f"partition {match[1]}-")
    elif match is not None:
        yield f"partition {match[1]}-{match[2]} "


def is_at_rest(world: World) -> bool:
    """Whether the world leads, has handled all events, and has its watches."""
    return world.c.is_active and not world.zk.is_lost and not len(world.queue)


def digest_of_world(world: World) -> str:
    """The digest of the published cluster state."""
    running = RunningDigest()
    for name, topic in world.snapshot.topics.items():
        running.update(name, topic.topic_id, [view[:4] for view in topic.partitions])
    epochs: dict[int, int] = {broker.id: broker.epoch for broker in world.snapshot.brokers.values()}
    return running.of(epochs, world.snapshot.shutting_down)


def store_over(world: World) -> ZooKeeperStore:
    """A store that reads the same tree."""
    zk = FakeZooKeeper(world.tree, _ONLOOKER)
    return ZooKeeperStore(zk, RecordingAudit(), world.clock, EventQueue(world.clock.monotonic).put)


async def observed(store: ZooKeeperStore) -> Observed:
    """The present content of ZooKeeper."""
    topics = (await store.topics.read_topics(await store.topics.read_topic_names())).topics
    assignments = {TopicPartition(t.name, p): a for t in topics.values() for p, a in t.assignments.items()}
    states = (await store.states.read_states(assignments)).states
    return Observed({name: image.topic_id for name, image in topics.items()}, assignments, states)


def _by_tree(worlds: Iterable[World]) -> Iterable[list[World]]:
    found: defaultdict[int, list[World]] = defaultdict(list)
    for world in worlds:
        found[id(world.tree)].append(world)
    return found.values()
