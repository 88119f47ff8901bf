"""One ZooKeeper server for all tests of this folder, and a chroot of its own for each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.zk.world import THEIRS, Peer, connected

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A server that lives as long as the tests."""
    zookeeper = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with asyncio.Runner() as runner:
        runner.run(zookeeper.start())
        yield zookeeper
        runner.run(zookeeper.close())


@pytest.fixture
def connect(server: EmbeddedZooKeeper) -> str:
    """``zookeeper.connect`` with a chroot of the test's own."""
    return f"{server.connect}/daemon/{next(_numbers)}"


@pytest.fixture
async def peer(connect: str) -> AsyncIterator[Peer]:
    """Another session of the same chroot, to look and to write as brokers and tools do."""
    async with connected(connect, THEIRS, timeout_ms=30_000) as running:
        yield running
