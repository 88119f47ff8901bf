"""The session of ZooKeeper with the objects that are built on it, for the daemon to open and close."""

from dataclasses import dataclass

from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.driver import THREADED, KazooDriver
from controllerd.zk.elector import Contender, ZooKeeperElector
from controllerd.zk.read_only import ReadOnly
from controllerd.zk.session import UNTIMED, EventSink, Timings, ZooKeeperSession
from controllerd.zk.store import ZooKeeperStore


@dataclass(frozen=True, slots=True)
class ZooKeeperClient:
    """The session, and the store and the elector that use it."""

    session: ZooKeeperSession
    zk: KazooZooKeeper
    store: ZooKeeperStore
    elector: ZooKeeperElector

    async def close(self) -> None:
        """End the session."""
        self.zk.close()
        await self.session.close()


@dataclass(frozen=True, slots=True)
class ReadOnlyClient:
    """The session of a client that only reads."""

    session: ZooKeeperSession
    zk: ReadOnly
    _below: KazooZooKeeper

    async def close(self) -> None:
        """End the session."""
        self._below.close()
        await self.session.close()


async def open_store(
    connect: str,
    *,
    session_timeout_ms: int,
    contender: Contender,
    queue: EventSink,
    audit: AuditLog,
    clock: Clock,
    connect_timeout_s: float | None = None,
    kazoo: KazooDriver = THREADED,
    timings: Timings = UNTIMED,
) -> ZooKeeperClient:
    """Connect to ``zookeeper.connect``: one or more hosts, and optionally a chroot, created when missing.

    :raises StoreUnavailable: no server answered within ``connect_timeout_s``; without it the attempts never end.
    """
    session = ZooKeeperSession(connect, session_timeout_ms, queue, audit, kazoo=kazoo, timings=timings)
    zk = KazooZooKeeper(session)
    store = ZooKeeperStore(zk, audit, clock, queue.put)
    zk.listen(store.fired)
    await session.open(connect_timeout_s)
    return ZooKeeperClient(session, zk, store, ZooKeeperElector(zk, store.writer, contender, audit, clock))


async def open_read_only(
    connect: str,
    *,
    session_timeout_ms: int,
    queue: EventSink,
    audit: AuditLog,
    connect_timeout_s: float | None = None,
    kazoo: KazooDriver = THREADED,
    timings: Timings = UNTIMED,
) -> ReadOnlyClient:
    """As ``open_store``, for a client that must not write: a missing chroot is not created, and reads as empty.

    :raises StoreUnavailable: no server answered within ``connect_timeout_s``; without it the attempts never end.
    """
    session = ZooKeeperSession(connect, session_timeout_ms, queue, audit, kazoo=kazoo, timings=timings)
    below = KazooZooKeeper(session)
    await session.open(connect_timeout_s, create_chroot=False)
    return ReadOnlyClient(session, ReadOnly(below), below)
