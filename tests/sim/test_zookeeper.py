"""The simulated ZooKeeper under faults, seen through the production session."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import pytest

from controllerd.errors import StoreUnavailable
from controllerd.zk.access import Committed, Create, Delete, Fired, ReplyLost, SetData, Znode
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import SessionState, ZooKeeperSession
from events.base import Event
from events.cluster import Expire, RegisterBrokerAndReelect, Resync
from tests.fakes.audit import RecordingAudit
from tests.sim.loop import VirtualLoop, run
from tests.sim.zk_client import SimKazoo, SimKazooClient
from tests.sim.zk_server import ServerDown, SimZooKeeper
from tests.sim.zk_tree import Change, Txn
from tests.sim.zk_wire import GET_DATA, MULTI
from tests.zk.world import Events

T = TypeVar("T")
TIMEOUT_S = 6.0


class Instance:
    """A process with a session."""

    def __init__(self, server: SimZooKeeper, name: str) -> None:
        self.name = name
        self.driver = SimKazoo(server, name)
        self.events = Events()
        self.fired: list[tuple[float, str, Fired]] = []
        self._loop = server.loop

    async def start(self) -> "Instance":
        await self._loop.spawn(self.name, self._open())
        return self

    async def _open(self) -> None:
        timeout_ms = int(TIMEOUT_S * 1000)
        self.session = ZooKeeperSession("zk", timeout_ms, self.events, RecordingAudit(), kazoo=self.driver)
        self.zk = KazooZooKeeper(self.session)
        self.zk.listen(lambda path, fired: self.fired.append((self._loop.time(), path, fired)))
        await self.session.open()

    @property
    def kazoo(self) -> SimKazooClient:
        return self.driver.client

    def of(self, kind: type[Event]) -> int:
        """How many events of a kind were enqueued and not preempted."""
        return sum(isinstance(event, kind) for event in self.events.all)

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine as this process."""
        return await self._loop.spawn(self.name, work)

    async def read(self, path: str) -> Znode | None:
        (node,) = await self.do(self.zk.read([path]))
        return node

    async def hold(self, path: str) -> None:
        """Create an ephemeral znode."""
        (outcome,) = await self.do(self.zk.commit([[Create(path, b"", ephemeral=True)]]))
        assert isinstance(outcome, Committed)


