"""Preferred leader elections, on request and by the rebalance (scenarios.md, G13 to G16), on stock brokers."""

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests.real.operator import ELECT, ELECTION_TOOL, REASSIGN, tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

REBALANCE: Final = {
    "CONTROLLERD__KAFKA__AUTO_LEADER_REBALANCE_ENABLE": "true",
    "CONTROLLERD__KAFKA__LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS": "1",
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A cluster in which preferred elections take place only on request."""
    async with open_scene(tmp_path_factory.mktemp("preferred"), settings=NO_REBALANCE) as scene:
        yield scene


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def balanced(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    """A cluster whose controller checks the imbalance every second."""
    async with open_scene(tmp_path_factory.mktemp("balanced"), settings=REBALANCE) as scene:
        yield scene


async def leave_and_return(scene: Scene, topic: str, *, preferred: int, other: int, epoch: int) -> None:
    """The preferred leader shuts down, the other one leads, and both are in sync again."""
    await scene.shut_down(preferred)
    await scene.until_led(topic, other, epoch, [other])
    await scene.start(preferred)
    await scene.until_led(topic, other, epoch, [preferred, other])


async def test_g13_preferred_elections_by_znode_once_and_again(scene: Scene) -> None:
    async with scene.row("G13"):
        await scene.create("g13", {0: [2, 1]}, ONE_ALONE)
        async with scene.load_on("g13"):
            for epoch in (1, 3):
                await leave_and_return(scene, "g13", preferred=2, other=1, epoch=epoch)
                await scene.operator.prefer_by_znode(tp("g13"))
                await scene.until_led("g13", 2, epoch + 1, [1, 2])
                await scene.until_gone(ELECT)


async def test_g13_a_preferred_election_by_kafkas_tool(scene: Scene) -> None:
    async with scene.row("G13 by tool"):
        await scene.create("g13-tool", {0: [2, 1]}, ONE_ALONE)
        await leave_and_return(scene, "g13-tool", preferred=2, other=1, epoch=1)
        wanted = ("--election-type", "preferred", "--topic", "g13-tool", "--partition", "0")

        done = await scene.operator.tool(ELECTION_TOOL, *wanted)

        assert done.exit_status == 0
        assert "Successfully completed leader election (PREFERRED)" in done.stdout
        await scene.until_led("g13-tool", 2, 2, [1, 2])


async def test_g14_without_the_preferred_replica_no_leader_moves(scene: Scene) -> None:
    async with scene.row("G14"):
        await scene.create("g14", {0: [2, 1]}, ONE_ALONE)
        await scene.shut_down(2)
        await scene.until_led("g14", 1, 1, [1])

        await scene.operator.prefer_by_znode(tp("g14"))

        await scene.until_gone(ELECT)
        await scene.until_led("g14", 1, 1, [1])
        await scene.start(2)
        await scene.until_led("g14", 1, 1, [1, 2])


async def test_g15_the_rebalance_elects_a_preferred_leader_that_returns(balanced: Scene) -> None:
    async with balanced.row("G15"):
        await balanced.create("g15", {0: [2, 1]}, ONE_ALONE)
        async with balanced.load_on("g15"):
            await balanced.shut_down(2)
            await balanced.until_led("g15", 1, 1, [1])
            await balanced.start(2)
            await balanced.until_led("g15", 2, 2, [1, 2])


async def test_g16_the_rebalance_elects_preferred_leaders_while_another_reassignment_is_stuck(balanced: Scene) -> None:
    """KAFKA-10149. Two of three brokers are down for a while, so records that need two replicas wait."""
    async with balanced.row("G16 with another", within_s=6 * SESSION_S):
        await balanced.create("g16", {0: [2, 1]}, ONE_ALONE)
        await balanced.create("g16-stuck", {0: [1]}, ONE_ALONE)
        await balanced.shut_down(3)
        await balanced.operator.reassign_by_znode({tp("g16-stuck"): [3]})
        await balanced.until_led("g16-stuck", 1, 1, [1])

        await balanced.shut_down(2)
        await balanced.until_led("g16", 1, 1, [1])
        await balanced.start(2)
        await balanced.until_led("g16", 2, 2, [1, 2])
        await balanced.until_led("g16-stuck", 1, 1, [1])

        await balanced.start(3)
        await balanced.until_led("g16-stuck", 3, 4, [3])
        await balanced.until_assigned("g16-stuck", [3])
        await balanced.until_gone(REASSIGN)


async def test_g16_the_rebalance_elects_a_leader_of_a_partition_with_a_stuck_reassignment(balanced: Scene) -> None:
    """The target's first replica leads already. The return of the missing one is epoch 3, the completion epoch 4."""
    async with balanced.row("G16 with the same", within_s=2 * SESSION_S):
        await balanced.create("g16-same", {0: [1, 2]}, ONE_ALONE)
        await balanced.shut_down(3)
        await balanced.operator.reassign_by_znode({tp("g16-same"): [2, 1, 3]})
        await balanced.until_led("g16-same", 2, 2, [1, 2])
        assert await balanced.operator.exists(REASSIGN)

        await balanced.start(3)
        await balanced.until_led("g16-same", 2, 4, [1, 2, 3])
        await balanced.until_assigned("g16-same", [2, 1, 3])
        await balanced.until_gone(REASSIGN)
