"""Reassignments of topics whose znodes another client breaks, changes or repairs: no replica is lost, nothing waits."""

import json
from collections.abc import Callable

from controllerd.core.requests import LeaderAndIsrRequest
from controllerd.record.records import AlarmRecord
from tests.fakes.reassigning import assigned, change_isr, deleted_on, reassign
from tests.fakes.world import World, tp

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
    """Another client writes the topic znode, and the watch of the controller has not fired yet."""
    fired, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.tree.put(TOPIC, data)
    world.zk.on_watch = fired


async def act_at_the_end(world: World, act: Callable[[], None]) -> None:
    """Act just before the topic znode is written at the end of the reassignment. A first run finds its number."""
    first_run = World()
    for broker in (1, 2, 3):
        first_run.register(broker)
    await with_topic(await first_run.start(), 1)
    await reassign(first_run, {tp("t"): [2]})
    begun = len(first_run.zk.transactions)
    await change_isr(first_run, "t", 1, 2)
    steps = enumerate(first_run.zk.transactions[begun:], 1)
    (last,) = [number for number, step in steps if any(operation.path == TOPIC for operation in step)]
    world.zk.before_transaction[len(world.zk.transactions) + last] = act


async def test_no_replica_is_deleted_for_a_reassignment_whose_entry_cannot_be_understood(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}))
    await world.settle()
    world.forget()

    await change_isr(world, "t", 1, 2)

    assert deleted_on(world, 1) == []
    assert world.state("t")[2] == [1, 2]
    assert "invariant broken" not in alarms(world)


async def test_no_replica_is_deleted_for_a_reassignment_whose_entry_is_gone(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put(TOPIC, znode(world, partitions={}, adding_replicas={}, removing_replicas={}))
    await world.settle()
    world.forget()

    await change_isr(world, "t", 1, 2)

    assert deleted_on(world, 1) == []
    assert "invariant broken" not in alarms(world)


async def test_a_reassignment_that_caught_up_beside_a_broken_topic_znode_completes_when_the_znode_is_repaired(
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


async def test_a_reassignment_that_caught_up_beside_a_bad_entry_completes_when_the_entry_is_repaired(
    world: World,
) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    sound = znode(world)
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}))
    await world.settle()
    await change_isr(world, "t", 1, 2)

    world.tree.put(TOPIC, sound)
    await world.settle()

    assert assigned(world, "t") == ([2], [], [])


async def test_a_topic_that_was_repaired_and_not_read_yet_is_left_alone(world: World) -> None:
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


async def test_a_deletion_does_not_wait_for_ever_for_a_reassignment_that_another_client_changed(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    world.tree.put(TOPIC, znode(world, partitions={"0": [1]}, adding_replicas={}, removing_replicas={}))
    await world.settle()

    assert world.context.deletions.started == {"t"}


async def test_a_deletion_does_not_wait_for_a_reassignment_that_was_changed_into_one_without_isr_members(
    world: World,
) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert world.context.deletions.started == set()

    world.tree.put(TOPIC, znode(world, partitions={"0": [3]}, adding_replicas={}, removing_replicas={}))
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


async def test_a_new_replica_is_sent_again_when_a_log_directory_of_its_broker_fails(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [1, 2]})
    world.forget()

    world.tree.put("/log_dir_event_notification/log_dir_event_0000000000", b'{"version":1,"broker":2,"event":1}')
    await world.settle()

    asked = [request for request in world.channels.to(2) if isinstance(request, LeaderAndIsrRequest)]
    assert [set(request.partitions) for request in asked] == [{tp("t")}]


async def test_an_entry_that_another_client_changes_while_its_reassignment_ends_is_not_overwritten(
    world: World,
) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    theirs = znode(world, partitions={"0": [3, 2, 1]}, adding_replicas={"0": [3, 2]}, removing_replicas={"0": [1]})
    await act_at_the_end(world, lambda: world.tree.put(TOPIC, theirs))

    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([3, 2, 1], [3, 2], [1])
    assert world.context.assignment(tp("t")).adding == (3, 2)
    assert "invariant broken" not in alarms(world)


async def test_a_partition_that_another_client_adds_while_a_reassignment_ends_stays(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    replicas = {"0": [2, 1], "1": [3]}
    await act_at_the_end(world, lambda: world.tree.put(TOPIC, znode(world, partitions=replicas)))

    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([2], [], [])
    assert assigned(world, "t", 1) == ([3], [], [])
