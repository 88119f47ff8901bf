"""The session after kazoo's client has given up: kazoo's own state machine, without a server."""

import asyncio
from collections.abc import Callable
from typing import Final

import pytest
from kazoo.protocol.states import KeeperState

from controllerd.zk import session as session_module
from controllerd.zk.driver import Kazoo, NegotiatingClient
from controllerd.zk.session import SessionState, ZooKeeperSession
from events.base import Event
from events.cluster import Expire
from events.queue import EventQueue
from tests.fakes.audit import RecordingAudit
from tests.zk.world import until

SOON_S: Final = 0.2
LATER_S: Final = 0.4


class Client(NegotiatingClient):
    """A client of kazoo whose connection is a script."""

    def start_async(self) -> None:
        """The script decides what comes."""

    def comes_to(self, *states: str, session_id: int = 0) -> None:
        """As kazoo's connection thread would."""
        for state in states:
            if state == KeeperState.CONNECTED:
                self._session_id = session_id
            self._session_callback(state)


class Driver:
    """Makes such clients; ``on_new`` is called with each new one."""

    def __init__(self) -> None:
        self.clients: list[Client] = []
        self.ended: list[Kazoo] = []
        self.on_new: Callable[[Client], None] = lambda _client: None

    def make(self, hosts: str, timeout_s: float) -> Kazoo:
        client = Client(hosts, timeout=timeout_s)
        self.clients.append(client)
        asyncio.get_running_loop().call_soon(lambda: self.on_new(client))
        return client

    async def end(self, client: Kazoo) -> None:
        self.ended.append(client)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(session_module, "_NEW_CLIENT_AFTER_S", SOON_S)
    return Driver()


async def opened(driver: Driver) -> tuple[ZooKeeperSession, EventQueue]:
    queue = EventQueue(lambda: 0.0)
    session = ZooKeeperSession("127.0.0.1:1", 6_000, queue, RecordingAudit(), kazoo=driver)
    driver.on_new = lambda client: client.comes_to(KeeperState.CONNECTING, KeeperState.CONNECTED, session_id=1)
    await session.open(10)
    driver.on_new = lambda _client: None
    return session, queue


async def events(queue: EventQueue) -> list[Event]:
    return [(await queue.take()).event for _ in range(len(queue))]


async def test_a_client_that_is_refused_before_it_ever_connected_is_replaced_as_well(driver: Driver) -> None:
    """kazoo's state is LOST from the beginning, so it does not report that a new client failed to authenticate."""
    session, _ = await opened(driver)
    driver.on_new = lambda client: client.comes_to(KeeperState.CONNECTING, KeeperState.AUTH_FAILED, KeeperState.CLOSED)
    driver.clients[0].comes_to(KeeperState.CONNECTING, KeeperState.AUTH_FAILED, KeeperState.CLOSED)

    await until(lambda: len(driver.clients) > 2)  # one new client, and when that was refused too, another
    await session.close()


async def test_a_connection_thread_that_died_is_replaced_as_well(driver: Driver) -> None:
    """kazoo ends its thread on any exception it does not know, and says CLOSED: it never connects again either."""
    session, _ = await opened(driver)
    driver.clients[0].comes_to(KeeperState.CLOSED)
    await until(lambda: len(driver.clients) > 1)

    assert session.state is SessionState.LOST
    await session.close()


async def test_a_client_that_was_refused_twice_is_replaced_once(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With AUTH by packet kazoo goes on connecting: refused, in again, refused again, all before the first timer."""
    session, queue = await opened(driver)
    driver.on_new = lambda client: client.comes_to(KeeperState.CONNECTING, KeeperState.CONNECTED, session_id=3)
    driver.clients[0].comes_to(KeeperState.AUTH_FAILED)
    await asyncio.sleep(0)
    session.expire_handled()
    driver.clients[0].comes_to(KeeperState.CONNECTED, session_id=2)
    await asyncio.sleep(0)
    monkeypatch.setattr(session_module, "_NEW_CLIENT_AFTER_S", LATER_S)
    driver.clients[0].comes_to(KeeperState.AUTH_FAILED)
    await asyncio.sleep(0)
    session.expire_handled()
    await until(lambda: (session.state, session.session_id) == (SessionState.CONNECTED, 3))  # by a new client; we lead
    await events(queue)
    driver.on_new = lambda client: client.comes_to(KeeperState.CONNECTING, KeeperState.CONNECTED, session_id=4)
    await asyncio.sleep(LATER_S)  # timers go off in order: that of the second refusal would have come first
    await asyncio.sleep(0)  # what it would have called soon

    seen = [type(event) for event in await events(queue)]
    assert (len(driver.clients), session.session_id, Expire in seen) == (2, 3, False)
    await session.close()


async def test_a_server_may_grant_another_timeout_with_each_connection(driver: Driver) -> None:
    session, _ = await opened(driver)
    granted: list[float] = []
    session.when_timeout_is_granted(granted.append)

    driver.clients[0]._keep_timeout(4_000)
    driver.clients[0].comes_to(KeeperState.CONNECTING, KeeperState.CONNECTED, session_id=1)
    await until(lambda: len(granted) > 1)

    assert granted == [6.0, 4.0]
    assert session.timeout_s == 4.0
