"""Group G, reassignments: by znode and by request, with offline targets, cancelled, overridden, under faults."""

import json

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features
from controllerd.core.requests import LeaderAndIsrRequest
from controllerd.zk.access import SetData
from events.reassignments import ListPartitionReassignments
from tests.fakes.reassigning import (
    ask_by_znode,
    assigned,
    change_isr,
    deleted_on,
    deletions_answered,
    pending_deletions_of,
    reassign,
    requested,
)
from tests.fakes.world import World, tp


async def cluster(*brokers: int, features: Features | None = None) -> World:
    world = World(features=features)
    for broker in brokers:
        world.register(broker)
    return await world.start()


async def with_topic(world: World, *replicas: int, name: str = "t", partitions: int = 1) -> World:
    world.put_topic(name, dict.fromkeys(range(partitions), replicas))
    await world.settle()
    world.forget()
    return world


async def bounce(world: World, broker: int) -> None:
    world.bounce(broker)
    await world.settle()


async def under_way(world: World) -> int:
    found = await world.call(ListPartitionReassignments(None))
    return len(found)


async def test_g1_by_znode_the_other_leads_with_the_third_next_leader_epoch_and_the_znode_goes() -> None:
    world = await with_topic(await cluster(1, 2), 1)

    await ask_by_znode(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    assert world.state("t")[:3] == (2, 3, [2])
    assert assigned(world, "t") == ([2], [], [])
    assert requested(world) is None


async def test_g2_an_added_replica_is_marked_as_new_kafka_10314() -> None:
    world = await with_topic(await cluster(1, 2), 1)

    await reassign(world, {tp("t"): [2, 1]})

    sent = [request for request in world.channels.to(2) if isinstance(request, LeaderAndIsrRequest)]
    assert sent
    assert all(request.partitions[tp("t")].is_new for request in sent)
    assert not any(
        request.partitions[tp("t")].is_new
        for request in world.channels.to(1)
        if isinstance(request, LeaderAndIsrRequest)
    )


async def test_g2_an_added_replica_whose_log_directory_fails_is_waited_for() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})

    world.context.set_offline_dirs(BrokerId(2), frozenset({tp("t")}))
    await world.c.reassigner.complete_ready([tp("t")])

    assert world.state("t")[:3] == (1, 1, [1])
    assert await under_way(world) == 1


async def test_g3_with_the_target_offline_the_leader_stays_one_epoch_later_and_the_znode_stays_kafka_4214() -> None:
    world = await with_topic(await cluster(1), 1)

    await ask_by_znode(world, {tp("t"): [2]})

    assert world.state("t")[:3] == (1, 1, [1])
    assert assigned(world, "t") == ([2, 1], [2], [1])
    assert requested(world) == {"t-0": [2]}


async def test_g4_when_the_target_is_back_it_completes_with_the_fourth_next_leader_epoch() -> None:
    world = await with_topic(await cluster(1), 1)
    await ask_by_znode(world, {tp("t"): [2]})

    world.register(2)
    await world.settle()
    await change_isr(world, "t", 1, 2)

    assert world.state("t")[:3] == (2, 4, [2])
    assert assigned(world, "t") == ([2], [], [])
    assert requested(world) is None


def leader_writes(world: World, *isr: int, notify: bool) -> None:
    """Change the ISR in ZooKeeper, as a leader below 2.7-IV2 does, perhaps with a notification."""
    path = "/brokers/topics/t/partitions/0/state"
    node = world.tree.nodes[path]
    state = json.dumps({**json.loads(node.data or b""), "isr": list(isr)}).encode()
    watches = world.zk.on_watch
    if notify:  # the notification alone announces the change
        world.zk.on_watch = lambda _path, _fired: None
    world.tree.outsider(SetData(path, state, node.version))
    world.zk.on_watch = watches
    if notify:
        note = json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0}]}).encode()
        world.tree.put("/isr_change_notification/isr_change_0000000000", note)


@pytest.mark.parametrize("notify", [False, True])
async def test_g5_without_alter_partition_it_completes_by_the_watch_and_by_the_notification(notify: bool) -> None:
    world = await with_topic(await cluster(1, 2, features=Features(alter_partition=False)), 1)
    await ask_by_znode(world, {tp("t"): [2]})

    leader_writes(world, 1, 2, notify=notify)
    await world.settle()

    assert world.state("t")[:3] == (2, 3, [2])
    assert assigned(world, "t") == ([2], [], [])
    assert requested(world) is None


async def test_g5_in_a_mixed_cluster_it_completes_by_alter_partition_as_well() -> None:
    world = await with_topic(await cluster(1, 2, features=Features(alter_partition=False)), 1)
    await reassign(world, {tp("t"): [2]})

    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([2], [], [])
    assert world.state("t")[0] == 2


async def test_g6_a_cancellation_has_added_replicas_deleted_and_a_second_one_finds_nothing() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1, 2)
    await reassign(world, {tp("t"): [2, 3]})

    assert await reassign(world, {tp("t"): None}) == {tp("t"): KafkaError.NONE}

    assert deleted_on(world, 3) == ["t-0"]
    assert assigned(world, "t") == ([2, 1], [], [])
    assert await under_way(world) == 0
    assert await reassign(world, {tp("t"): None}) == {tp("t"): KafkaError.NO_REASSIGNMENT_IN_PROGRESS}


