"""Partitions that are added to a topic during its deletion are removed again (KAFKA-6612)."""

import json
from collections.abc import Mapping

import pytest

from controllerd.record.records import AlarmRecord
from tests.fakes.disks import Disks, successor
from tests.fakes.world import World, topic_id_of, tp

TOPIC = "/brokers/topics/t"


@pytest.fixture
async def disks() -> Disks:
    """The topic t, on brokers 1 and 2, is being deleted; broker 2 is down."""
    disks = Disks(World())
    for broker in (1, 2):
        disks.world.register(broker)
    await disks.start()
    disks.world.put_topic("t", {0: [1, 2]})
    await disks.settle()
    disks.world.die(2)
    disks.world.tree.put("/admin/delete_topics/t")
    await disks.settle()
    disks.forget()
    return disks


def znode(world: World) -> dict[str, object]:
    data = json.loads(world.tree.nodes[TOPIC].data or b"")
    assert isinstance(data, dict)
    return data


def put(world: World, partitions: Mapping[str, list[int]], **more: object) -> None:
    body = {
        "version": 3,
        "topic_id": topic_id_of("t"),
        "partitions": dict(partitions),
        "adding_replicas": {},
        "removing_replicas": {},
        **more,
    }
    world.tree.put(TOPIC, json.dumps(body).encode())


async def test_an_added_partition_is_taken_out_of_the_znode_and_never_started(disks: Disks) -> None:
    put(disks.world, {"0": [1, 2], "1": [1]})

    await disks.settle()

    assert znode(disks.world)["partitions"] == {"0": [1, 2]}
    assert tp("t", 1) not in disks.world.context
    assert disks.world.channels.sent == []


async def test_other_fields_of_the_znode_are_kept(disks: Disks) -> None:
    put(disks.world, {"0": [1, 2], "1": [1]}, owner="billing")

    await disks.settle()

    assert (znode(disks.world)["owner"], znode(disks.world)["topic_id"]) == ("billing", topic_id_of("t"))


async def test_the_restored_znode_causes_no_further_write(disks: Disks) -> None:
    put(disks.world, {"0": [1, 2], "1": [1]})

    await disks.settle()

    assert [write.path for write in disks.world.zk.writes] == [TOPIC]


async def test_a_partition_with_its_own_znode_counts_as_existing(disks: Disks) -> None:
    disks.world.tree.put(f"{TOPIC}/partitions/1")
    put(disks.world, {"0": [1, 2], "1": [1], "2": [1]})

    await disks.settle()

    assert znode(disks.world)["partitions"] == {"0": [1, 2], "1": [1]}
    assert disks.world.channels.sent == []


async def test_a_second_addition_in_the_meantime_is_removed_as_well(disks: Disks) -> None:
    world = disks.world
    put(world, {"0": [1, 2], "1": [1]})
    world.zk.before_transaction[1] = lambda: put(world, {"0": [1, 2], "1": [1], "2": [1]}, owner="billing")

    await disks.settle()

    assert znode(world)["partitions"] == {"0": [1, 2]}
    assert znode(world)["owner"] == "billing"


async def test_a_topic_that_is_removed_in_the_meantime_is_forgotten(disks: Disks) -> None:
    world = disks.world
    put(world, {"0": [1, 2], "1": [1]})
    world.zk.before_transaction[1] = lambda: world.tree.remove(TOPIC)

    await disks.settle()

    assert "t" not in world.context.topics
    assert "/admin/delete_topics/t" not in world.tree.nodes


async def test_a_topic_that_becomes_unreadable_in_the_meantime_is_left_alone(disks: Disks) -> None:
    world = disks.world
    put(world, {"0": [1, 2], "1": [1]})
    world.zk.before_transaction[1] = lambda: world.tree.put(TOPIC, b"not JSON")

    await disks.settle()

    assert world.tree.nodes[TOPIC].data == b"not JSON"
    assert TOPIC in world.context.quarantine


async def test_a_znode_of_a_newer_format_is_not_written_and_an_alarm_is_raised(disks: Disks) -> None:
    put(disks.world, {"0": [1, 2], "1": [1]}, version=99)

    await disks.settle()

    assert znode(disks.world)["version"] == 99
    assert [each.what for each in disks.world.audit.records if isinstance(each, AlarmRecord)] == [
        "topic znode was not written"
    ]


async def test_the_deletion_ends_as_if_nothing_had_been_added(disks: Disks) -> None:
    put(disks.world, {"0": [1, 2], "1": [1]})
    await disks.settle()

    disks.world.register(2)
    await disks.settle()

    assert not [path for path in disks.world.tree.nodes if path.startswith(TOPIC)]
    assert disks.logs == {1: set(), 2: set()}


async def test_a_partition_that_was_added_without_an_active_controller_is_deleted_with_the_topic(disks: Disks) -> None:
    after = successor(disks, 2)
    disks.world.zk.expire()
    put(disks.world, {"0": [1, 2], "1": [1]})
    await after.start()

    after.world.register(2)
    await after.settle()

    assert not [path for path in after.world.tree.nodes if path.startswith(TOPIC)]
    assert after.logs == {1: set(), 2: set()}
