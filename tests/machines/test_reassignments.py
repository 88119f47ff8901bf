"""The steps of reassignments: their order, their waits, and the number of their writes and requests."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import OUR_IDS, BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.core.requests import StopReplicaRequest, api_name
from controllerd.record.records import AlarmRecord, DecisionRecord, ReassignmentRecord, RefusedRecord
from controllerd.zk.access import CheckVersion
from tests.fakes.reassigning import assigned, change_isr, deleted_on, pending_deletions_of, reassign
from tests.fakes.world import World, ids, tp


async def cluster(*brokers: int) -> World:
    world = World()
    for broker in brokers:
        world.register(broker)
    await world.start()
    world.forget()
    return world


async def with_topic(world: World, *replicas: int, name: str = "t", partitions: int = 1) -> World:
    world.put_topic(name, dict.fromkeys(range(partitions), replicas))
    await world.settle()
    world.forget()
    return world


def writes(world: World) -> list[str]:
    """The paths that were written, without pending deletions."""
    return [write.path.removeprefix("/brokers/topics/") for write in world.zk.writes if "owed" not in write.path]


def grow(world: World, partition: int, *isr: int) -> None:
    """Write the leader's ISR to ZooKeeper and to the context; the event that follows is still missing."""
    record = world.context.record(tp("t", partition))
    assert record.leadership is not None
    path = record.tp.state_path
    state = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps({**state, "isr": list(isr)}).encode())
    known = record.leadership._replace(isr=ids(*isr), partition_epoch=world.tree.nodes[path].version)
    world.context.set_leadership(record.tp, known)


async def led_by_an_added_replica() -> World:
    """A reassignment of [1, 2] to [3, 4]: 3 leads, 1 is in sync again, 2 is not (KAFKA-14808)."""
    world = await with_topic(await cluster(1, 2, 3, 4), 1, 2)
    await reassign(world, {tp("t"): [3, 4]})
    await change_isr(world, "t", 1, 3)
    world.die(1)
    await world.settle()
    world.register(1)
    await world.settle()
    await change_isr(world, "t", 3, 1)
    assert world.state("t")[0] == 3
    world.forget()
    return world


# -- order -------------------------------------------------------------------------------------------------------------


async def test_the_topic_znode_gets_new_replicas_first_and_drops_old_ones_last_kafka_9672() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    state = "t/partitions/0/state"
    assert [path for path in writes(world) if not path.startswith("/")] == ["t", state, state, state, state, "t"]


async def test_a_replica_has_left_the_isr_before_it_is_sent_its_deletion() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    world.forget()
    await change_isr(world, "t", 1, 2)

    (last,) = [
        request.partitions[tp("t")].leader_epoch
        for request in world.channels.to(1)
        if isinstance(request, StopReplicaRequest) and request.partitions[tp("t")].delete
    ]
    assert last == world.state("t")[1] == 3


async def test_a_removed_replica_does_not_come_back_into_the_isr_kafka_1097_kafka_1170() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    reply = await change_isr(world, "t", 2, 1)

    assert reply.partitions == {tp("t"): KafkaError.INVALID_REQUEST}
    assert world.state("t")[2] == [2]


async def test_brokers_are_sent_the_leader_epochs_that_were_written_kafka_9212() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    updates = [text for text in world.brief(3) if text.startswith("UpdateMetadata(t-0")]
    assert [text.split()[1] for text in updates] == ["1/1", "1/1", "1/1", "2/2", "2/3", "2/3"]


async def test_the_pending_deletion_is_written_before_the_topic_znode_drops_the_replica() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    world.forget()
    await change_isr(world, "t", 1, 2)

    paths = [write.path for write in world.zk.writes]
    assert paths.index("/controllerd/owed_deletions/1") < paths.index("/brokers/topics/t")
    assert pending_deletions_of(world, 1) == ["t-0"]


async def test_a_reassignment_that_only_removes_a_replica_completes_at_once() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1, 2, 3)

    await reassign(world, {tp("t"): [2, 3]})

    assert assigned(world, "t") == ([2, 3], [], [])
    assert world.state("t")[:3] == (2, 2, [2, 3])
    assert deleted_on(world, 1) == ["t-0"]


# -- cancellations and overrides ---------------------------------------------------------------------------------------


async def test_a_cancellation_that_drops_the_leader_elects_another_in_the_same_write_kafka_14808() -> None:
    world = await led_by_an_added_replica()
    world.zk.writes.clear()

    assert await reassign(world, {tp("t"): None}) == {tp("t"): KafkaError.NONE}

    states = [json.loads(write.data or b"") for write in world.zk.writes if write.path.endswith("/state")]
    assert [(state["leader"], state["leader_epoch"], state["isr"]) for state in states] == [(1, 3, [1]), (1, 4, [1])]
    assert world.context.partition_state(tp("t")) is PartitionState.ONLINE
    assert [record.strategy for record in world.audit.of(DecisionRecord)] == ["HandOver"]


