"""Reassignments, their cancellations and overrides (scenarios.md, group G), on stock brokers under load.

G2 needs brokers with two log directories (``test_group_k_log_dirs.py``), G5 brokers of an older protocol
(``test_older_protocol.py``), G13 to G16 are elections (``test_group_g_preferred.py``).
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from kio.schema.errors import ErrorCode

from tests.real.operator import DELETE, REASSIGN, tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, SMALL_FETCHES, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("reassignment")
    async with open_scene(directory, overrides=SMALL_FETCHES, settings=NO_REBALANCE) as scene:
        yield scene


async def until_moved(scene: Scene, topic: str, replicas: list[int]) -> None:
    """Wait until exactly these replicas are assigned, in sync and on disk, and the request is gone."""
    await scene.until_assigned(topic, replicas)
    await scene.until_isr(topic, replicas)
    await scene.until_hosted(topic, replicas)
    await scene.until_gone(REASSIGN)


async def test_g1_a_partition_moves_by_znode_at_the_third_epoch(scene: Scene) -> None:
    async with scene.row("G1 by znode", within_s=SESSION_S):
        await scene.create("g1", {0: [1]}, ONE_ALONE)
        async with scene.load_on("g1"):
            await scene.operator.reassign_by_znode({tp("g1"): [2]})
            await scene.until_led("g1", 2, 3, [2])
            await until_moved(scene, "g1", [2])
        await scene.until_led("g1", 2, 3, [2])


@pytest.mark.parametrize("by_way_of", ["controllerd", "a broker"])
async def test_g1_a_partition_moves_by_kafkas_tool_at_the_third_epoch(scene: Scene, by_way_of: str) -> None:
    topic = f"g1-{by_way_of.rpartition(' ')[2]}"
    bootstrap = None if by_way_of == "controllerd" else scene.broker(3).address
    async with scene.row(f"G1 by way of {by_way_of}", within_s=SESSION_S):
        await scene.create(topic, {0: [1]}, ONE_ALONE)
        async with scene.load_on(topic):
            done = await scene.operator.reassign_by_tool({tp(topic): [2]}, "--execute", bootstrap=bootstrap)
            assert done.exit_status == 0
            await scene.until_led(topic, 2, 3, [2])
            await until_moved(scene, topic, [2])
        verified = await scene.operator.reassign_by_tool({tp(topic): [2]}, "--verify")
        assert f"Reassignment of partition {topic}-0 is completed" in verified.stdout


async def test_g1_many_partitions_move_at_once_and_keep_their_records(scene: Scene) -> None:
    """Every replica of a topic under load moves to another broker, and the topic keeps its id."""
    async with scene.row("G1 with 12 partitions", within_s=SESSION_S):
        await scene.create("g1-many", {p: [1 + p % 3, 1 + (p + 1) % 3] for p in range(12)}, ONE_ALONE)
        topic_id = (await scene.cluster.view()).topic_ids["g1-many"]
        targets = {tp("g1-many", p): [1 + (p + 2) % 3, 1 + p % 3] for p in range(12)}
        async with scene.load_on("g1-many", 12):
            assert set((await scene.operator.reassign(targets)).values()) == {ErrorCode.none}
            for partition in range(12):
                await scene.until_assigned("g1-many", targets[tp("g1-many", partition)], partition=partition)
                await scene.until_hosted("g1-many", targets[tp("g1-many", partition)], partition=partition)
        assert await scene.operator.reassignments() == {}
        assert (await scene.cluster.view()).topic_ids["g1-many"] == topic_id


async def test_g3_g4_a_move_to_a_dead_broker_waits_for_its_return(scene: Scene) -> None:
    async with scene.row("G3, G4"):
        await scene.create("g3", {0: [1]}, ONE_ALONE)
        async with scene.load_on("g3"):
            await scene.shut_down(3)
            await scene.operator.reassign_by_znode({tp("g3"): [3]})
            await scene.until_led("g3", 1, 1, [1])
            assert await scene.operator.exists(REASSIGN)
            assert await scene.operator.reassignments() == {tp("g3"): ([3, 1], [3], [1])}

            await scene.start(3)
            await scene.until_led("g3", 3, 4, [3])
            await until_moved(scene, "g3", [3])
        await scene.until_led("g3", 3, 4, [3])


async def test_g4_a_move_outlives_the_controller(scene: Scene) -> None:
    """The controller restarts while the target is down, and the next term continues the reassignment."""
    async with scene.row("G4 over a failover", within_s=2 * SESSION_S):
        await scene.create("g4", {0: [1]}, ONE_ALONE)
        async with scene.load_on("g4"):
            await scene.shut_down(3)
            await scene.operator.reassign_by_znode({tp("g4"): [3]})
            await scene.until_led("g4", 1, 1, [1])
            active = await scene.waiting.active()
            assert await active.process.terminate() == 0
            await active.start()
            assert await scene.operator.reassignments() == {tp("g4"): ([3, 1], [3], [1])}
            await scene.start(3)
            await until_moved(scene, "g4", [3])


async def test_g6_a_cancelled_move_is_deleted_on_disk_and_cannot_be_cancelled_twice(scene: Scene) -> None:
    """The target removes a replica, because Kafka's tool does not recognise a reassignment that only adds."""
    async with scene.row("G6", within_s=SESSION_S):
        await scene.create("g6", {0: [1, 2]}, ONE_ALONE)
        await scene.throttle("g6", 3)
        await scene.ballast("g6")
        done = await scene.operator.reassign({tp("g6"): [1, 3]})
        assert done == {tp("g6"): ErrorCode.none}
        await scene.until_hosted("g6", {1, 2, 3})
        assert await scene.operator.reassignments() == {tp("g6"): ([1, 3, 2], [3], [2])}

        cancelled = await scene.operator.reassign_by_tool({tp("g6"): [1, 3]}, "--cancel")
        assert cancelled.exit_status == 0
        assert "Successfully cancelled" in cancelled.stdout
        await scene.until_assigned("g6", [1, 2])
        await scene.until_hosted("g6", {1, 2})
        assert await scene.operator.reassignments() == {}
        again = await scene.operator.reassign({tp("g6"): None})
        assert again == {tp("g6"): ErrorCode.no_reassignment_in_progress}
        await scene.unthrottle(3)
        await scene.until_isr("g6", [1, 2])


