"""controllerd itself fails in nine ways under load, and no acknowledged record is lost."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from controllerd.core.model import BrokerId
from controllerd.dev.cluster import BROKER_IDS, open_cluster
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.proxy import Chunk, TcpProxy
from tests.real.trial import Trial
from wire.errors import WireError

SESSION_MS: Final = 6_000
"""The session timeout of instances and brokers."""
SESSION_S: Final = SESSION_MS / 1000
CUT_S: Final = SESSION_S / 2
HAND_OVER_S: Final = SESSION_S
"""From a resignation to the next election, no instance waits for a session to expire, even on a busy machine."""
QUIET_S: Final = SESSION_S
"""All leaders serve on without a controller: a wait for a session to expire would take longer."""
MOVES_S: Final = 5.0
"""The time for elections and for the producer to find the new leaders, after a dead leader is noticed."""
PATIENCE_S: Final = 60.0
BOUNCING: Final = 3
"""A broker without controlled shutdown: it still has its leaderships when it stops."""
_CONNECT_RESPONSE: Final = struct.Struct(">iiiqi16s")


class SessionProxy(TcpProxy):
    """A proxy before ZooKeeper that reads the ids and passwords of sessions from the connect responses."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.upstream = upstream
        self.passwords: dict[int, bytes] = {}
        """Passwords by session id. A client may have several sessions, when an abandoned attempt succeeds late."""
        self._connected = set[int]()

    def seen(self, chunk: Chunk) -> None:
        """The first answer of each connection is the connect response; it has no id for an expired session."""
        if chunk.from_client or chunk.connection in self._connected:
            return
        self._connected.add(chunk.connection)
        _length, _protocol, _timeout, session_id, _size, password = _CONNECT_RESPONSE.unpack_from(chunk.data)
        if session_id:
            self.passwords[session_id] = password

    async def expire(self, session: int) -> None:
        """Close the session from another connection, as its owner would (scenarios.md A13).

        The owner is isolated meanwhile: otherwise it would reconnect to the session before it is closed.
        """
        self.isolate()
        try:
            await asyncio.to_thread(self._close_session, session)
        finally:
            self.heal()

    def _close_session(self, session: int) -> None:
        second_client = KazooClient(self.upstream, timeout=SESSION_S, client_id=(session, self.passwords[session]))
        second_client.start(timeout=PATIENCE_S)
        second_client.stop()
        second_client.close()


async def session_of(controller: ControllerProcess) -> int | None:
    """The ZooKeeper session of an instance, by its own status."""
    status = await controller.status()
    shown = status["zookeeper"]["session_id"] if status is not None else None
    return int(shown, 16) if shown is not None else None


