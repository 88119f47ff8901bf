"""Assignments that somebody else writes into topic znodes: what they cost, and what they end."""

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
    """A tool replaces fields of the topic znode; by default nothing is being reassigned then."""
    path = f"/brokers/topics/{topic}"
    calm: dict[str, object] = {"adding_replicas": {}, "removing_replicas": {}}
    world.tree.put(path, json.dumps({**json.loads(world.tree.nodes[path].data or b""), **calm, **fields}).encode())


def everywhere(partitions: int, *replicas: int) -> dict[str, Sequence[int]]:
    return {str(number): replicas for number in range(partitions)}


def alarms(world: World) -> list[str]:
    return [record.detail for record in world.audit.of(AlarmRecord) if record.what == FOREIGN]


# -- the price ---------------------------------------------------------------------------------------------------------


async def lines_of_a_rewrite(partitions: int, *replicas: int) -> tuple[int, World]:
    """Lines of the log that it costs when a tool gives all partitions of [1] other replicas."""
    world = await with_topic(1, partitions=partitions)
    with capture_logs() as lines:
        rewrite(world, "t", partitions=everywhere(partitions, *replicas))
        await world.settle()
    return len(lines), world


@pytest.mark.parametrize("replicas", [(1, 3), (2,)], ids=["followed", "not followed"])
async def test_a_thousand_entries_that_a_tool_rewrites_cost_as_many_lines_as_ten(replicas: Sequence[int]) -> None:
    few, _ = await lines_of_a_rewrite(10, *replicas)
    many, world = await lines_of_a_rewrite(1_000, *replicas)

    assert many == few
    (alarm,) = alarms(world)
    assert len(alarm) < 1_000


async def test_the_alarm_counts_the_partitions_and_tells_about_the_first() -> None:
    _, world = await lines_of_a_rewrite(5, 1, 3)

    (alarm,) = alarms(world)
    assert alarm.startswith("t: 5 partitions, 0 of them not followed; t-0: ")
    assert "t-2: " in alarm
    assert "t-3: " not in alarm


async def test_the_alarm_says_what_was_not_followed_and_why() -> None:
    world = await with_topic(1, partitions=3)

    rewrite(world, "t", partitions={"0": [2], "1": [1, 3], "2": [3]})
    await world.settle()

    (alarm,) = alarms(world)
    assert alarm.startswith(
        "t: 3 partitions, 2 of them not followed (nobody who is in sync would remain: the ISR is [1]); "
    )
    assert sorted(world.context.quarantine) == ["/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/2"]
    assert world.context.assignment(tp("t", 1)).replicas == (1, 3)


async def test_each_topic_znode_has_an_alarm_of_its_own() -> None:
    world = await with_topic(1, name="u", world=await with_topic(1))
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    rewrite(world, "t", partitions=everywhere(1, 1, 3))
    rewrite(world, "u", partitions=everywhere(1, 1, 3))
    world.zk.on_watch = watches

    await reassign(world, {tp("t"): [2], tp("u"): [2]})

    assert [alarm.partition(":")[0] for alarm in alarms(world)] == ["t", "u"]


# -- what somebody asked for by znode ----------------------------------------------------------------------------------


async def test_a_reassignment_that_a_tool_calls_off_is_not_begun_again_by_the_entry_that_asked_for_it() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})

    rewrite(world, "t", partitions=everywhere(1, 1))
    await world.settle()
    assert requested(world) is None

    world.queue.put(ZkPartitionReassignment())
    await world.settle()
    assert assigned(world, "t") == ([1], [], [])


async def test_entries_for_other_partitions_stay_when_one_is_called_off() -> None:
    world = await with_topic(1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2], tp("t", 1): [2]})
    lists = {"adding_replicas": {"1": [2]}, "removing_replicas": {"1": [1]}}

    rewrite(world, "t", partitions={"0": [1], "1": [2, 1]}, **lists)
    await world.settle()

    assert requested(world) == {"t-1": [2]}
    assert assigned(world, "t", 0) == ([1], [], [])
    assert assigned(world, "t", 1) == ([2, 1], [2], [1])


async def test_an_entry_that_asks_for_something_else_than_what_was_called_off_is_served() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})

    rewrite(world, "t", partitions=everywhere(1, 1))
    await ask_by_znode(world, {tp("t"): [3]})

    assert requested(world) == {"t-0": [3]}
    assert assigned(world, "t") == ([3, 1], [3], [1])


async def test_an_entry_ends_though_the_topic_goes_right_before_the_last_write_kafka_9478() -> None:
    world = await with_topic(1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.before_transaction[len(world.zk.transactions) + 5] = lambda: world.tree.remove("/brokers/topics/t")

    await change_isr(world, "t", 1, 2)

    assert "/brokers/topics/t" not in world.tree.nodes
    assert REASSIGN not in world.tree.nodes


async def test_an_entry_with_a_flaw_that_nobody_has_noticed_yet_is_not_overwritten_by_a_request() -> None:
    world = await with_topic(1)
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    rewrite(world, "t", adding_replicas={"0": [3]})
    world.zk.on_watch = watches

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}

    assert assigned(world, "t") == ([1], [3], [])
