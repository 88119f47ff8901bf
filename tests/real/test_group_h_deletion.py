"""Topic deletions beside failures and other requests (scenarios.md, group H), on stock brokers under load."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import pytest_asyncio
from kazoo.exceptions import NoNodeError

from controllerd.dev.cluster import BROKER_IDS
from tests.real.operator import DELETE
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

ON_ALL = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("deletion")
    async with open_scene(directory, instances=2, settings=NO_REBALANCE) as scene:
        yield scene


async def until_deleted(scene: Scene, topic: str, partitions: int = 3) -> None:
    """Wait until neither a znode nor a replica is left of the topic."""
    for path in (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"{DELETE}/{topic}"):
        await scene.until_gone(path)
    for partition in range(partitions):
        await scene.until_hosted(topic, (), partition=partition)


async def until_hidden(scene: Scene, topic: str) -> None:
    """Wait until no running broker has the topic in its metadata."""

    async def hidden() -> bool:
        return all(topic not in metadata.topics for metadata in (await scene.cluster.metadata()).values())

    await scene.until_seen(hidden, f"no broker shows {topic}")


async def waits(scene: Scene, topic: str) -> bool:
    """Whether the request and the topic still exist."""
    return await scene.operator.exists(f"{DELETE}/{topic}") and await scene.operator.exists(f"/brokers/topics/{topic}")


async def fail_over(scene: Scene) -> None:
    """Kill the active instance, and wait until the other leads; a broker may lead in between."""
    active, epoch = await scene.waiting.active(), await scene.epoch()
    await active.process.kill()
    await scene.waiting.until(scene.waiting.missing_controller, "the other instance leads")
    assert await scene.epoch() > epoch
    await active.start()


async def test_h1_a_topic_is_deleted_everywhere(scene: Scene) -> None:
    async with scene.row("H1", within_s=SESSION_S):
        await scene.create("h1", ON_ALL)
        assert scene.hosts("h1") == set(BROKER_IDS)

        await scene.operator.delete_topic("h1")

        await until_deleted(scene, "h1")


async def test_h2_a_deletion_waits_for_a_dead_follower(scene: Scene) -> None:
    async with scene.row("H2"):
        await scene.create("h2", {0: [1, 2, 3]})
        await scene.shut_down(3)
        await scene.operator.delete_topic("h2")

        await until_hidden(scene, "h2")
        await scene.until_hosted("h2", {3})
        assert await waits(scene, "h2")
        await scene.start(3)
        await until_deleted(scene, "h2")


async def test_h3_a_deletion_that_waits_outlives_the_controller(scene: Scene) -> None:
    async with scene.row("H3", within_s=2 * SESSION_S):
        await scene.create("h3", {0: [1, 2, 3]})
        await scene.shut_down(3)
        await scene.operator.delete_topic("h3")
        await scene.until_hosted("h3", {3})

        await fail_over(scene)

        assert await waits(scene, "h3")
        await until_hidden(scene, "h3")
        await scene.start(3)
        await until_deleted(scene, "h3")


async def test_h4_a_topic_without_leader_is_deleted_when_its_broker_returns(scene: Scene) -> None:
    async with scene.row("H4"):
        await scene.create("h4", {0: [1]}, ONE_ALONE)
        await scene.kill(1)
        await scene.until_led("h4", -1, 1, [1])
        await scene.operator.delete_topic("h4")
        await until_hidden(scene, "h4")
        assert await waits(scene, "h4")

        await scene.start(1)

        await until_deleted(scene, "h4")


async def test_h5_partitions_added_during_a_deletion_are_removed_again(scene: Scene) -> None:
    """KAFKA-6612, with a failover: partitions that it had no time to remove are deleted with the topic."""
    async with scene.row("H5", within_s=2 * SESSION_S):
        await scene.create("h5", {0: [1, 3]}, ONE_ALONE)
        await scene.shut_down(3)
        await scene.operator.delete_topic("h5")
        await scene.until_hosted("h5", {3})

        async def removed_again() -> bool:
            return set((await scene.operator.read("/brokers/topics/h5"))["partitions"]) == {"0"}

        await scene.operator.add_partitions("h5", {1: [1, 2], 2: [2, 1]})
        await scene.until_seen(removed_again, "the added partitions are gone from the topic")
        await scene.operator.add_partitions("h5", {1: [2, 1]})
        await fail_over(scene)

        assert await waits(scene, "h5")
        assert scene.hosts("h5", 1) == scene.hosts("h5", 2) == set()
        await scene.start(3)
        await until_deleted(scene, "h5")


async def test_h6_partitions_added_before_or_after_a_deletion_do_not_survive_it(scene: Scene) -> None:
    async with scene.row("H6", within_s=SESSION_S):
        await asyncio.gather(*(scene.create(topic, {0: [1, 2, 3]}) for topic in ("h6-before", "h6-after")))

        await scene.operator.add_partitions("h6-before", {1: [2, 3, 1]})
        await scene.operator.delete_topic("h6-before")
        await scene.operator.delete_topic("h6-after")
        with suppress(NoNodeError):  # it may be gone by now
            await scene.operator.add_partitions("h6-after", {1: [2, 3, 1]})

        for topic in ("h6-before", "h6-after"):
            await until_deleted(scene, topic, partitions=2)


async def test_h7_a_topic_that_is_created_again_is_a_new_topic(scene: Scene) -> None:
    async with scene.row("H7", within_s=SESSION_S):
        await scene.create("h7", ON_ALL)
        former = (await scene.cluster.view()).topic_ids["h7"]
        async with scene.load_on("h7", 3):
            pass
        await scene.operator.delete_topic("h7")
        await until_deleted(scene, "h7")

        await scene.create("h7", ON_ALL)

        async with scene.load_on("h7", 3):
            pass
        await scene.until_isr("h7", BROKER_IDS)
        assert (await scene.cluster.view()).topic_ids["h7"] not in {former, None}
        assert scene.hosts("h7") == set(BROKER_IDS)


async def test_h8_a_request_to_delete_an_unknown_topic_is_removed(scene: Scene) -> None:
    async with scene.row("H8", within_s=SESSION_S):
        await scene.operator.delete_topic("unknown")

        await scene.until_gone(f"{DELETE}/unknown")


async def test_h13_a_broker_that_fails_before_its_answer_is_sent_the_deletion_again(scene: Scene) -> None:
    """The broker is paused first, so that the request reaches a broker that will never answer it."""
    async with scene.row("H13", within_s=2 * SESSION_S):
        await scene.create("h13", ON_ALL)
        scene.broker(3).pause()
        await scene.operator.delete_topic("h13")
        for partition in range(3):
            await scene.until_hosted("h13", {3}, partition=partition)
        await scene.kill(3)
        assert await waits(scene, "h13")

        await scene.start(3)

        await until_deleted(scene, "h13")
