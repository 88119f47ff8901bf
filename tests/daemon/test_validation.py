"""A suspicion that comes up while the validating read is under way is not answered by that read."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast

from controllerd.core.model import BrokerId
from controllerd.daemon.freeze_guard import FreezeGuard
from controllerd.daemon.instance import Instance
from controllerd.record.records import EventBegin, ResponseRecord
from controllerd.zk.client import ZooKeeperClient
from controllerd.zk.session import SessionState
from events.base import ControllerState
from events.cluster import ControllerChange
from events.queue import QueuedEvent
from tests.channel_manager.requests import leader_and_isr
from tests.channel_manager.stub_broker import stub_broker
from tests.daemon.lone import SESSION_MS, Reads, Session
from tests.zk.world import until


@dataclass
class Elector:
    """ZooKeeper has answered "yours" by the time ``asked`` is set; the answer is read once ``answer`` is set."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    answer: asyncio.Event = field(default_factory=asyncio.Event)
    ours: bool = True
    times: int = 0

    async def is_ours(self) -> bool:
        self.times += 1
        self.asked.set()
        await self.answer.wait()
        return self.ours


@dataclass
class Client:
    """The part of the ZooKeeper client that the heartbeat uses."""

    zk: Reads = field(default_factory=Reads)
    session: Session = field(default_factory=Session)
    elector: Elector = field(default_factory=Elector)


class CountingGuard(FreezeGuard):
    """Counts how often a sender asked whether it may send."""

    asked = 0

    def may_send(self) -> bool:
        self.asked += 1
        return super().may_send()


async def connections_until_released(node: Instance, asked: Callable[[], int], release: Callable[[], None]) -> int:
    """How often a sender with a request connected to its broker before it was let go; then the request must arrive."""
    async with stub_broker(1) as stub, node._open_channels() as channels:
        channels.add_broker(stub.registration())
        channels.send(BrokerId(1), leader_and_isr())
        before = asked()
        await until(lambda: asked() >= before + 3 or stub.connections > 0)
        connections = stub.connections
        release()
        await stub.got_so_many(1)
    return connections


async def test_no_broker_is_even_connected_to_while_the_role_is_in_doubt(node: Instance) -> None:
    """The guard and the senders are tested apart as well; here they are as the instance puts them together."""
    node.client = cast("ZooKeeperClient", Client())
    node.guard = guard = CountingGuard(SESSION_MS, node.around.boottime, node._stop_sending)
    guard.put_in_doubt("the process was suspended")

    def release() -> None:
        guard.revalidated(guard.doubts)

    assert await connections_until_released(node, lambda: guard.asked, release) == 0


@dataclass
class CutOff:
    """A session that is suspended until the connection is back; counts the checks."""

    is_back: bool = False
    looks: int = 0

    @property
    def state(self) -> SessionState:
        self.looks += 1
        return SessionState.CONNECTED if self.is_back else SessionState.SUSPENDED

    def come_back(self) -> None:
        self.is_back = True


async def test_no_broker_is_even_connected_to_while_zookeeper_is_out_of_reach(node: Instance) -> None:
    session = CutOff()
    node.client = cast("ZooKeeperClient", Client(session=cast("Session", session)))

    assert await connections_until_released(node, lambda: session.looks, session.come_back) == 0


async def test_an_answer_from_before_a_second_freeze_lets_nothing_leave(node: Instance) -> None:
    """Frozen again after ZooKeeper has answered and before the answer was read: it says nothing of what came since."""
    node.context.begin_term(7, 1)
    node.guard.put_in_doubt("the process was suspended")
    client = Client()
    checking = asyncio.create_task(node._revalidate(cast("ZooKeeperClient", client)))
    await client.elector.asked.wait()

    node.guard._seen_at -= 100 * SESSION_MS / 1000  # SIGSTOP, SIGCONT: the session is long over
    node.guard.tick()  # the selector's look at the clock, before the answer is read
    client.elector.answer.set()
    await checking

    assert not node.guard.may_send()


async def test_an_answer_from_before_a_new_doubt_lets_nothing_leave(node: Instance) -> None:
    node.context.begin_term(7, 1)
    node.guard.put_in_doubt("the process was suspended")
    client = Client()
    checking = asyncio.create_task(node._revalidate(cast("ZooKeeperClient", client)))
    await client.elector.asked.wait()

    node._stale_epoch(BrokerId(1), 7)
    client.elector.answer.set()
    await checking

    assert not node.guard.may_send()


