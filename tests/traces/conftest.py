"""One ZooKeeper server for all traces; each has a chroot of its own."""

import asyncio
from collections.abc import Iterator

import pytest

from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.traces.real_rig import TraceServer


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceServer]:
    """A server that lives as long as the tests, with its transaction log."""
    directory = tmp_path_factory.mktemp("zookeeper")
    zookeeper = EmbeddedZooKeeper(directory)
    with asyncio.Runner() as runner:
        runner.run(zookeeper.start())
        yield TraceServer(zookeeper.connect, TransactionLog(directory / "data"))
        runner.run(zookeeper.close())
