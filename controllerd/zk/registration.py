"""The registration of the embedded reference broker: its session, its ``/brokers/ids/<id>``, its broker epoch.

It is part of this package because only this package uses kazoo. The controller itself never registers as a broker.
"""

import asyncio
import base64
import uuid
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from controllerd.clock import SystemClock
from controllerd.core.model import Broker, BrokerId
from controllerd.errors import ControllerdError, StoreUnavailable
from controllerd.record.records import Record
from controllerd.zk import codecs, paths
from controllerd.zk.access import CONFLICT_CODES, Aborted, Create, Delete, Fired, Transaction, Znode, code_name
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession
from events.base import Event
from events.cluster import Expire, RegisterBrokerAndReelect

log = structlog.get_logger(__name__)

_PATHS: Final = (*paths.PERSISTENT_PATHS, paths.LATEST_PRODUCER_ID_BLOCK)


class BrokerIdTaken(ControllerdError):
    """Another session owns the registration of this broker id, and did not end in time."""


class RegistrationRefused(ControllerdError):
    """ZooKeeper refuses a write that every broker makes at its start."""


class BrokerRegistration:
    """One broker's session and its ``/brokers/ids/<id>``, registered again whenever the session was lost.

    All methods belong to the event loop's thread.
    """

    def __init__(self, connect: str, session_timeout_ms: int, on_epoch: Callable[[int], None]) -> None:
        """``on_epoch`` takes the broker epoch of each registration: the czxid of its znode (KIP-380)."""
        self._session = ZooKeeperSession(connect, session_timeout_ms, self, _DiscardedRecords())
        self._zk = KazooZooKeeper(self._session)
        self._zk.listen(self._fired)
        self._on_epoch = on_epoch
        self._former_sessions: set[int] = set()
        self._look_again = asyncio.Event()
        self._session_is_new = asyncio.Event()

    async def open(self, timeout_s: float) -> str:
        """Connect, create the paths that every broker creates, and return the cluster id, a new one for a new cluster.

        :raises StoreUnavailable: no server answered in time, or the session was lost meanwhile.
        """
        await self._session.open(timeout_s)
        await self._ensure(_PATHS)
        return await self._cluster_id()

    async def register(self, broker: Broker, *, wait_s: float) -> int:
        """Register in the present session, and return the broker epoch. ``broker.epoch`` is not used.

        Waits until a registration that a killed process left behind is gone.

        :raises BrokerIdTaken: another session still holds it after ``wait_s``. :raises StoreUnavailable: session lost.
        """
        try:
            async with asyncio.timeout(wait_s):
                epoch = await self._create(broker)
        except TimeoutError as error:
            raise BrokerIdTaken(f"{paths.broker(broker.id)} is held by another session") from error
        self._on_epoch(epoch)
        return epoch

    async def keep_registered(self, broker: Broker) -> None:
        """Register again in every session that follows a lost one. Never returns."""
        while True:
            await self._session_is_new.wait()
            self._session_is_new.clear()
            try:
                self._on_epoch(await self._create(broker))
            except StoreUnavailable as error:
                log.info("registration ended with its session", broker=broker.id, reason=str(error))

    async def close(self) -> None:
        """End the session, so that ZooKeeper deletes the registration at once."""
        self._zk.close()
        await self._session.close()

    def put(self, event: Event) -> None:
        """Take an event of the session: read again after a reconnect, register again in a new session."""
        self._look_again.set()
        if isinstance(event, RegisterBrokerAndReelect):
            self._session_is_new.set()

    def clear_and_put(self, event: Event) -> None:
        """Take the loss of the session."""
        if isinstance(event, Expire):
            log.warning("zookeeper session of broker lost", generation=event.generation)
            self._former_sessions.add(self._session.session_id)
            self._session.expire_handled()

    def _fired(self, _path: str, _fired: Fired) -> None:
        self._look_again.set()

    async def _create(self, broker: Broker) -> int:
        """Return the epoch of our registration, which is created once no other session owns the znode."""
        data = codecs.encode_broker(broker, timestamp_ms=SystemClock().now_ms())
        create = Create(paths.broker(broker.id), data, ephemeral=True)
        while True:
            self._look_again.clear()
            node = await self._find(broker.id)
            if node is None:
                await self._commit([create])
            elif node.ephemeral_owner == self._session.session_id:
                log.info("broker registered", broker=broker.id, broker_epoch=node.czxid)
                return node.czxid
            elif node.ephemeral_owner in self._former_sessions:
                # The znode is of our former session, which the server has not ended yet (KAFKA-7165).
                await self._commit([Delete(create.path, node.version), create])
            else:
                log.info("broker id held by another session", broker=broker.id, session=hex(node.ephemeral_owner))
                await self._look_again.wait()

    async def _find(self, broker: BrokerId) -> Znode | None:
        (node,) = await self._zk.read_and_watch([paths.broker(broker)])
        return node

    async def _ensure(self, wanted: Sequence[str]) -> None:
        """Create the missing persistent znodes among these and their parents, with null data."""
        parents = {path[:end] for path in wanted for end in range(1, len(path)) if path[end] == "/"}
        missing = sorted(parents | set(wanted), key=lambda path: path.count("/"))
        for path in missing:
            await self._commit([Create(path, None)])

    async def _cluster_id(self) -> str:
        fresh = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        await self._ensure([paths.CLUSTER_ID.rpartition("/")[0]])
        await self._commit([Create(paths.CLUSTER_ID, codecs.encode_cluster_id(fresh))])
        (node,) = await self._zk.read([paths.CLUSTER_ID])
        if node is None:
            raise StoreUnavailable(f"{paths.CLUSTER_ID} was deleted")
        return codecs.decode_cluster_id(node.data)

    async def _commit(self, transaction: Transaction) -> None:
        """Write. The next read shows whether it took effect, because other brokers write the same.

        :raises RegistrationRefused: ZooKeeper refuses the write, and not because another client was faster.
        :raises StoreUnavailable: the session is lost.
        """
        (outcome,) = await self._zk.commit([transaction])
        if isinstance(outcome, Aborted) and outcome.code not in CONFLICT_CODES:
            raise RegistrationRefused(f"{transaction[-1].path}: {code_name(outcome.code)}")


class _DiscardedRecords:
    """Discards the records of the session, because brokers have no audit log."""

    def record(self, *records: Record) -> None:
        """Discard the records."""

    async def accepted(self) -> None:
        """Return at once, because nothing is written."""
