"""One ZooKeeper server for all tests of this folder, a chroot for each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.zk.proxy import ZooKeeperProxy
from tests.zk.world import World, in_memory, on_server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def server_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """``host:port`` of a server that lives as long as the tests."""
    server = EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    with asyncio.Runner() as runner:
        runner.run(server.start())
        yield server.connect
        runner.run(server.close())


@pytest.fixture
def chroot() -> str:
    """A chroot of the test's own, two levels deep."""
    return f"/tests/{next(_numbers)}"


@pytest.fixture
def connect(server_address: str, chroot: str) -> str:
    """``zookeeper.connect`` with a chroot of the test's own."""
    return server_address + chroot


@pytest.fixture
async def proxy(server_address: str) -> AsyncIterator[ZooKeeperProxy]:
    """A proxy before the server."""
    async with ZooKeeperProxy(server_address) as running:
        yield running


@pytest.fixture(params=["memory", pytest.param("server", marks=pytest.mark.zookeeper)])
def backend(request: pytest.FixtureRequest) -> str | None:
    """Where the world is: a server, or None for memory. Not asynchronous, so that it may ask for the server."""
    if request.param == "memory":
        return None
    connect: str = request.getfixturevalue("connect")
    return connect


@pytest.fixture
async def world(backend: str | None) -> AsyncIterator[World]:
    """Two contenders, once in memory and once on the real server."""
    if backend is None:
        yield in_memory()
        return
    async with on_server(backend) as running:
        yield running
