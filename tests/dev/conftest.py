"""A ZooKeeper server for each test that needs one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controllerd.dev.zookeeper import EmbeddedZooKeeper


@pytest.fixture
async def zookeeper(tmp_path: Path) -> AsyncIterator[EmbeddedZooKeeper]:
    """A real ZooKeeper server of the test's own."""
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        yield server