class Stage:
    """A server and two processes."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self.server = SimZooKeeper(loop)
        self.server.put("/a", b"0")

    async def instance(self, name: str = "one") -> Instance:
        return await Instance(self.server, name).start()

    async def until(self, condition: Callable[[], bool], within_s: float = 60.0) -> float:
        """Wait in virtual time; return how long it took."""
        started = self.loop.time()
        while not condition():
            assert self.loop.time() < started + within_s, "the condition did not come true in time"
            await asyncio.sleep(0.01)
        return self.loop.time() - started


def play(story: Callable[[Stage], Coroutine[Any, Any, None]]) -> None:
    """Play the same story on a few schedules."""
    for seed in range(5):
        loop = VirtualLoop(seed)
        loop.run(story(Stage(loop)))


def test_a_broken_connection_suspends_and_resyncs() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        session_id = one.session.session_id
        one.kazoo.cut(for_s=2)
        await stage.until(lambda: one.session.state is SessionState.SUSPENDED, 0.1)
        await stage.until(lambda: one.session.state is SessionState.CONNECTED, 5)
        assert one.of(Resync) == 1
        assert one.session.session_id == session_id

    play(story)


def test_a_silent_cut_is_noticed_by_unanswered_pings() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.cut(for_s=3, silent=True)
        took = await stage.until(lambda: one.session.state is SessionState.SUSPENDED)
        assert TIMEOUT_S / 3 <= took <= TIMEOUT_S * 2 / 3 + 0.1

    play(story)


def test_a_transaction_whose_reply_is_lost_has_taken_effect() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.lose_reply(of=MULTI, skip=1)
        first, second = [
            (await one.do(one.zk.commit([[SetData("/a", data, -1)]])))[0] for data in (b"first", b"second")
        ]
        assert isinstance(first, Committed)
        assert isinstance(second, ReplyLost)
        assert stage.server.nodes["/a"].data == b"second"

    play(story)


def test_a_transaction_that_never_arrived_has_not() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.lose_request(of=MULTI)
        assert await one.do(one.zk.commit([[SetData("/a", b"1", -1)]])) == [ReplyLost()]
        assert stage.server.nodes["/a"].data == b"0"

    play(story)


def test_a_read_whose_reply_is_lost_is_repeated() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.lose_reply(of=GET_DATA)
        (node,) = await one.do(one.zk.read_and_watch(["/a"]))
        assert node is not None
        assert one.of(Resync) == 1

    play(story)


def test_an_expired_session_is_found_out_at_the_next_connection_and_followed_by_another() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        old = one.session.session_id
        stage.server.expire(old)
        assert "/e" not in stage.server.nodes
        await stage.until(lambda: one.of(Expire) == 1)
        with pytest.raises(StoreUnavailable):
            await one.read("/a")
        one.session.expire_handled()
        await stage.until(lambda: one.of(RegisterBrokerAndReelect) == 1)
        assert one.session.session_id not in {0, old}

    play(story)


def test_a_frozen_process_loses_its_session_while_its_requests_still_arrive() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        stage.loop.spawn("one", one.zk.commit([[SetData("/a", b"zombie", -1)]]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        stage.loop.freeze("one")
        await stage.until(lambda: stage.server.nodes["/a"].data == b"zombie", 1)
        took = await stage.until(lambda: "/e" not in stage.server.nodes)
        assert took <= TIMEOUT_S + 0.1
        assert one.session.state is SessionState.CONNECTED
        stage.loop.thaw("one")
        await stage.until(lambda: one.of(Expire) == 1, 1)

    play(story)


def test_a_process_frozen_for_less_than_its_session_keeps_it() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        stage.loop.stall("one", TIMEOUT_S / 2)
        await asyncio.sleep(3 * TIMEOUT_S)
        assert "/e" in stage.server.nodes
        assert one.session.state is SessionState.CONNECTED

    play(story)


def test_a_server_that_grants_less_than_was_asked_for_expires_the_session_by_that() -> None:
    async def story(stage: Stage) -> None:
        stage.server.longest_session_s = TIMEOUT_S / 2
        one = await stage.instance()
        assert one.kazoo.negotiated_timeout_s == TIMEOUT_S / 2
        await one.hold("/e")
        await asyncio.sleep(3 * TIMEOUT_S)
        assert "/e" in stage.server.nodes
        stage.loop.freeze("one")
        took = await stage.until(lambda: "/e" not in stage.server.nodes)
        assert took <= TIMEOUT_S / 2 + 0.1

    play(story)


def test_the_ephemerals_of_a_killed_process_live_as_long_as_its_session() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        stage.loop.kill("one")
        took = await stage.until(lambda: "/e" not in stage.server.nodes)
        assert TIMEOUT_S * 2 / 3 - 0.1 <= took <= TIMEOUT_S + 0.1

    play(story)


def test_sessions_survive_a_restart_of_the_server_longer_than_they_live() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        broker = stage.server.new_session(TIMEOUT_S)
        broker.create_ephemeral("/b", None)
        stage.server.down_for(2 * TIMEOUT_S)
        with pytest.raises(ServerDown):
            broker.commit(Delete("/b"))
        await asyncio.sleep(4 * TIMEOUT_S)
        assert one.kazoo.is_connected
        assert {"/e", "/b"} <= stage.server.nodes.keys()

    play(story)


def test_a_session_that_falls_silent_expires_unless_it_speaks_again() -> None:
    async def story(stage: Stage) -> None:
        quiet, brief = (stage.server.new_session(TIMEOUT_S) for _ in range(2))
        quiet.create_ephemeral("/quiet", None)
        brief.create_ephemeral("/brief", None)
        quiet.fall_silent()
        brief.fall_silent()
        await asyncio.sleep(TIMEOUT_S / 2)
        brief.speak()
        await asyncio.sleep(TIMEOUT_S)
        assert "/quiet" not in stage.server.nodes
        assert "/brief" in stage.server.nodes

    play(story)


def test_closing_the_session_removes_its_ephemerals_at_once() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        await one.hold("/e")
        await one.do(one.session.close())
        assert "/e" not in stage.server.nodes

    play(story)


def test_a_lagging_follower_shows_the_past_until_sync() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.replica = stage.server.follower((5.0, 5.0))
        one.kazoo.cut()
        await stage.until(lambda: one.of(Resync) == 1)
        stage.server.put("/a", b"1")
        before = await one.read("/a")
        await one.do(one.zk.sync())
        after = await one.read("/a")
        assert before is not None
        assert after is not None
        assert (before.data, after.data) == (b"0", b"1")

    play(story)


def test_a_lagging_follower_shows_a_client_its_own_writes() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.replica = stage.server.follower((1.0, 3.0))
        one.kazoo.cut()
        await stage.until(lambda: one.of(Resync) == 1)
        await one.do(one.zk.commit([[SetData("/a", b"mine", -1)]]))
        node = await one.read("/a")
        assert node is not None
        assert node.data == b"mine"

    play(story)


def test_a_watch_comes_before_what_it_announces() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.replica = stage.server.follower((0.0, 3.0))
        one.kazoo.cut()
        await stage.until(lambda: one.of(Resync) == 1)
        await one.do(one.zk.read_and_watch(["/a"]))
        stage.server.put("/a", b"1")
        while (node := await one.read("/a")) is None or node.data == b"0":
            assert one.fired == []
        assert [(path, fired) for _, path, fired in one.fired] == [("/a", Fired.CHANGED)]

    play(story)


def test_kazoo_may_hand_over_a_watch_after_a_later_answer() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        one.kazoo.watch_lag_s = 50.0
        await one.do(one.zk.read_and_watch(["/a"]))
        stage.server.put("/a", b"1")
        await one.read("/a")
        assert one.fired == []
        await stage.until(lambda: len(one.fired) == 1)

    play(story)


def test_observers_see_every_committed_transaction() -> None:
    async def story(stage: Stage) -> None:
        one = await stage.instance()
        seen: list[Txn] = []
        stage.server.observers.append(seen.append)
        await one.do(one.zk.commit([[SetData("/a", b"1", 0), Create("/e", b"", ephemeral=True)], [Delete("/none")]]))
        assert [(txn.session, txn.changes) for txn in seen] == [
            (one.session.session_id, (Change("setData", "/a", b"1", 1, False, 0), Change("create", "/e", b"", 0, True)))
        ]

    play(story)


async def _busy(stage: Stage) -> str:
    rng = stage.loop.rng("story")
    for name in ("one", "two"):
        instance = await stage.instance(name)
        faults: list[Callable[[], None]] = [instance.kazoo.cut, partial(stage.loop.stall, name, 1.0)]
        for _ in range(10):
            rng.choice(faults)()
            await instance.do(instance.zk.commit([[SetData("/a", name.encode(), -1)]] * 3))
            await instance.do(instance.zk.read_and_watch(["/a"]))
    return stage.loop.trace_hash()


def test_the_same_seed_tells_the_same_story() -> None:
    hashes = [loop.run(_busy(Stage(loop))) for loop in (VirtualLoop(1), VirtualLoop(1), VirtualLoop(2))]
    assert hashes[0] == hashes[1] != hashes[2]


def test_an_observer_that_fails_is_to_blame_alone_and_forbids_no_later_write() -> None:
    async def story(loop: VirtualLoop) -> None:
        server = SimZooKeeper(loop)

        def fails(_txn: Txn) -> None:
            server.observers.clear()
            raise KeyError("of the observer")

        server.observers.append(fails)
        with pytest.raises(KeyError, match="of the observer"):
            server.put("/one")
        server.put("/two")

    run(story, 0)


def test_an_observer_that_writes_is_refused() -> None:
    async def story(loop: VirtualLoop) -> None:
        server = SimZooKeeper(loop)
        server.observers.append(lambda _txn: server.put("/two"))
        with pytest.raises(AssertionError, match="an observer writes"):
            server.put("/one")

    run(story, 0)


def test_numbers_of_sequential_znodes_never_come_twice() -> None:
    async def story(loop: VirtualLoop) -> None:
        server = SimZooKeeper(loop)
        first = server.put_sequential("/notes/note_", b"1")
        server.put("/notes/other")
        second = server.put_sequential("/notes/note_", b"2")
        server.remove(second)
        third = server.put_sequential("/notes/note_")
        assert [first, second, third] == ["/notes/note_0000000000", "/notes/note_0000000002", "/notes/note_0000000003"]
        assert server.nodes[first].data == b"1"

    run(story, 0)
