"""One ZooKeeper server for all scenarios, its transaction log, and a chroot of its own for each test."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.fakes.world import World
from tests.scenarios.nodes import Rig, rig_of, served
from tests.scenarios.witness import are_meant, findings, findings_of_rig
from tests.zk.proxy import ZooKeeperProxy

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
async def witness(request: pytest.FixtureRequest) -> AsyncIterator[list[World]]:
    """At the end of every scenario the logs of its worlds must match ZooKeeper and break no rule."""
    worlds: list[World] = []
    World.witnesses.append(worlds.append)
    yield worlds
    World.witnesses.remove(worlds.append)
    found = await findings(worlds)
    assert not found or are_meant(found, request.node.originalname), found


@pytest.fixture(scope="session")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for the server's data and transaction log."""
    return tmp_path_factory.mktemp("zookeeper")


@pytest.fixture(scope="session")
def server(server_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server that lives as long as the tests."""
    yield from served(server_directory)


@pytest.fixture
async def proxy(server: EmbeddedZooKeeper) -> AsyncIterator[ZooKeeperProxy]:
    """The proxy between the controllers and the server; all other clients connect directly."""
    async with ZooKeeperProxy(server.connect) as running:
        yield running


@pytest.fixture
async def rig(
    request: pytest.FixtureRequest,
    server: EmbeddedZooKeeper,
    server_directory: Path,
    proxy: ZooKeeperProxy,
    tmp_path: Path,
) -> AsyncIterator[Rig]:
    """A chroot of the test's own, a client that reads and writes past the proxy, and no controller yet.

    At the end the logs of all controllers must match ZooKeeper.
    """
    log = TransactionLog(server_directory / "data")
    async with rig_of(server.connect, f"/scenarios/{next(_numbers)}", proxy, log, tmp_path) as running:
        yield running
        found = await findings_of_rig(tmp_path, running.peer.store)
        assert are_meant(found, request.node.originalname), found
