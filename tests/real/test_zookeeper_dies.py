"""The servers of an ensemble fail under load, one and then two of three: no acknowledged record is lost."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from controllerd.dev.cluster import open_cluster
from controllerd.dev.ensemble import EmbeddedEnsemble
from tests.real.trial import Trial

SESSION_MS: Final = 6_000
SESSION_S: Final = SESSION_MS / 1000
QUIET_S: Final = SESSION_S
"""All leaders serve on without ZooKeeper: a wait for a session to expire would take longer."""


class Servers(Trial):
    """A cluster on three ZooKeeper servers."""

    @property
    def ensemble(self) -> EmbeddedEnsemble:
        assert isinstance(self.cluster.zookeeper, EmbeddedEnsemble)
        return self.cluster.zookeeper

    async def server_of_the_active(self) -> int:
        status = await (await self.waiting.active()).status()
        assert status is not None
        return await self.ensemble.serves(int(status["zookeeper"]["session_id"], 16))

    async def outlive(self, server: int, topic: str) -> None:
        """Kill a server; a topic that is created meanwhile has to come online before the server is back."""
        since, epoch = time.monotonic(), await self.epoch()
        await self.ensemble.servers[server].kill()
        await self.cluster.observer.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1]})
        await self.waiting.until(self.waiting.missing_agreement, "the new topic is known")
        took = time.monotonic() - since
        stays = await self.epoch() == epoch
        print(f"  server {server} killed: served again after {took:.1f} s, the role {'stayed' if stays else 'moved'}")
        assert stays or took >= SESSION_S
        await self.ensemble.servers[server].start()

    # -- faults ------------------------------------------------------------------------------------------------------

    async def kill_the_server_of_the_active(self) -> None:
        await self.outlive(await self.server_of_the_active(), "another-server")

    async def kill_the_leader(self) -> None:
        await self.outlive(await self.ensemble.leader(), "another-leader")

    async def kill_two(self) -> None:
        """Kill two servers for longer than a session: no instance can lead, and the brokers serve on."""
        dead = list(self.ensemble.servers)[:2]
        for server in dead:
            await self.ensemble.servers[server].kill()
        await asyncio.sleep(SESSION_S + 2)  # the fault itself
        for server in dead:
            self.ensemble.servers[server].launch()
        await self.ensemble.wait_serving(*self.ensemble.servers)
        await self.waiting.until(self.waiting.missing_controller, "an instance leads")


@asynccontextmanager
async def an_ensemble_under_load(directory: Path) -> AsyncIterator[Servers]:
    async with open_cluster(
        "kafka", directory, print, controller_session_ms=SESSION_MS, servers=EmbeddedEnsemble
    ) as cluster:
        servers = Servers(cluster)
        try:
            await servers.begin()
            yield servers
        finally:
            if servers.load.acknowledged:
                await asyncio.to_thread(servers.load.stop)


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(400)
async def test_the_servers_of_an_ensemble_fail_and_no_record_is_lost(tmp_path: Path) -> None:
    async with an_ensemble_under_load(tmp_path) as servers:
        await servers.one("its server dies", servers.kill_the_server_of_the_active, within_s=QUIET_S)
        await servers.one("the leading server dies", servers.kill_the_leader, within_s=QUIET_S)
        await servers.one("two of three die", servers.kill_two, within_s=QUIET_S)

        result = await asyncio.to_thread(servers.load.stop)
        print(f"{len(result.acknowledged)} acknowledged, worst gap of all {result.worst_gap_s():.2f} s")
        await servers.judge("at the end")
