"""One ZooKeeper server for all scenarios, its transaction log, and a chroot of its own for each test."""

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.scenarios.nodes import Rig, rig_of, served
from tests.zk.proxy import ZooKeeperProxy

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its data and its transaction log."""
    return tmp_path_factory.mktemp("zookeeper")


@pytest.fixture(scope="session")
def server(server_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server that lives as long as the tests."""
    yield from served(server_directory)


@pytest.fixture
async def proxy(server: EmbeddedZooKeeper) -> AsyncIterator[ZooKeeperProxy]:
    """What stands between the controllers and the server; everybody else goes past it."""
    async with ZooKeeperProxy(server.connect) as running:
        yield running


@pytest.fixture
async def rig(
    server: EmbeddedZooKeeper, server_directory: Path, proxy: ZooKeeperProxy, tmp_path: Path
) -> AsyncIterator[Rig]:
    """A chroot of the test's own, somebody who looks and writes past the proxy, and no controller yet."""
    log = TransactionLog(server_directory / "data")
    async with rig_of(server.connect, f"/scenarios/{next(_numbers)}", proxy, log, tmp_path) as running:
        yield running