@dataclass
class Lagging:
    """A server that has not heard yet that the role is lost; ``sync`` makes it catch up."""

    has_caught_up: bool = False

    async def sync(self) -> None:
        self.has_caught_up = True

    async def is_ours(self) -> bool:
        return not self.has_caught_up


async def test_a_server_that_lags_does_not_confirm_a_role_that_is_lost(node: Instance) -> None:
    node.context.begin_term(7, 1)
    node.guard.put_in_doubt("the process was suspended")
    server = Lagging()
    client = Client(zk=cast("Reads", server), elector=cast("Elector", server))

    await node._revalidate(cast("ZooKeeperClient", client))

    assert not node.guard.may_send()
    assert len(node.queue) == 1, "an event that looks who leads"


@dataclass
class StuckLoop:
    """An event that hangs for ever."""

    current: QueuedEvent = field(default_factory=lambda: QueuedEvent(ControllerChange(), 1, 0.0, None))
    state: ControllerState = ControllerState.CONTROLLER_CHANGE


async def test_a_hanging_event_is_no_progress_because_the_heartbeat_itself_records_alarms(node: Instance) -> None:
    """The role is lost, the event that should notice it never runs: each round of the heartbeat feeds the watchdog."""
    node.context.begin_term(7, 1)
    node.loop = cast("object", StuckLoop())  # type: ignore[assignment]
    node.guard.put_in_doubt("a broker knows a newer controller epoch")
    client = Client(elector=Elector(ours=False))
    client.elector.answer.set()
    beats: list[int] = []
    heartbeat = asyncio.create_task(node.heartbeat(cast("ZooKeeperClient", client), lambda: beats.append(1)))
    await until(lambda: client.elector.times >= 4)  # once in each round
    heartbeat.cancel()
    with suppress(asyncio.CancelledError):
        await heartbeat

    assert len(beats) <= 1


async def test_answers_of_brokers_are_no_progress_of_a_hanging_event(node: Instance) -> None:
    node.loop = cast("object", StuckLoop())  # type: ignore[assignment]
    node.bus.record(EventBegin(1, "ControllerChange", 1, 0.0))
    assert node._has_progressed()

    node.bus.record(ResponseRecord(1, 1, "UpdateMetadata", 8, 1, 10, 1, 1.0, 0, {}))  # by RecordedExchanges

    assert not node._has_progressed()


@dataclass
class Unanswered:
    """The link to ZooKeeper is dead, and the session waits for it."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)

    async def sync(self) -> None:
        """Never."""
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_check_that_waits_for_zookeeper_does_not_starve_the_watchdog(node: Instance) -> None:
    """Woken from a freeze into a suspended session: the check may wait for longer than the watchdog."""
    node.context.begin_term(7, 1)
    node.guard.put_in_doubt("the process was suspended")
    server = Unanswered()
    client = Client(zk=cast("Reads", server))
    beats: list[int] = []
    heartbeat = asyncio.create_task(node.heartbeat(cast("ZooKeeperClient", client), lambda: beats.append(1)))
    async with asyncio.timeout(20):
        await server.asked.wait()
    client.session.state = SessionState.SUSPENDED
    before = len(beats)

    await until(lambda: len(beats) >= before + 3)
    heartbeat.cancel()
    with suppress(asyncio.CancelledError):
        await heartbeat


async def test_a_broker_that_repeats_a_newer_epoch_against_zookeeper_holds_the_others_once(node: Instance) -> None:
    node.context.begin_term(7, 1)
    node._stale_epoch(BrokerId(1), 7)
    node.guard.revalidated(node.guard.doubts)

    node._stale_epoch(BrokerId(1), 7)
    assert node.guard.may_send()

    node._stale_epoch(BrokerId(2), 7)
    assert not node.guard.may_send(), "another one says so too"


async def test_a_broker_that_repeats_a_newer_epoch_holds_requests_once_per_granted_session_timeout(
    node: Instance,
) -> None:
    node.context.begin_term(7, 1)
    node._timeout_granted(2 * SESSION_MS / 1000)
    node._stale_epoch(BrokerId(1), 7)
    node.guard.revalidated(node.guard.doubts)

    node._denied[BrokerId(1), 7] -= 1.5 * SESSION_MS / 1000
    node._stale_epoch(BrokerId(1), 7)

    assert node.guard.may_send()
