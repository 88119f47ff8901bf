"""Two contenders on one ZooKeeper, in memory or real, so that one test can run on both."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.ports.results import Won
from controllerd.record.records import ZkWriteRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import ANY_VERSION, Committed, Create, Delete, Operation, SetData, Znode, ZooKeeper
from controllerd.zk.client import ZooKeeperClient, open_store
from controllerd.zk.elector import Contender, ZooKeeperElector
from controllerd.zk.store import ZooKeeperStore
from events.base import Event
from tests.fakes.audit import RecordingAudit
from tests.fakes.store import FakeElector, FakeStore
from tests.fakes.zookeeper import Tree

OURS = Contender(2_000_000_000, "aaaaaaaa-0000-0000-0000-000000000000")
THEIRS = Contender(2_000_000_001, "bbbbbbbb-0000-0000-0000-000000000000")


class Events:
    """The enqueued events, in order."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def put(self, event: Event) -> None:
        """Append."""
        self.all.append(event)

    def clear_and_put(self, event: Event) -> None:
        """Preempt, then append."""
        self.all = [event]


class MonotonicClock:
    """The real clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds."""
        return time.monotonic()


@dataclass
class Peer:
    """One contender: its session, store and elector, with the events and records."""

    zk: ZooKeeper
    store: ZooKeeperStore
    elector: ZooKeeperElector
    events: Events
    audit: RecordingAudit
    client: ZooKeeperClient | None = None

    async def lead(self) -> Won:
        """Be elected."""
        await self.store.cluster.ensure_paths()
        won = await self.elector.elect(takeover=True)
        assert isinstance(won, Won)
        return won

    async def act(self, *operations: Operation) -> None:
        """Write without a fence, as brokers and tools do. Must succeed."""
        (outcome,) = await self.zk.commit([operations])
        assert isinstance(outcome, Committed), outcome

    async def put(self, path: str, data: bytes | None = None) -> None:
        """Create the znode with its parents, or change it at whatever version."""
        names = path.split("/")[1:]
        parents = ["/" + "/".join(names[: depth + 1]) for depth in range(len(names) - 1)]
        found = await self.zk.read([*parents, path])
        for parent, node in zip(parents, found, strict=False):
            if node is None:
                await self.act(Create(parent, None))
        await self.act(Create(path, data) if found[-1] is None else SetData(path, data or b"", ANY_VERSION))

    async def remove(self, path: str) -> None:
        """Delete the znode."""
        await self.act(Delete(path))

    async def node(self, path: str) -> Znode | None:
        """Return the present znode."""
        (node,) = await self.zk.read([path])
        return node

    async def add_topic(self, name: str, replicas: Sequence[Sequence[int]]) -> None:
        """Create a topic znode as a broker does."""
        assignments = {p: ReplicaAssignment(tuple(map(BrokerId, r))) for p, r in enumerate(replicas)}
        await self.put(paths.topic(name), codecs.encode_topic(TopicImage(name, assignments, None, 0)))

    def transactions(self) -> list[ZkWriteRecord]:
        """Return the records of transactions so far."""
        return self.audit.of(ZkWriteRecord)

    async def saw(self, event: Event, *, times: int = 1) -> None:
        """Wait until an event was enqueued so many times."""
        await until(lambda: self.events.all.count(event) >= times)


@dataclass
class World:
    """The two contenders."""

    ours: Peer
    theirs: Peer


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Wait for a condition."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while not condition():
        assert asyncio.get_running_loop().time() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.005)


def in_memory() -> World:
    """Two sessions of one tree."""
    tree = Tree()
    return World(_fake_peer(tree, 1, OURS), _fake_peer(tree, 2, THEIRS))


def _fake_peer(tree: Tree, session_id: int, contender: Contender) -> Peer:
    events, audit = Events(), RecordingAudit()
    store = FakeStore(tree, session_id=session_id, put=events.put, audit=audit)
    return Peer(store.zk, store, FakeElector(store, contender), events, audit)


@asynccontextmanager
async def connected(connect: str, contender: Contender = OURS, *, timeout_ms: int = 10_000) -> AsyncIterator[Peer]:
    """A contender over a real server."""
    events, audit = Events(), RecordingAudit()
    client = await open_store(
        connect,
        session_timeout_ms=timeout_ms,
        contender=contender,
        queue=events,
        audit=audit,
        clock=MonotonicClock(),
        connect_timeout_s=20,
    )
    try:
        yield Peer(client.zk, client.store, client.elector, events, audit, client)
    finally:
        await client.close()


@asynccontextmanager
async def on_server(connect: str) -> AsyncIterator[World]:
    """Two sessions of a real server."""
    async with connected(connect) as ours, connected(connect, THEIRS) as theirs:
        yield World(ours, theirs)


def states_of(topic: str, partitions: int, *, epoch: int = 1, leader: int = 1) -> dict[TopicPartition, LeaderAndIsr]:
    """Fresh states of a topic."""
    isr = (BrokerId(leader), BrokerId(leader + 1))
    return {TopicPartition(topic, p): LeaderAndIsr(BrokerId(leader), 0, isr, epoch, 0) for p in range(partitions)}
