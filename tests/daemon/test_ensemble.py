"""ZooKeeper is an ensemble whose servers die: the session moves on to another server, and the role with it."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

import pytest
import pytest_asyncio

from controllerd.dev.cluster import DevCluster, open_cluster
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.ensemble import EmbeddedEnsemble
from controllerd.dev.observe import audit_violations, merged_differences
from controllerd.dev.waiting import Waiting

pytestmark = [pytest.mark.zookeeper, pytest.mark.asyncio(loop_scope="module")]

SESSION_MS: Final = 4_000
SESSION_S: Final = SESSION_MS / 1000


@dataclass(frozen=True)
class Term:
    """The state that must not change while only ZooKeeper servers fail."""

    leader: int
    epoch: int
    session: str
    generation: int


class Stage:
    """Three servers, three reference brokers, two instances."""

    def __init__(self, cluster: DevCluster, ensemble: EmbeddedEnsemble) -> None:
        self.cluster, self.ensemble = cluster, ensemble
        self.waiting = Waiting(cluster, print)
        self._topics = 0

    async def term(self) -> Term:
        """The present term and the session that it hangs on."""
        active = await self.waiting.active()
        status = await active.status()
        assert status is not None
        zookeeper = status["zookeeper"]
        epoch = await self.cluster.observer.controller_epoch()
        return Term(active.node_id, epoch, zookeeper["session_id"], zookeeper["generation"])

    async def server_of(self, term: Term) -> int:
        """The server that the active instance is connected to."""
        return await self.ensemble.serves(int(term.session, 16))

    async def begin_topic(self) -> None:
        """A new topic, which the leader has to bring online."""
        self._topics += 1
        await self.cluster.observer.create_topic(f"topic-{self._topics}", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})

    async def until_whole(self) -> None:
        """Wait until every replica is in sync and every broker shows what ZooKeeper has; then the logs must agree."""
        await self.waiting.until(self.waiting.missing_isr, "every replica is in sync")
        await self.waiting.until(self.waiting.missing_agreement, "every broker shows what ZooKeeper has")
        cluster_id = await self.cluster.observer.cluster_id()
        logs = [controller.audit_directory(cluster_id) for controller in self.cluster.controllers]

        async def missing_audit() -> str | None:
            view = await self.cluster.view()
            return next(iter(await asyncio.to_thread(merged_differences, logs, view)), None)

        await self.waiting.until(missing_audit, "the logs fold to ZooKeeper")
        assert await asyncio.to_thread(audit_violations, *logs) == []

    async def until_none_is_active(self, controllers: list[ControllerProcess]) -> None:
        """Wait until none of them counts itself as the controller any more."""

        async def missing() -> str | None:
            roles = [await controller.role() for controller in controllers]
            return f"roles are {roles}" if "active" in roles else None

        await self.waiting.until(missing, "nobody leads")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    """Each test leaves everything running."""
    directory = tmp_path_factory.mktemp("ensemble")
    async with open_cluster(
        "embedded", directory, print, controller_session_ms=SESSION_MS, servers=EmbeddedEnsemble
    ) as cluster:
        assert isinstance(cluster.zookeeper, EmbeddedEnsemble)
        stage = Stage(cluster, cluster.zookeeper)
        await stage.begin_topic()
        await stage.until_whole()
        yield stage


async def test_the_role_outlives_the_server_that_its_session_is_connected_to(stage: Stage) -> None:
    before = await stage.term()
    server = await stage.server_of(before)
    since = time.monotonic()
    await stage.ensemble.servers[server].kill()
    await stage.begin_topic()
    await stage.until_whole()

    after = await stage.term()
    assert_stayed_or_moved(f"server {server} killed", before, after, time.monotonic() - since)
    assert await stage.server_of(after) != server
    await stage.ensemble.servers[server].start()


async def test_the_role_outlives_the_leader_of_the_ensemble(stage: Stage) -> None:
    before, leader = await stage.term(), await stage.ensemble.leader()
    since = time.monotonic()
    await stage.ensemble.servers[leader].kill()
    await stage.begin_topic()
    await stage.until_whole()

    assert_stayed_or_moved(f"leader {leader} killed", before, await stage.term(), time.monotonic() - since)
    await stage.ensemble.servers[leader].start()


async def test_the_role_outlives_a_short_time_without_a_quorum(stage: Stage) -> None:
    before, since = await stage.term(), time.monotonic()
    dead = list(dict.fromkeys([await stage.server_of(before), *stage.ensemble.servers]))[:2]
    for server in dead:
        await stage.ensemble.servers[server].kill()
    for server in dead:
        stage.ensemble.servers[server].launch()
    await stage.begin_topic()
    await stage.until_whole()

    assert_stayed_or_moved(f"servers {dead} killed", before, await stage.term(), time.monotonic() - since)


async def test_without_a_quorum_for_longer_than_a_session_there_is_no_controller_until_it_is_back(stage: Stage) -> None:
    before, since = await stage.term(), time.monotonic()
    dead = list(stage.ensemble.servers)[:2]
    for server in dead:
        await stage.ensemble.servers[server].kill()
    await stage.until_none_is_active(stage.cluster.controllers)
    took = time.monotonic() - since
    for server in dead:
        stage.ensemble.servers[server].launch()
    await stage.ensemble.wait_serving(*stage.ensemble.servers)
    await stage.waiting.until(stage.waiting.missing_controller, "an instance leads")
    await stage.begin_topic()
    await stage.until_whole()

    after = await stage.term()
    print(f"servers {dead} away: nobody led after {took:.2f} s; {before} -> {after}")
    assert took >= SESSION_S / 3, "it gave the role up before its session could be over"
    assert after.epoch == before.epoch + 1


def assert_stayed_or_moved(what: str, before: Term, after: Term, took_s: float) -> None:
    """The role stays if all was well again within a session; a slower machine may have lost the session meanwhile."""
    print(f"{what}: all well after {took_s:.2f} s, the role {'stayed' if after == before else 'moved'}")
    if took_s < SESSION_S:
        assert after == before
    else:
        assert after.epoch in {before.epoch, before.epoch + 1}
