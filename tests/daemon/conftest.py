"""Fixtures of this folder: a ZooKeeper server, a chroot for each test, and an instance without either."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controllerd.daemon.instance import Instance
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.daemon.daemons import configuration
from tests.daemon.lone import SESSION_MS
from tests.daemon.supervisor import Supervisor
from tests.fakes.audit import RecordingAudit
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


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Instance]:
    """An instance that is not connected to anything."""
    config = configuration("127.0.0.1:1", tmp_path, session_ms=SESSION_MS)
    node = Instance(config, "an instance", RecordingAudit(), tuple)
    yield node
    node.timers.clear()


@pytest.fixture
def supervisor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Supervisor]:
    """A supervisor that every daemon of this test reports to."""
    running = Supervisor()
    monkeypatch.setenv("NOTIFY_SOCKET", running.address)
    yield running
    running.close()
