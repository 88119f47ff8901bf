"""One ZooKeeper server for all tests of this folder, a chroot for each test."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator

import pytest

from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.broker.stub_controller import StubController, stub_controller
from tests.broker.zookeeper import Registrations

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
def connect(server_address: str) -> str:
    """``zookeeper.connect`` with a chroot of the test's own."""
    return f"{server_address}/clusters/{next(_numbers)}"


@pytest.fixture
async def registrations(connect: str) -> AsyncIterator[Registrations]:
    """The registrations in ZooKeeper, read by another client."""
    async with Registrations(connect) as reading:
        yield reading


@pytest.fixture
async def controller() -> AsyncIterator[StubController]:
    """A stub controller that tests instruct."""
    async with stub_controller() as running:
        yield running