async def test_an_override_that_drops_the_leader_elects_another_and_continues_kafka_14808() -> None:
    world = await led_by_an_added_replica()

    assert await reassign(world, {tp("t"): [4, 2]}) == {tp("t"): KafkaError.NONE}

    assert assigned(world, "t") == ([4, 2, 1], [4], [1])
    assert world.state("t")[0] == 1
    assert deleted_on(world, 3) == ["t-0"]


@pytest.mark.parametrize("target", [None, [4, 2]])
async def test_the_only_isr_member_is_not_dropped_kafka_14808(target: Sequence[int] | None) -> None:
    world = await led_by_an_added_replica()
    await change_isr(world, "t", 3)
    before = assigned(world, "t")

    assert await reassign(world, {tp("t"): target}) == {tp("t"): KafkaError.INVALID_REPLICA_ASSIGNMENT}

    assert assigned(world, "t") == before
    assert world.state("t")[0] == 3
    assert pending_deletions_of(world, 3) == []
    (refused,) = [record for record in world.audit.of(RefusedRecord) if record.what == "reassignment"]
    assert refused.reasons == ["no in-sync replica would remain: the ISR is [3]"]


async def test_several_dropped_replicas_leave_the_isr_one_after_the_other() -> None:
    world = await with_topic(await cluster(1, 2, 3, 4, 5), 1)
    await reassign(world, {tp("t"): [3, 4, 5]})
    await change_isr(world, "t", 1, 3, 4)
    world.forget()

    await reassign(world, {tp("t"): None})

    assert world.state("t")[:3] == (1, 4, [1])
    stops = [next(text for text in world.brief(broker) if text.startswith("Stop")) for broker in (3, 4, 5)]
    assert stops == [f"StopReplica(t-0 {epoch})" for epoch in (1, 2, 3)]
    assert deleted_on(world, 3) == deleted_on(world, 4) == deleted_on(world, 5) == ["t-0"]


# -- waiting -----------------------------------------------------------------------------------------------------------


async def test_a_reassignment_waits_for_a_target_that_shuts_down_while_another_leads() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    world.context.mark_shutting_down(ids(2)[0])
    grow(world, 0, 1, 2)

    await world.c.reassigner.complete_ready([tp("t")])
    assert world.state("t")[0] == 1
    assert assigned(world, "t") == ([2, 1], [2], [1])

    world.die(2)
    await world.settle()
    world.register(2)
    await world.settle()
    await change_isr(world, "t", 1, 2)
    assert assigned(world, "t") == ([2], [], [])
    assert world.state("t")[0] == 2


async def test_an_unreadable_state_holds_back_its_own_partition_alone() -> None:
    world = await with_topic(await cluster(1, 2), 1, partitions=2)
    await reassign(world, {tp("t", 0): [2], tp("t", 1): [2]})
    for partition in (0, 1):
        grow(world, partition, 1, 2)
    world.context.put_in_quarantine(tp("t", 0).state_path, "not JSON")

    await world.c.reassigner.complete_ready([tp("t", 0), tp("t", 1)])

    assert assigned(world, "t", 0) == ([2, 1], [2], [1])
    assert assigned(world, "t", 1) == ([2], [], [])
    assert world.context.assignment(tp("t", 0)).is_being_reassigned
    assert deleted_on(world, 1) == ["t-1"]


async def test_a_reassignment_waits_for_a_target_that_leaves_the_isr_and_deletes_no_replica() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1)
    await reassign(world, {tp("t"): [2, 3]})
    grow(world, 0, 1, 2, 3)
    path = tp("t").state_path
    state = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps({**state, "isr": [1, 2]}).encode())

    await world.c.reassigner.complete_ready([tp("t")])

    assert assigned(world, "t") == ([2, 3, 1], [2, 3], [1])
    assert world.state("t")[::2] == (2, [1, 2])
    assert deleted_on(world, 1) == []
    assert world.brief(2)[-2].startswith("LeaderAndIsr(t-0 2/3 [1, 2]")
    await change_isr(world, "t", 1, 2, 3)
    assert assigned(world, "t") == ([2, 3], [], [])


async def test_a_partition_that_was_never_started_starts_on_its_new_replicas() -> None:
    world = await cluster(1, 2)
    world.put_topic("t", {0: [8, 9]})
    await world.settle()

    await reassign(world, {tp("t"): [2, 1]})

    assert assigned(world, "t") == ([2, 1], [], [])
    assert world.state("t")[0] == 2
    assert pending_deletions_of(world, 8) == pending_deletions_of(world, 9) == ["t-0"]


