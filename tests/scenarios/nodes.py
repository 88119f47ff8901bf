"""Whole controllers inside the test's own process, on a real ZooKeeper behind a proxy, with stub brokers around."""

import asyncio
import struct
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kazoo.client import KazooClient

from channel_manager.batch import RequestBatch
from controllerd.config.load import load_config
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.daemon.node import ControllerNode, open_node
from controllerd.dev.txnlog import LoggedTransaction, TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.identity import claim_data_dir
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import EventBegin, Record, ResponseRecord
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from controllerd.zk.session import ZooKeeperSession
from tests.channel_manager.stub_broker import StubBroker, stub_broker
from tests.zk.proxy import ZooKeeperProxy
from tests.zk.world import THEIRS, Peer, connected, until

NODE: Final = 2_000_000_000
SESSION_MS: Final = 10_000
"""Longer than any pause of a busy machine: no session of these tests ends unless the test ends it."""
_PEER_MS: Final = 30_000
_CLOSE: Final = -11


@dataclass
class Rig:
    """One chroot with its controllers and brokers."""

    server: str
    chroot: str
    proxy: ZooKeeperProxy
    peer: Peer
    """The tests' own session, for writes of brokers, tools and other controllers."""
    directory: Path
    _log: TransactionLog
    _logged: list[LoggedTransaction] = field(default_factory=list)
    stubs: dict[int, StubBroker] = field(default_factory=dict)

    @asynccontextmanager
    async def node(
        self, node_id: int = NODE, *, leads: bool = True, **settings: str | tuple[str, ...]
    ) -> AsyncIterator[ControllerNode]:
        """A controller behind the proxy; with ``leads`` the block begins when it is active.

        ``settings`` are configuration keys with two underscores for the dot.
        """
        directory = self.directory / str(node_id)
        given: dict[str, object] = {
            "zookeeper.connect": self.proxy.connect + self.chroot,
            "zookeeper.session_timeout_ms": str(SESSION_MS),
            "node.id": node_id,
            "node.data_dir": str(directory),
            "kafka.listeners": ["PLAINTEXT://127.0.0.1:0"],
            "http.listen": "127.0.0.1:0",
        }
        given |= {key.replace("__", "."): value for key, value in settings.items()}
        config = load_config(None, {}, given)
        with claim_data_dir(directory) as identity:
            async with open_node(config, identity) as running:
                if leads:
                    await until(lambda: running.snapshot.is_active)
                yield running

    @asynccontextmanager
    async def brokers(self, *ids: int) -> AsyncIterator[Mapping[int, StubBroker]]:
        """Registered brokers that answer every request without error until a test changes that."""
        async with AsyncExitStack() as stack:
            for broker in ids:
                self.stubs[broker] = await stack.enter_async_context(stub_broker(broker))
                await self.register(broker)
            yield self.stubs

    async def register(self, broker: int) -> None:
        """Register a broker in the tests' own session."""
        data = codecs.encode_broker(self.stubs[broker].registration(), timestamp_ms=1_700_000_000_000)
        if await self.peer.node(paths.BROKER_IDS) is None:
            await self.peer.store.cluster.ensure_paths()
        await self.peer.act(Create(paths.broker(BrokerId(broker)), data, ephemeral=True))

    async def die(self, broker: int) -> None:
        """Delete a broker's registration."""
        await self.peer.remove(paths.broker(BrokerId(broker)))

    async def broker_epoch(self, broker: int) -> int:
        """The czxid of a registration."""
        node = await self.peer.node(paths.broker(BrokerId(broker)))
        assert node is not None
        return node.czxid

    # -- the content of ZooKeeper --------------------------------------------------------------------------------------

    async def epoch(self) -> int:
        """The controller epoch."""
        node = await self.peer.node(paths.CONTROLLER_EPOCH)
        assert node is not None
        return codecs.decode_controller_epoch(node.data)

    async def holder(self) -> int:
        """The node id in ``/controller``, -1 when there is none."""
        node = await self.peer.node(paths.CONTROLLER)
        return -1 if node is None else codecs.decode_controller(node.data).broker_id

    async def states(self, topic: str, partitions: int) -> Mapping[TopicPartition, LeaderAndIsr]:
        """The state znodes that exist."""
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        return (await self.peer.store.states.read_states(wanted)).states

    async def leaders(self, topic: str, partitions: int) -> list[int]:
        """The leader of each partition, -2 for one without a state znode."""
        states = await self.states(topic, partitions)
        found = [states.get(TopicPartition(topic, number)) for number in range(partitions)]
        return [-2 if state is None else state.leader for state in found]

    async def led_by(self, topic: str, *leaders: int) -> None:
        """Wait until the partitions of a topic have these leaders."""
        async with asyncio.timeout(30):
            while await self.leaders(topic, len(leaders)) != list(leaders):  # noqa: ASYNC110  # ZooKeeper is looked at
                await asyncio.sleep(0.01)

    # -- the writes to ZooKeeper ---------------------------------------------------------------------------------------

    def written(self) -> list[LoggedTransaction]:
        """Every transaction that touched this chroot, from the server's own log; refused ones too."""
        self._logged += self._log.read_new()
        return [found for found in self._logged if any(self._is_here(op.path) for op in found.operations)]

    def written_by(self, session_id: int, *, since: int = 0) -> list[LoggedTransaction]:
        """The successful writes of one session after a zxid."""
        found = [each for each in self.written() if each.session_id == session_id and each.zxid > since]
        return [each for each in found if not each.was_refused]

    def refused_to(self, session_id: int, *, since: int = 0) -> list[LoggedTransaction]:
        """Transactions of one session after a zxid that were refused as a whole."""
        self.written()
        return [
            each for each in self._logged if each.session_id == session_id and each.zxid > since and each.was_refused
        ]

    def _is_here(self, path: str) -> bool:
        return path.startswith(f"{self.chroot}/")


