"""A ZooKeeper for each test that wants one, and the gate of the tests that need the Kafka jars."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controllerd.dev.kafka_jars import kafka_available
from controllerd.dev.zookeeper import EmbeddedZooKeeper


@pytest.fixture
async def zookeeper(tmp_path: Path) -> AsyncIterator[EmbeddedZooKeeper]:
    """A real ZooKeeper server of the test's own."""
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        yield server


@pytest.fixture(scope="session")
def kafka_jars() -> None:
    """Skips with one loud line where the jars cannot be had, and fails instead where CONTROLLERD_REQUIRE_KAFKA=1."""
    reason = kafka_available()
    if reason is None:
        return
    if os.environ.get("CONTROLLERD_REQUIRE_KAFKA") == "1":
        pytest.fail(f"CONTROLLERD_REQUIRE_KAFKA=1, but {reason}", pytrace=False)
    pytest.skip(f"REAL KAFKA NOT TESTED: {reason}")
