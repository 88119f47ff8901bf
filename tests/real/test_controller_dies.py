"""controllerd itself is the victim, in nine ways, under load: nothing that was acknowledged is lost."""

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
"""Of instances and brokers alike."""
SESSION_S: Final = SESSION_MS / 1000
CUT_S: Final = SESSION_S / 2
HAND_OVER_S: Final = SESSION_S
"""From resignation to election nobody waits for a session to end, however busy the machine."""
QUIET_S: Final = SESSION_S
"""All leaders live and serve on without a controller: whoever waits for a session to end would wait longer."""
MOVES_S: Final = 5.0
"""On top of the time until a dead leader is noticed: new leaders are elected and the producer finds them."""
PATIENCE_S: Final = 60.0
BOUNCING: Final = 3
"""This broker's shutdown is not controlled: its leaderships are still its own when it is gone."""
_GREETING: Final = struct.Struct(">iiiqi16s")


class Tap(TcpProxy):
    """Before ZooKeeper: it learns ids and passwords of the sessions that go through it, from the server's greetings."""

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.upstream = upstream
        self.passwords: dict[int, bytes] = {}
        """Of several, when a client gives a session up and another one of its attempts comes through late."""
        self._greeted = set[int]()

    def seen(self, chunk: Chunk) -> None:
        """The first answer of each connection is the greeting; a session that has ended gets no id."""
        if chunk.from_client or chunk.connection in self._greeted:
            return
        self._greeted.add(chunk.connection)
        _length, _protocol, _timeout, session_id, _size, password = _GREETING.unpack_from(chunk.data)
        if session_id:
            self.passwords[session_id] = password

    async def expire(self, session: int) -> None:
        """End the session as its owner would, from another connection (scenarios.md A13).

        The owner is held off meanwhile, or it takes the session back before it is closed.
        """
        self.isolate()
        try:
            await asyncio.to_thread(self._close_session, session)
        finally:
            self.heal()

    def _close_session(self, session: int) -> None:
        thief = KazooClient(self.upstream, timeout=SESSION_S, client_id=(session, self.passwords[session]))
        thief.start(timeout=PATIENCE_S)
        thief.stop()
        thief.close()


async def session_of(controller: ControllerProcess) -> int | None:
    """Its ZooKeeper session, by its own account."""
    status = await controller.status()
    shown = status["zookeeper"]["session_id"] if status is not None else None
    return int(shown, 16) if shown is not None else None


class Victims(Trial):
    """Two instances of controllerd, and what may happen to them."""

    async def pair(self) -> tuple[ControllerProcess, ControllerProcess]:
        """The active one and the standby."""
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
        """When the role of an instance changed that way last, by the monotonic clock."""
        mine = [c for c in await self.terms() if c.node == controller.node_id and c.record.change == change]
        return mine[-1].at_s

    def tap(self, controller: ControllerProcess) -> Tap:
        tap = self.cluster.proxies[controller.node_id]
        assert isinstance(tap, Tap)
        return tap

    async def create_topic(self, name: str) -> None:
        """By its znodes, as a broker does; whoever leads has to bring it online."""
        await self.cluster.observer.create_topic(name, {0: [1, 2, 3], 1: [2, 3, 1]})

    # -- faults ------------------------------------------------------------------------------------------------------

    async def kill_without_standby(self) -> None:
        """Nobody of ours is left until a broker's own controller leads; then controllerd comes back and takes over."""
        active, standby = await self.pair()
        assert await standby.process.terminate() == 0
        epoch, since = await self.epoch(), time.monotonic()
        await active.process.kill()
        await self.create_topic("nobody-leads")
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
            told = await self.cluster.metadata()
        except (OSError, WireError) as error:
            return f"a broker does not answer: {error}"
        holders = {metadata.controller_id for metadata in told.values()}
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
        """The active one wakes when somebody else has led for a while, and a topic was created meanwhile."""
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
        assert await self.epoch() == epoch, "the late one changed the role"

    async def until_zookeeper_answers(self) -> None:
        """Wait until our own session, which may have ended meanwhile, is served again."""

        async def missing() -> str | None:
            return None if await self.epoch() else "it has no epoch"

        await self.waiting.until(missing, "ZooKeeper answers")

    async def restart_zookeeper(self) -> None:
        """The server's sessions outlive it, so the role stays where it is if the server is back in time."""
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
        """Longer than a session: whether it still lives when the server is back, only the server knows."""
        await self.cluster.zookeeper.kill()
        await asyncio.sleep(SESSION_S + 2)  # the fault itself
        await self.cluster.zookeeper.start()
        await self.waiting.until(self.waiting.missing_controller, "an instance leads")

    async def cut_for_half_a_session(self) -> None:
        """Meanwhile a topic is created and a broker goes, both unseen: all that it watched has to be read anew."""
        active, _ = await self.pair()
        epoch, tap = await self.epoch(), self.tap(active)
        since = time.monotonic()
        tap.isolate()
        await self.create_topic("behind-its-back")
        leaving = asyncio.create_task(self.cluster.brokers[BOUNCING].terminate())
        await asyncio.sleep(max(0.0, since + CUT_S - time.monotonic()))  # the fault itself
        tap.heal()
        await leaving
        gone = BrokerId(BOUNCING)
        await self.waiting.until(lambda: self.waiting.missing_leaders(gone), "its partitions have other leaders")
        assert await self.epoch() == epoch, "the role moved within a session"
        assert await active.is_active()
        await self.cluster.brokers[BOUNCING].start()

    async def kill_with_a_broker(self) -> None:
        """The active one and the broker that leads partition 0 die at once."""
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
        await self.tap(active).expire(before)

        async def missing() -> str | None:
            moved = await self.epoch() > epoch and await session_of(active) not in {before, None}
            return None if moved else "nobody was elected, or the victim has no new session"

        await self.waiting.until(missing, "somebody was elected and the victim is back")
        await self.waiting.until(self.waiting.missing_controller, "an instance leads")


@asynccontextmanager
async def a_pair_under_load(directory: Path) -> AsyncIterator[Victims]:
    overrides = {BOUNCING: {"controlled.shutdown.enable": "false"}}
    async with open_cluster(
        "kafka", directory, print, controller_session_ms=SESSION_MS, overrides=overrides, proxy=Tap
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
async def test_the_controller_dies_in_nine_ways_and_nothing_is_lost(tmp_path: Path) -> None:
    async with a_pair_under_load(tmp_path) as them:
        await them.one("kill -9, no standby", them.kill_without_standby, within_s=QUIET_S)
        await them.one("SIGTERM, with a standby", them.terminate_with_standby, within_s=QUIET_S)
        await them.one("kill -9, with a standby", them.kill_with_standby, within_s=QUIET_S)
        await them.one("SIGSTOP past the session, SIGCONT", them.freeze, within_s=QUIET_S)
        await them.one("ZooKeeper killed and restarted", them.restart_zookeeper, within_s=QUIET_S)
        await them.one("ZooKeeper away for longer", them.zookeeper_away_for_long, within_s=QUIET_S)
        await them.one("cut off for half a session", them.cut_for_half_a_session, within_s=CUT_S + MOVES_S)
        await them.one("kill -9 of a broker, too", them.kill_with_a_broker, within_s=SESSION_S + MOVES_S)
        await them.one("session expired", them.expire_the_session, within_s=QUIET_S)

        result = await asyncio.to_thread(them.load.stop)
        print(f"{len(result.acknowledged)} acknowledged, worst gap of all {result.worst_gap_s():.2f} s")
        await them.judge("at the end")