async def test_a_partition_that_waits_to_replace_controllerd_starts_on_the_replica_that_it_keeps() -> None:
    """The reassignment adds no replica, but the replica that stays must start."""
    world = await cluster(1)
    world.put_topic("t", {0: [8, OUR_IDS[0], 1]})
    await world.settle()
    assert "/brokers/topics/t/partitions/0/state" not in world.tree.nodes

    await reassign(world, {tp("t"): [1]})

    assert assigned(world, "t") == ([1], [], [])
    assert world.state("t")[0] == 1
    assert world.context.record(tp("t")).replica_states[BrokerId(1)] is ReplicaState.ONLINE
    assert pending_deletions_of(world, 8) == ["t-0"]
    assert pending_deletions_of(world, OUR_IDS[0]) == []


async def test_a_topic_that_is_removed_during_the_request_ends_its_reassignment() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    at = len(world.zk.transactions) + 1
    world.zk.before_transaction[at] = lambda: world.tree.remove("/brokers/topics/t")

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.UNKNOWN_TOPIC_OR_PARTITION}

    assert "/brokers/topics/t" not in world.tree.nodes
    assert pending_deletions_of(world, 1) == []


async def test_a_reassignment_of_a_topic_that_was_created_anew_is_refused() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.tree.remove("/brokers/topics/t")
    world.put_topic("t", {0: [1]})
    world.zk.on_watch = watches

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
    assert assigned(world, "t") == ([1], [], [])


async def test_a_topic_znode_of_a_newer_format_is_not_rewritten() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    body = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    world.tree.put("/brokers/topics/t", json.dumps({**body, "version": 4}).encode())
    await world.settle()

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
    assert pending_deletions_of(world, 1) == []


def before_last_write_of_the_topic(world: World, action: Callable[[], None]) -> None:
    """Call a function right before the topic znode drops the old replicas: the fourth write of a completion."""
    world.zk.before_transaction[len(world.zk.transactions) + 5] = action


async def test_partitions_that_are_added_before_the_last_write_are_kept_history_58b() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    more = {"partitions": {"0": [2, 1], "1": [1]}, "adding_replicas": {"0": [2]}, "removing_replicas": {"0": [1]}}
    body = {**json.loads(world.tree.nodes["/brokers/topics/t"].data or b""), **more}
    before_last_write_of_the_topic(world, lambda: world.tree.put("/brokers/topics/t", json.dumps(body).encode()))

    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t", 0) == ([2], [], [])
    assert assigned(world, "t", 1) == ([1], [], [])
    assert world.state("t", 1)[:3] == (1, 0, [1])


async def test_a_topic_znode_that_refuses_its_last_write_raises_an_alarm_and_the_reassignment_stays() -> None:
    world = await with_topic(await cluster(1, 2), 1)
    await reassign(world, {tp("t"): [2]})
    newer = {**json.loads(world.tree.nodes["/brokers/topics/t"].data or b""), "version": 4}
    before_last_write_of_the_topic(world, lambda: world.tree.put("/brokers/topics/t", json.dumps(newer).encode()))

    await change_isr(world, "t", 1, 2)

    assert world.state("t")[:3] == (2, 3, [2])
    assert assigned(world, "t") == ([2, 1], [2], [1])
    assert world.context.assignment(tp("t")).is_being_reassigned
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["topic znode was not written"]


# -- steps whose writes fail -------------------------------------------------------------------------------------------


async def led_by_a_target_that_shuts_down() -> World:
    """A reassignment of [1] to [2, 3]; all are in sync, and 2 leads, but is not online any more."""
    world = await with_topic(await cluster(1, 2, 3), 1)
    await reassign(world, {tp("t"): [2, 3]})
    grow(world, 0, 1, 2, 3)
    lead(world, 2)
    world.context.mark_shutting_down(BrokerId(2))
    world.forget()
    return world


def lead(world: World, leader: int, *, is_known: bool = True) -> None:
    """Write another leader to ZooKeeper, and to the context if ``is_known``."""
    record = world.context.record(tp("t"))
    path = record.tp.state_path
    state = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps({**state, "leader": leader}).encode())
    if is_known:
        assert record.leadership is not None
        version = world.tree.nodes[path].version
        known = record.leadership._replace(leader=BrokerId(leader), partition_epoch=version)
        world.context.set_leadership(record.tp, known)


def assert_no_replica_is_removed(world: World) -> None:
    """Every broker still has its replica, and was sent no StopReplica."""
    assert assigned(world, "t") == ([2, 3, 1], [2, 3], [1])
    assert world.context.assignment(tp("t")).is_being_reassigned
    assert not any(text.startswith("StopReplica") for text in world.brief(1))
    assert pending_deletions_of(world, 1) == []