class Victims(Trial):
    """Two instances of controllerd, and the faults that hit them."""

    async def pair(self) -> tuple[ControllerProcess, ControllerProcess]:
        """The active instance and the standby."""
        active = await self.waiting.active()
        (standby,) = (controller for controller in self.cluster.controllers if controller is not active)
        assert await standby.role() == "standby"
        return active, standby

    async def until_leads(self, controller: ControllerProcess) -> None:
        await controller.process.wait_until(controller.is_active, timeout_s=PATIENCE_S, what="become active")

    async def until_stands_by(self, controller: ControllerProcess) -> None:
        async def stands_by() -> bool:
            return await controller.role() == "standby"

        await controller.process.wait_until(stands_by, timeout_s=PATIENCE_S, what="stood by")

    async def last(self, change: str, controller: ControllerProcess) -> float:
        """The time of the last such change of an instance's role, by the monotonic clock."""
        mine = [c for c in await self.terms() if c.node == controller.node_id and c.record.change == change]
        return mine[-1].at_s

    def session_proxy(self, controller: ControllerProcess) -> SessionProxy:
        session_proxy = self.cluster.proxies[controller.node_id]
        assert isinstance(session_proxy, SessionProxy)
        return session_proxy

    async def create_topic(self, name: str) -> None:
        """Create a topic by its znodes, as a broker does; the active controller has to bring it online."""
        await self.cluster.observer.create_topic(name, {0: [1, 2, 3], 1: [2, 3, 1]})

    # -- faults ------------------------------------------------------------------------------------------------------

    async def kill_without_standby(self) -> None:
        """Kill the only instance, wait until a broker's own controller leads, then start it again: it takes over."""
        active, standby = await self.pair()
        assert await standby.process.terminate() == 0
        epoch, since = await self.epoch(), time.monotonic()
        await active.process.kill()
        await self.create_topic("without-controller")
        await self.waiting.until(self.missing_broker_in_the_lead, "a broker leads and every broker says so")
        print(f"  a broker led {time.monotonic() - since:.1f} s after the kill")
        assert await self.epoch() == epoch + 1

        since = time.monotonic()
        await active.start()
        assert await active.is_active()
        print(f"  controllerd had the role back {time.monotonic() - since:.1f} s after its start")
        assert await self.epoch() == epoch + 2
        await standby.start()

    async def missing_broker_in_the_lead(self) -> str | None:
        try:
            metadata = await self.cluster.metadata()
        except (OSError, WireError) as error:
            return f"a broker does not answer: {error}"
        holders = {each.controller_id for each in metadata.values()}
        return None if len(holders) == 1 and holders < set(BROKER_IDS) else f"controllers are {sorted(holders)}"

    async def terminate_with_standby(self) -> None:
        active, standby = await self.pair()
        since = time.monotonic()
        assert await active.process.terminate() == 0
        ended = time.monotonic() - since
        await self.until_leads(standby)
        resigned, won = await self.last("resigned", active), await self.last("elected", standby)
        print(f"  SIGTERM: ended after {ended:.2f} s, the standby was elected {won - resigned:.2f} s after it resigned")
        assert resigned > since
        assert won - resigned < HAND_OVER_S
        await active.start()

    async def kill_with_standby(self) -> None:
        active, standby = await self.pair()
        since = time.monotonic()
        await active.process.kill()
        await self.until_leads(standby)
        print(f"  the standby led {time.monotonic() - since:.1f} s after the kill")
        await active.start()

    async def freeze(self) -> None:
        """Pause the active instance until the other has led for a while; a topic is created meanwhile."""
        active, standby = await self.pair()
        active.process.pause()
        try:
            await self.create_topic("while-it-slept")
            await self.until_leads(standby)
            epoch = await self.epoch()
        finally:
            active.process.resume()
        await self.until_stands_by(active)
        assert await standby.is_active()
        assert await self.epoch() == epoch, "the resumed instance changed the role"

    async def until_zookeeper_answers(self) -> None:
        """Wait until the test's own session, which may have expired meanwhile, is served again."""

        async def missing() -> str | None:
            return None if await self.epoch() else "it has no epoch"

        await self.waiting.until(missing, "ZooKeeper answers")

    async def restart_zookeeper(self) -> None:
        """Restart ZooKeeper. Its sessions survive, so the role stays if the server is back in time."""
        active, _ = await self.pair()
        epoch, since = await self.epoch(), time.monotonic()
        await self.cluster.zookeeper.restart()
        await self.until_zookeeper_answers()
        await self.create_topic("after-the-restart")
        await self.waiting.until(self.waiting.missing_agreement, "the new topic is known")
        took = time.monotonic() - since
        stays = await self.epoch() == epoch and await active.is_active()
        print(f"  ZooKeeper served again after {took:.1f} s, the role {'stayed' if stays else 'moved'}")
        assert stays or took >= SESSION_S

    async def zookeeper_away_for_long(self) -> None:
        """Stop ZooKeeper for longer than a session: the server alone decides whether the session has expired."""
        await self.cluster.zookeeper.kill()
        await asyncio.sleep(SESSION_S + 2)  # the fault itself
        await self.cluster.zookeeper.start()
        await self.waiting.until(self.waiting.missing_controller, "an instance leads")

    async def cut_for_half_a_session(self) -> None:
        """Isolate the instance while a topic is created and a broker stops: it must read every watched znode again."""
        active, _ = await self.pair()
        epoch, session_proxy = await self.epoch(), self.session_proxy(active)
        since = time.monotonic()
        session_proxy.isolate()
        await self.create_topic("during-the-isolation")
        leaving = asyncio.create_task(self.cluster.brokers[BOUNCING].terminate())
        await asyncio.sleep(max(0.0, since + CUT_S - time.monotonic()))  # the fault itself
        session_proxy.heal()
        await leaving
        gone = BrokerId(BOUNCING)
        await self.waiting.until(lambda: self.waiting.missing_leaders(gone), "its partitions have other leaders")
        assert await self.epoch() == epoch, "the role moved within a session"
        assert await active.is_active()
        await self.cluster.brokers[BOUNCING].start()

    async def kill_with_a_broker(self) -> None:
        """Kill the active instance and the leader of partition 0 at once."""
        active, standby = await self.pair()
        leader = (await self.waiting.leadership("orders", 0)).leader
        await asyncio.gather(active.process.kill(), self.cluster.brokers[leader].kill())
        await self.until_leads(standby)
        await self.waiting.until(lambda: self.waiting.missing_leaders(leader), "its partitions have other leaders")
        await asyncio.gather(active.start(), self.cluster.brokers[leader].start())

    async def expire_the_session(self) -> None:
        active, _ = await self.pair()
        epoch, before = await self.epoch(), await session_of(active)
        assert before is not None
        await self.session_proxy(active).expire(before)

        async def missing() -> str | None:
            moved = await self.epoch() > epoch and await session_of(active) not in {before, None}
            return None if moved else "no instance was elected, or the victim has no new session"

        await self.waiting.until(missing, "an instance was elected and the victim is back")
        await self.waiting.until(self.waiting.missing_controller, "an instance leads")