async def test_g7_an_added_replica_that_is_in_sync_leaves_the_isr_before_it_is_deleted() -> None:
    world = await with_topic(await cluster(1, 2, 3, 4), 1, 2)
    await reassign(world, {tp("t"): [3, 4]})
    await change_isr(world, "t", 1, 2, 3)
    world.forget()

    await reassign(world, {tp("t"): None})

    assert world.state("t")[:3] == (1, 3, [1, 2])
    stop, delete = [text for text in world.brief(3) if text.startswith("StopReplica")]
    assert (stop, delete) == ("StopReplica(t-0 1)", "StopReplica(t-0 2 delete)")


async def test_g8_an_override_keeps_the_origin_and_drops_what_is_not_needed_any_more() -> None:
    world = await with_topic(await cluster(1, 2, 3, 4), 1, 2)
    await reassign(world, {tp("t"): [2, 3]})

    await reassign(world, {tp("t"): [2, 4]})

    assert assigned(world, "t") == ([2, 4, 1], [4], [1])
    assert deleted_on(world, 3) == ["t-0"]
    assert deleted_on(world, 1) == deleted_on(world, 2) == deleted_on(world, 4) == []


async def led_by_an_added_replica() -> World:
    """Make a partition on its way from [1,2] to [3,4]; 3 leads, 1 is in sync."""
    world = await with_topic(await cluster(1, 2, 3, 4), 1, 2)
    await reassign(world, {tp("t"): [3, 4]})
    await change_isr(world, "t", 1, 3)
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    await change_isr(world, "t", 3, 1)
    assert world.state("t")[0] == 3
    world.zk.writes.clear()
    return world


@pytest.mark.parametrize(("wanted", "replicas"), [(None, [1, 2]), ([4, 2], [4, 2, 1])])
async def test_g9_an_override_never_leaves_a_partition_without_leader_kafka_14808(
    wanted: list[int] | None, replicas: list[int]
) -> None:
    world = await led_by_an_added_replica()

    assert await reassign(world, {tp("t"): wanted}) == {tp("t"): KafkaError.NONE}

    leaders = [json.loads(write.data or b"")["leader"] for write in world.zk.writes if write.path.endswith("/state")]
    assert set(leaders) == {1}
    assert assigned(world, "t")[0] == replicas


@pytest.mark.parametrize("wanted", [None, [4, 2]])
async def test_g9_a_target_without_replica_in_sync_is_refused_and_the_leader_goes_on_kafka_14808(
    wanted: list[int] | None,
) -> None:
    world = await led_by_an_added_replica()
    await change_isr(world, "t", 3)

    assert await reassign(world, {tp("t"): wanted}) == {tp("t"): KafkaError.INVALID_REPLICA_ASSIGNMENT}

    assert world.state("t")[0] == 3
    assert assigned(world, "t") == ([3, 4, 1, 2], [3, 4], [1, 2])


async def test_g10_a_topic_that_is_being_deleted_is_not_reassigned() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await with_topic(world, 1, name="kept")
    world.die(1)
    await world.settle()
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert "t" in world.context.queued_for_deletion

    answers = await reassign(world, {tp("t"): [2], tp("kept"): [2]})
    await ask_by_znode(world, {tp("t"): [2]})

    assert answers == {tp("t"): KafkaError.UNKNOWN_TOPIC_OR_PARTITION, tp("kept"): KafkaError.NONE}
    assert requested(world) is None


async def test_g10_a_deletion_waits_for_a_reassignment_and_goes_on_when_it_is_over() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert deleted_on(world, 1) == deleted_on(world, 2) == []

    await change_isr(world, "t", 1, 2)
    await deletions_answered(world)

    assert "/brokers/topics/t" not in world.tree.nodes
    assert "/admin/delete_topics/t" not in world.tree.nodes


async def test_g10_a_reassignment_that_holds_a_deletion_up_may_be_cancelled() -> None:
    """Kafka refuses that, so that a deletion waits for ever for a replica that does not catch up."""
    world = await with_topic(await cluster(1, 2), 1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert "/brokers/topics/t" in world.tree.nodes

    assert await reassign(world, {tp("t"): None}) == {tp("t"): KafkaError.NONE}
    await deletions_answered(world)

    assert "/brokers/topics/t" not in world.tree.nodes
    assert requested(world) is None


async def test_g11_throttles_and_moves_between_log_directories_are_no_concern_of_the_assignment() -> None:
    """Both are configurations and calls of brokers; a move neither reads nor writes the topic's configuration."""
    world = await with_topic(await cluster(1, 2), 1)
    throttle = b'{"version":1,"config":{"leader.replication.throttled.replicas":"0:1"}}'
    world.tree.put("/config/topics/t", throttle)

    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([2], [], [])
    assert world.tree.nodes["/config/topics/t"].data == throttle
    assert world.tree.nodes["/config/topics/t"].version == 0


async def test_g12_twenty_partitions_are_moved_while_half_of_the_brokers_bounce() -> None:
    world = await with_topic(await cluster(1, 2, 3, 4, 5, 6), 1, 2, 3, partitions=20)
    await reassign(world, {tp("t", number): [4, 5, 6] for number in range(20)})
    for broker in (2, 4, 6):
        await bounce(world, broker)

    for number in range(20):
        isr = world.state("t", number)[2]
        await change_isr(world, "t", *isr, *(broker for broker in (4, 5, 6) if broker not in isr), partitions=[number])
    await deletions_answered(world)

    assert {tuple(assigned(world, "t", number)[0]) for number in range(20)} == {(4, 5, 6)}
    assert {world.state("t", number)[0] for number in range(20)} <= {4, 5, 6}
    assert all(set(world.state("t", number)[2]) == {4, 5, 6} for number in range(20))
    assert [pending_deletions_of(world, broker) for broker in (1, 2, 3)] == [[], [], []]
    assert await under_way(world) == 0