async def test_g7_a_cancelled_replica_that_was_in_sync_leaves_the_isr_first(scene: Scene) -> None:
    async with scene.row("G7", within_s=SESSION_S):
        await scene.create("g7", {0: [1]}, ONE_ALONE)
        await scene.throttle("g7", 3)
        await scene.ballast("g7")
        assert await scene.operator.reassign({tp("g7"): [2, 3]}) == {tp("g7"): ErrorCode.none}
        await scene.until_isr("g7", [1, 2])
        assert await scene.operator.reassignments() == {tp("g7"): ([2, 3, 1], [2, 3], [1])}

        assert await scene.operator.reassign({tp("g7"): None}) == {tp("g7"): ErrorCode.none}

        await scene.until_assigned("g7", [1])
        await scene.until_isr("g7", [1])
        await scene.until_hosted("g7", {1})
        assert (await scene.state("g7")).leader == 1
        await scene.unthrottle(3)


async def test_g8_another_target_overrides_the_one_before(scene: Scene) -> None:
    async with scene.row("G8", within_s=SESSION_S):
        await scene.create("g8", {0: [1]}, ONE_ALONE)
        await scene.throttle("g8", 2, 3)
        await scene.ballast("g8")
        assert await scene.operator.reassign({tp("g8"): [3]}) == {tp("g8"): ErrorCode.none}
        await scene.until_hosted("g8", {1, 3})

        assert await scene.operator.reassign({tp("g8"): [2]}) == {tp("g8"): ErrorCode.none}
        await scene.until_hosted("g8", {1, 2})
        assert await scene.operator.reassignments() == {tp("g8"): ([2, 1], [2], [1])}
        await scene.unthrottle(2, 3)
        await until_moved(scene, "g8", [2])
        assert (await scene.state("g8")).leader == 2


async def test_g10_a_move_of_a_topic_that_is_being_deleted_is_refused(scene: Scene) -> None:
    async with scene.row("G10"):
        await scene.create("g10", {0: [1, 3]}, ONE_ALONE)
        await scene.shut_down(3)
        await scene.operator.delete_topic("g10")

        async def refused() -> bool:
            return await scene.operator.reassign({tp("g10"): [2]}) == {tp("g10"): ErrorCode.unknown_topic_or_partition}

        await scene.until_seen(refused, "the move is refused")
        await scene.start(3)
        await scene.until_gone(f"{DELETE}/g10")


@pytest.mark.parametrize("over", ["one term", "a failover"])
async def test_history_48_a_deletion_waits_for_a_move_and_both_end(scene: Scene, over: str) -> None:
    """Leaders answer fetches only of topics that they know: the removal must not be sent before the move ends."""
    topic = f"doomed-{over.rpartition(' ')[2]}"
    async with scene.row(f"48 over {over}", within_s=2 * SESSION_S):
        await scene.create(topic, {0: [1]}, ONE_ALONE)
        await scene.throttle(topic, 3)
        await scene.ballast(topic)
        assert await scene.operator.reassign({tp(topic): [3]}) == {tp(topic): ErrorCode.none}
        await scene.until_hosted(topic, {1, 3})
        await scene.operator.delete_topic(topic)
        if over == "a failover":
            active = await scene.waiting.active()
            assert await active.process.terminate() == 0
            await active.start()
        assert await scene.operator.reassignments() == {tp(topic): ([3, 1], [3], [1])}

        await scene.unthrottle(3)

        await scene.until_gone(f"/brokers/topics/{topic}")
        await scene.until_gone(f"{DELETE}/{topic}")
        await scene.until_hosted(topic, ())


async def test_history_58c_a_replica_removed_while_its_broker_was_dead_is_deleted_on_its_return(scene: Scene) -> None:
    async with scene.row("58c"):
        await scene.create("missed", {0: [1, 2]}, ONE_ALONE)
        async with scene.load_on("missed"):
            await scene.shut_down(2)
            assert await scene.operator.reassign({tp("missed"): [1]}) == {tp("missed"): ErrorCode.none}
            await scene.until_assigned("missed", [1])
            assert scene.hosts("missed") == {1, 2}, "a dead broker deletes no replica"
            await scene.start(2)
            await scene.until_hosted("missed", {1})
            await scene.until_led("missed", 1, (await scene.state("missed")).leader_epoch, [1])


async def test_history_58c_a_pending_deletion_survives_a_failover(scene: Scene) -> None:
    async with scene.row("58c over a failover", within_s=2 * SESSION_S):
        await scene.create("missed-earlier", {0: [1, 2]}, ONE_ALONE)
        await scene.shut_down(2)
        assert await scene.operator.reassign({tp("missed-earlier"): [1]}) == {tp("missed-earlier"): ErrorCode.none}
        await scene.until_assigned("missed-earlier", [1])
        active = await scene.waiting.active()
        assert await active.process.terminate() == 0
        await active.start()
        await scene.start(2)
        await scene.until_hosted("missed-earlier", {1})