@asynccontextmanager
async def a_pair_under_load(directory: Path) -> AsyncIterator[Victims]:
    overrides = {BOUNCING: {"controlled.shutdown.enable": "false"}}
    async with open_cluster(
        "kafka", directory, print, controller_session_ms=SESSION_MS, overrides=overrides, proxy=SessionProxy
    ) as cluster:
        victims = Victims(cluster)
        try:
            await victims.begin()
            yield victims
        finally:
            if victims.load.acknowledged:
                await asyncio.to_thread(victims.load.stop)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(500)
async def test_the_controller_fails_in_nine_ways_and_no_record_is_lost(tmp_path: Path) -> None:
    async with a_pair_under_load(tmp_path) as victims:
        await victims.one("kill -9, no standby", victims.kill_without_standby, within_s=QUIET_S)
        await victims.one("SIGTERM, with a standby", victims.terminate_with_standby, within_s=QUIET_S)
        await victims.one("kill -9, with a standby", victims.kill_with_standby, within_s=QUIET_S)
        await victims.one("SIGSTOP past the session, SIGCONT", victims.freeze, within_s=QUIET_S)
        await victims.one("ZooKeeper killed and restarted", victims.restart_zookeeper, within_s=QUIET_S)
        await victims.one("ZooKeeper away for longer", victims.zookeeper_away_for_long, within_s=QUIET_S)
        await victims.one("cut off for half a session", victims.cut_for_half_a_session, within_s=CUT_S + MOVES_S)
        await victims.one("kill -9 of a broker, too", victims.kill_with_a_broker, within_s=SESSION_S + MOVES_S)
        await victims.one("session expired", victims.expire_the_session, within_s=QUIET_S)

        result = await asyncio.to_thread(victims.load.stop)
        print(f"{len(result.acknowledged)} acknowledged, worst gap of all {result.worst_gap_s():.2f} s")
        await victims.judge("at the end")
