"""ZooKeeper as another client reads it: the registered brokers and their epochs."""

import asyncio
from collections.abc import Callable
from typing import Self

from controllerd.core.model import Broker, BrokerId
from controllerd.zk import codecs, paths
from controllerd.zk.access import Committed, Create, Znode
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession
from events.base import Event
from tests.fakes.audit import RecordingAudit


class _NoEvents:
    """Drops events: no test needs them."""

    def put(self, event: Event) -> None:
        """Forget."""

    def clear_and_put(self, event: Event) -> None:
        """Forget."""


class Registrations:
    """Reads registrations over a session of its own."""

    def __init__(self, connect: str) -> None:
        self._session = ZooKeeperSession(connect, 10_000, _NoEvents(), RecordingAudit())
        self._zk = KazooZooKeeper(self._session)

    async def node(self, path: str) -> Znode | None:
        """A znode, None if it does not exist."""
        (found,) = await self._zk.read([path])
        return found

    async def create(self, path: str, data: bytes) -> None:
        """Create a znode as a tool would. Must succeed."""
        (outcome,) = await self._zk.commit([[Create(path, data)]])
        assert isinstance(outcome, Committed), outcome

    async def broker(self, broker_id: int) -> Broker | None:
        """A registration as the controller reads it, None if there is none."""
        node = await self.node(paths.broker(BrokerId(broker_id)))
        return None if node is None else codecs.decode_broker(BrokerId(broker_id), node.data, node.czxid)

    async def until(self, broker_id: int, met: Callable[[Broker | None], bool]) -> Broker | None:
        """Wait until the registration satisfies ``met``, and return it."""
        async with asyncio.timeout(30):
            while not met(found := await self.broker(broker_id)):  # noqa: ASYNC110 (polls another process)
                await asyncio.sleep(0.02)
        return found

    async def __aenter__(self) -> Self:
        await self._session.open(10)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._zk.close()
        await self._session.close()
