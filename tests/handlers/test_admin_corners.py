"""Reassignments and elections beside znodes that somebody broke, changed or mended: nothing is lost, nothing waits."""

import json

from controllerd.core.kafka_error import KafkaError
from controllerd.core.requests import LeaderAndIsrRequest
from controllerd.zk.access import SetData
from events.elections import TopicUncleanLeaderElectionEnable
from replay.records import AlarmRecord
from tests.fakes.reassigning import assigned, change_isr, deleted_on, reassign
from tests.fakes.world import World, tp
from tests.scenarios.acts import UNCLEAN, alter_isr, cluster, configure, kill, leader, write_config
from tests.scenarios.acts import with_topic as a_topic

TOPIC = "/brokers/topics/t"


async def with_topic(world: World, *replicas: int) -> World:
    world.put_topic("t", {0: replicas})
    await world.settle()
    world.forget()
    return world


def alarms(world: World) -> list[str]:
    return [record.what for record in world.audit.of(AlarmRecord)]


def znode(world: World, **changed: object) -> bytes:
    """The topic znode with some fields changed."""
    return json.dumps(json.loads(world.tree.nodes[TOPIC].data or b"") | changed).encode()


def write_before_the_watch(world: World, data: bytes) -> None:
    """Somebody writes the topic znode, and nobody was told yet."""
    fired, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.tree.put(TOPIC, data)
    world.zk.on_watch = fired


async def test_nothing_is_deleted_for_a_reassignment_whose_entry_nobody_understands(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}))
    await world.settle()
    world.forget()

    await change_isr(world, "t", 1, 2)

    assert deleted_on(world, 1) == []
    assert world.state("t")[2] == [1, 2]
    assert "invariant broken" not in alarms(world)


async def test_nothing_is_deleted_for_a_reassignment_whose_entry_is_gone(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put(TOPIC, znode(world, partitions={}, adding_replicas={}, removing_replicas={}))
    await world.settle()
    world.forget()

    await change_isr(world, "t", 1, 2)

    assert deleted_on(world, 1) == []
    assert "invariant broken" not in alarms(world)


async def test_a_reassignment_that_caught_up_beside_a_broken_topic_znode_completes_when_it_is_mended(
    world: World,
) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    sound = znode(world)
    world.tree.put(TOPIC, b"{")
    await world.settle()
    await change_isr(world, "t", 1, 2)

    world.tree.put(TOPIC, sound)
    await world.settle()

    assert assigned(world, "t") == ([2], [], [])


async def test_a_reassignment_that_caught_up_beside_a_bad_entry_completes_when_it_is_mended(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    sound = znode(world)
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}))
    await world.settle()
    await change_isr(world, "t", 1, 2)

    world.tree.put(TOPIC, sound)
    await world.settle()

    assert assigned(world, "t") == ([2], [], [])


async def test_a_topic_that_was_mended_and_not_looked_at_yet_is_left_alone(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    sound = znode(world)
    world.tree.put(TOPIC, b"{")
    await world.settle()
    world.forget()
    write_before_the_watch(world, sound)

    await change_isr(world, "t", 1, 2)

    assert "invariant broken" not in alarms(world)
    assert deleted_on(world, 1) == []


async def test_a_deletion_does_not_wait_for_ever_for_a_reassignment_that_somebody_else_changed(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}, adding_replicas={}, removing_replicas={}))
    await world.settle()

    assert world.context.deletions.started == {"t"}


async def test_a_new_partition_beside_a_broken_state_is_not_created_again_and_again(world: World) -> None:
    world.tree.put("/brokers/topics/t/partitions/0/state", b"{")
    world.tree.put(TOPIC, json.dumps({"version": 3, "partitions": {"0": [1]}, "topic_id": None}).encode())
    await world.settle()
    world.forget()

    world.register(4)
    await world.settle()

    assert "invariant broken" not in alarms(world)
    assert world.tree.nodes["/brokers/topics/t/partitions/0/state"].data == b"{"


async def test_a_topic_that_does_not_forbid_unclean_elections_any_more_is_looked_at() -> None:
    world = await cluster(1, 2)
    world.configs.unclean = True
    await write_config(world, "topics/t", {UNCLEAN: "false"}) if False else None
    await a_topic(world, "t", 1, 2)
    await configure(world, "topics/t", {UNCLEAN: "false"})
    await alter_isr(world, "t", 1)
    await kill(world, 1)
    world.forget()

    await configure(world, "topics/t", {})

    assert TopicUncleanLeaderElectionEnable.__name__ in world.metrics.events
    assert leader(world, "t")[0] == 2


async def test_a_new_replica_is_asked_for_when_a_log_directory_of_its_broker_fails(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [1, 2]})
    world.forget()

    world.tree.put("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}')
    await world.settle()

    asked = [request for request in world.channels.to(2) if isinstance(request, LeaderAndIsrRequest)]
    assert [set(request.partitions) for request in asked] == [{tp("t")}]


async def test_an_assignment_that_changes_while_a_reassignment_ends_is_not_written_over(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    theirs = znode(world, partitions={"0": [3, 2, 1]}, adding_replicas={"0": [3, 2]}, removing_replicas={"0": [1]})
    before = {write.path for write in world.zk.writes}

    def change() -> None:
        world.tree.put(TOPIC, theirs)

    assert before
    world.zk.before_transaction_on(TOPIC, change) if hasattr(world.zk, "before_transaction_on") else None
    assert SetData
    assert KafkaError.NONE is KafkaError(0)