async def test_a_leader_of_the_target_that_is_not_online_is_replaced_by_another_of_the_target() -> None:
    world = await led_by_a_target_that_shuts_down()

    await world.c.reassigner.complete_ready([tp("t")])

    assert world.state("t")[0] == 3
    assert assigned(world, "t") == ([2, 3], [], [])


async def test_no_replica_is_removed_while_a_leader_that_is_not_online_cannot_be_replaced() -> None:
    world = await led_by_a_target_that_shuts_down()
    world.zk.read_only.add(tp("t").state_path)

    await world.c.reassigner.complete_ready([tp("t")])

    assert_no_replica_is_removed(world)


async def test_no_replica_is_removed_when_a_reread_state_has_no_online_leader() -> None:
    """After a lost write, the leader epoch rises on the state that is read, with the leader of that state."""
    world = await with_topic(await cluster(1, 2, 3), 1)
    await reassign(world, {tp("t"): [2, 3]})
    grow(world, 0, 1, 2, 3)
    lead(world, 2)
    lead(world, -1, is_known=False)
    world.forget()

    await world.c.reassigner.complete_ready([tp("t")])

    assert_no_replica_is_removed(world)


async def test_no_request_is_sent_for_a_partition_whose_state_is_in_quarantine() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1, 3)
    await reassign(world, {tp("t"): [3, 2]})
    grow(world, 0, 1, 2, 3)
    lead(world, 3)
    world.context.put_in_quarantine(tp("t").state_path, "not JSON")
    world.forget()

    await world.c.reassigner.complete_ready([tp("t")])

    assert world.channels.sent == []
    assert world.zk.writes == []
    assert world.audit.of(ReassignmentRecord) == []


# -- states that an earlier term left ----------------------------------------------------------------------------------


async def test_an_unassigned_isr_member_is_removed_at_the_next_failover() -> None:
    world = await with_topic(await cluster(1, 2, 3), 1, 2)
    path = "/brokers/topics/t/partitions/0/state"
    state = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps({**state, "isr": [1, 2, 3]}).encode())

    world.zk.expire()
    after = await World(tree=world.tree, session_id=2).start()

    assert after.state("t")[:3] == (1, 1, [1, 2])
    assert "StopReplica(t-0 0)" in after.brief(3)
    assert "LeaderAndIsr(t-0 1/1 [1, 2])" in after.brief(2)


# -- writes and requests -----------------------------------------------------------------------------------------------


def cost(world: World) -> tuple[int, int, int]:
    """Transactions, operations and requests so far."""
    operations = sum(
        1
        for transaction in world.zk.transactions
        for operation in transaction
        if not isinstance(operation, CheckVersion)
    )
    return len(world.zk.transactions), operations, len(world.channels.sent)


async def cost_of_moving(topics: Mapping[str, int]) -> tuple[tuple[int, int, int], World]:
    """The cost of moving all partitions of these topics from broker 1 to broker 2."""
    world = await cluster(1, 2, 3)
    for name, partitions in topics.items():
        world.put_topic(name, dict.fromkeys(range(partitions), (1,)))
    await world.settle()
    world.forget()
    moved = [TopicPartition(name, number) for name, partitions in topics.items() for number in range(partitions)]
    await reassign(world, dict.fromkeys(moved, (2,)))
    for name, partitions in topics.items():
        await change_isr(world, name, 1, 2, partitions=range(partitions))
    return cost(world), world


@pytest.mark.parametrize("topics", [{"t": 1_000}, {f"t{number}": 100 for number in range(10)}])
async def test_moving_a_thousand_partitions_takes_few_transactions_and_few_requests(topics: Mapping[str, int]) -> None:
    (transactions, operations, requests), world = await cost_of_moving(topics)

    assert operations <= 4 * 1_000 + 40 * len(topics)
    assert transactions <= 8 + 12 * len(topics)
    assert requests <= 10 + 20 * len(topics)
    for name in topics:
        assert assigned(world, name, 99) == ([2], [], [])
    assert Counter(record.step for record in world.audit.of(ReassignmentRecord))["completed"] == len(topics)


async def test_the_number_of_requests_does_not_grow_with_the_partitions() -> None:
    (_, _, few), small = await cost_of_moving({"t": 10})
    (_, _, many), large = await cost_of_moving({"t": 1_000})

    assert many == few
    assert Counter(api_name(request) for _, request in small.channels.sent) == Counter(
        api_name(request) for _, request in large.channels.sent
    )


async def test_the_topic_znode_is_written_once_for_the_beginning_and_once_for_the_end() -> None:
    _, world = await cost_of_moving({"t": 1_000})

    assert sum(write.path == "/brokers/topics/t" for write in world.zk.writes) == 2
