"""Brokers with an older inter.broker.protocol.version (scenarios.md, G5 and J7), under load.

Below 2.7, leaders write ISRs themselves and notify the controller, and brokers do not check finalized features, at
which a broker of 3.9 would stop here.
"""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from controllerd.record.records import ReplyRecord
from tests.real.operator import REASSIGN, tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

AS_NEW: Final = {**NO_REBALANCE, "CONTROLLERD__KAFKA__INTER_BROKER_PROTOCOL_VERSION": "3.9"}
OLD: Final = {"inter.broker.protocol.version": "2.6"}
AS_OLD: Final = {**NO_REBALANCE, "CONTROLLERD__KAFKA__INTER_BROKER_PROTOCOL_VERSION": "2.6"}
FEATURE: Final = "/feature"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def old(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Brokers and controllerd with protocol version 2.6."""
    async with open_scene(tmp_path_factory.mktemp("old"), overrides=OLD, settings=AS_OLD) as scene:
        yield scene


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def mixed(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """Brokers with protocol version 2.6 under a controller that is configured for 3.9."""
    async with open_scene(tmp_path_factory.mktemp("mixed"), overrides=OLD, settings=AS_NEW) as scene:
        yield scene


async def move(scene: Scene, topic: str) -> None:
    """Move a partition as in G1, and check that no leader sent AlterPartition."""
    await scene.create(topic, {0: [1]}, ONE_ALONE)
    async with scene.load_on(topic):
        await scene.operator.reassign_by_znode({tp(topic): [2]})
        await scene.until_led(topic, 2, 3, [2])
        await scene.until_assigned(topic, [2])
        await scene.until_hosted(topic, {2})
        await scene.until_gone(REASSIGN)
    asked = {record.name for _, record in await scene.logged(ReplyRecord)}
    assert "AlterPartitionReceived" not in asked


async def test_g5_a_partition_moves_between_brokers_that_write_isrs_themselves(old: Scene) -> None:
    async with old.row("G5 at 2.6", within_s=SESSION_S):
        await move(old, "g5")


async def test_g5_a_partition_moves_under_a_controller_of_a_newer_protocol(mixed: Scene) -> None:
    async with mixed.row("G5 mixed", within_s=SESSION_S):
        await move(mixed, "g5-mixed")


async def test_j7_a_broker_that_does_not_know_a_finalized_feature_is_not_live(mixed: Scene) -> None:
    async with mixed.row("J7"):
        await mixed.create("j7", {0: [1, 2, 3], 1: [3, 1, 2]})
        before = await mixed.operator.read(FEATURE)
        finalized = {"some.feature": {"min_version_level": 1, "max_version_level": 1}}
        await mixed.operator.write(FEATURE, {**before, "features": finalized})
        await mixed.broker(3).terminate()
        await mixed.broker(3).start()

        async def left_out() -> bool:
            metadata = await mixed.cluster.metadata()
            return all(3 not in metadata[broker].brokers for broker in ("broker 1", "broker 2"))

        await mixed.until_seen(left_out, "the others do not show the broker")
        await mixed.until_isr("j7", [1, 2])
        await mixed.until_isr("j7", [1, 2], partition=1)
        await mixed.until_acknowledged_again()
        assert (await mixed.cluster.view()).brokers == {1, 2, 3}

        await mixed.operator.write(FEATURE, before)
        await mixed.broker(3).terminate()
        await mixed.start(3)
        await mixed.until_isr("j7", [1, 2, 3])
