"""A broker's registration beside others, on a real ZooKeeper."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.embedded import EmbeddedBroker
from controllerd.errors import StoreUnavailable
from controllerd.zk import paths
from controllerd.zk.registration import BrokerIdTaken
from tests.broker.cluster import settings
from tests.broker.zookeeper import Registrations

pytestmark = pytest.mark.zookeeper


@pytest.fixture
async def registered(connect: str, tmp_path: Path) -> AsyncIterator[EmbeddedBroker]:
    """Broker 1, which runs."""
    async with EmbeddedBroker(settings(connect, tmp_path)) as broker:
        yield broker


async def test_two_brokers_cannot_have_the_same_id(registered: EmbeddedBroker, connect: str, tmp_path: Path) -> None:
    second = EmbeddedBroker(settings(connect, tmp_path / "second", session_timeout_ms=1_000))

    with pytest.raises(BrokerIdTaken):
        await second.start()
    assert registered.epoch > 0


async def test_a_broker_creates_the_paths_that_all_brokers_need(
    registered: EmbeddedBroker, registrations: Registrations
) -> None:
    missing = [path for path in paths.PERSISTENT_PATHS if await registrations.node(path) is None]

    assert missing == []


async def test_no_block_of_producer_ids_is_written_as_null_data(
    registered: EmbeddedBroker, registrations: Registrations
) -> None:
    node = await registrations.node(paths.LATEST_PRODUCER_ID_BLOCK)

    assert node is not None
    assert node.data is None


async def test_without_zookeeper_a_broker_does_not_start(tmp_path: Path) -> None:
    broker = EmbeddedBroker(settings("127.0.0.1:1", tmp_path, connect_timeout_s=0.3))

    with pytest.raises(StoreUnavailable):
        await broker.start()