@asynccontextmanager
async def rig_of(
    server: str, chroot: str, proxy: ZooKeeperProxy, log: TransactionLog, directory: Path
) -> AsyncIterator[Rig]:
    """A rig without controllers or brokers."""
    async with connected(server + chroot, THEIRS, timeout_ms=_PEER_MS) as peer:
        rig = Rig(server, chroot, proxy, peer, directory, log)
        rig.written()
        yield rig


def served(directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A ZooKeeper server, for a fixture that lives longer than one event loop."""
    zookeeper = EmbeddedZooKeeper(directory)
    with asyncio.Runner() as runner:
        runner.run(zookeeper.start())
        yield zookeeper
        runner.run(zookeeper.close())


def session_of(node: ControllerNode) -> ZooKeeperSession:
    """The ZooKeeper session of a node."""
    assert node.instance.client is not None
    return node.instance.client.session


def kazoo_of(session: ZooKeeperSession) -> KazooClient:
    """The real client under a session."""
    client = session.client
    assert isinstance(client, KazooClient)
    return client


async def expire(session: ZooKeeperSession, server: str) -> None:
    """End a session from outside: connect with its id and password, as a second client, and close it."""
    await end_session(kazoo_of(session).client_id, server)


async def end_session(client_id: tuple[int, bytes], server: str) -> None:
    """Close the session as a second client of it.

    The server then closes the first client's connection. If the first client reconnects before the second one has sent
    its close, the server closes the second connection: it tries again.
    """
    has_asked = False
    async with asyncio.timeout(60):
        while True:
            async with _second_client(server) as (reader, writer):
                with suppress(asyncio.IncompleteReadError, ConnectionError):
                    if not await _lives(client_id, reader, writer):
                        assert has_asked, "the session had ended already"
                        return
                    has_asked = True
                    writer.write(_framed(struct.pack("!ii", 1, _CLOSE)))
                    await _frame(reader)
                    return


async def _lives(client_id: tuple[int, bytes], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    session_id, password = client_id
    writer.write(_framed(struct.pack("!iqiqi", 0, 0, SESSION_MS, session_id, len(password)) + password + b"\0"))
    granted: int = struct.unpack_from("!iiq", await _frame(reader))[2]
    return granted == session_id


@asynccontextmanager
async def _second_client(server: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = server.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


def _framed(content: bytes) -> bytes:
    return struct.pack("!i", len(content)) + content


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = struct.unpack("!i", await reader.readexactly(4))
    return await reader.readexactly(length)


def last_sent(stub: StubBroker, api: str, topic: str) -> Mapping[int, Sequence[int]]:
    """The last request about each partition of a topic: leader, leader epoch, partition epoch, then ISR."""
    rows: dict[int, Sequence[int]] = {}
    for got in stub.got:
        if got.api == api:
            for state in got.entity.topic_states:
                if state.topic_name == topic:
                    rows |= {each.partition_index: _brief(each) for each in state.partition_states}
    return rows


def _brief(state: Any) -> tuple[int, ...]:
    """The fields of a state; LeaderAndIsr and UpdateMetadata name the partition epoch differently."""
    version = state.partition_epoch if hasattr(state, "partition_epoch") else state.zk_version
    return (state.leader, state.leader_epoch, version, *state.isr)


def fail_at_the_next_batch(node: ControllerNode) -> None:
    """Plant a defect: fail once, the next time that requests for brokers are to be collected."""
    assert node.instance.loop is not None
    outbox = node.instance.loop._c.outbox
    whole = outbox._new_batch

    def broken(_context: ControllerContext) -> RequestBatch:
        outbox._new_batch = whole
        raise RuntimeError("planted")

    outbox._new_batch = broken


class RecordedEvents:
    """A subscriber to the records of a node, which keeps them for the test."""

    def __init__(self, node: ControllerNode) -> None:
        self._records: list[Record] = []
        node.bus._subscribers.append((EVERY_KIND, self.record))

    def record(self, *records: Record) -> None:
        """Keep the records."""
        self._records += records

    def begun(self) -> Counter[str]:
        """How many events of each kind were begun."""
        return Counter(record.name for record in self._records if isinstance(record, EventBegin))

    def errors(self, api: str) -> list[int]:
        """The responses of brokers to requests of one kind, in order."""
        return [record.error for record in self._records if isinstance(record, ResponseRecord) and record.api == api]
