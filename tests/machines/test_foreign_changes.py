"""Assignments that another client writes into topic znodes: their alarms, and the requests that they cancel."""

import json
from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from controllerd.core.kafka_error import KafkaError
from controllerd.record.records import AlarmRecord
from events.reassignments import ZkPartitionReassignment
from tests.fakes.reassigning import REASSIGN, ask_by_znode, assigned, change_isr, reassign, requested
from tests.fakes.world import World, tp

FOREIGN = "assignment changed by somebody else"


async def with_topic(*replicas: int, partitions: int = 1, name: str = "t", world: World | None = None) -> World:
    if world is None:
        world = World()
        for broker in (1, 2, 3):
            world.register(broker)
        await world.start()
    world.put_topic(name, dict.fromkeys(range(partitions), replicas))
    await world.settle()
    world.forget()
    return world


def rewrite(world: World, topic: str, **fields: object) -> None:
    """Replace fields of the topic znode as a tool does; by default, with no reassignment in it."""
    path = f"/brokers/topics/{topic}"
    no_reassignment: dict[str, object] = {"adding_replicas": {}, "removing_replicas": {}}
    world.tree.put(
        path, json.dumps({**json.loads(world.tree.nodes[path].data or b""), **no_reassignment, **fields}).encode()
    )


def everywhere(partitions: int, *replicas: int) -> dict[str, Sequence[int]]:
    return {str(number): replicas for number in range(partitions)}


def alarms(world: World) -> list[str]:
    return [record.detail for record in world.audit.of(AlarmRecord) if record.what == FOREIGN]


# -- log lines ---------------------------------------------------------------------------------------------------------


async def lines_of_a_rewrite(partitions: int, *replicas: int) -> tuple[int, World]:
    """The number of log lines after a tool gives all partitions of [1] other replicas."""
    world = await with_topic(1, partitions=partitions)
    with capture_logs() as lines:
        rewrite(world, "t", partitions=everywhere(partitions, *replicas))
        await world.settle()
    return len(lines), world


@pytest.mark.parametrize("replicas", [(1, 3), (2,)], ids=["followed", "not followed"])
async def test_a_thousand_entries_that_a_tool_rewrites_log_as_many_lines_as_ten(replicas: Sequence[int]) -> None:
    few, _ = await lines_of_a_rewrite(10, *replicas)
    many, world = await lines_of_a_rewrite(1_000, *replicas)

    assert many == few
    (alarm,) = alarms(world)
    assert len(alarm) < 1_000


async def test_the_alarm_counts_the_partitions_and_describes_the_first_ones() -> None:
    _, world = await lines_of_a_rewrite(5, 1, 3)

    (alarm,) = alarms(world)
    assert alarm.startswith("t: 5 partitions, 0 of them not followed; t-0: ")
    assert "t-2: " in alarm
    assert "t-3: " not in alarm


async def test_the_alarm_counts_the_assignments_not_followed_and_names_the_reason() -> None:
    world = await with_topic(1, partitions=3)

    rewrite(world, "t", partitions={"0": [2], "1": [1, 3], "2": [3]})
    await world.settle()

    (alarm,) = alarms(world)
    assert alarm.startswith(
        "t: 3 partitions, 2 of them not followed (no in-sync replica would remain: the ISR is [1]); "
    )
    assert sorted(world.context.quarantine) == ["/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/2"]
    assert world.context.assignment(tp("t", 1)).replicas == (1, 3)


async def test_each_topic_znode_has_its_own_alarm() -> None:
    world = await with_topic(1, name="u", world=await with_topic(1))
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    rewrite(world, "t", partitions=everywhere(1, 1, 3))
    rewrite(world, "u", partitions=everywhere(1, 1, 3))
    world.zk.on_watch = watches

    await reassign(world, {tp("t"): [2], tp("u"): [2]})

    assert [alarm.partition(":")[0] for alarm in alarms(world)] == ["t", "u"]


# -- requests by znode -------------------------------------------------------------------------------------------------


async def test_a_reassignment_that_a_tool_cancels_is_not_begun_again_by_its_entry() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})

    rewrite(world, "t", partitions=everywhere(1, 1))
    await world.settle()
    assert requested(world) is None

    world.queue.put(ZkPartitionReassignment())
    await world.settle()
    assert assigned(world, "t") == ([1], [], [])


async def test_entries_for_other_partitions_stay_when_one_is_cancelled() -> None:
    world = await with_topic(1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2], tp("t", 1): [2]})
    lists = {"adding_replicas": {"1": [2]}, "removing_replicas": {"1": [1]}}

    rewrite(world, "t", partitions={"0": [1], "1": [2, 1]}, **lists)
    await world.settle()

    assert requested(world) == {"t-1": [2]}
    assert assigned(world, "t", 0) == ([1], [], [])
    assert assigned(world, "t", 1) == ([2, 1], [2], [1])


async def test_an_entry_with_another_target_than_the_cancelled_one_is_served() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})

    rewrite(world, "t", partitions=everywhere(1, 1))
    await ask_by_znode(world, {tp("t"): [3]})

    assert requested(world) == {"t-0": [3]}
    assert assigned(world, "t") == ([3, 1], [3], [1])


async def test_an_entry_is_removed_though_its_topic_is_deleted_right_before_the_last_write_kafka_9478() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.before_transaction[len(world.zk.transactions) + 5] = lambda: world.tree.remove("/brokers/topics/t")

    await change_isr(world, "t", 1, 2)

    assert "/brokers/topics/t" not in world.tree.nodes
    assert REASSIGN not in world.tree.nodes


async def test_an_invalid_entry_that_was_not_read_yet_is_not_overwritten_by_a_request() -> None:
    world = await with_topic(1)
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    rewrite(world, "t", adding_replicas={"0": [3]})
    world.zk.on_watch = watches

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}

    assert assigned(world, "t") == ([1], [3], [])
