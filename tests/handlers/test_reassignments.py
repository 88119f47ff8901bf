"""Reassignments by znode and by request: refusals, progress, completion, and changes by other clients."""

import json

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features, ReplicaAssignment, TopicPartition
from controllerd.errors import CallFailed, NotController
from controllerd.record.records import AlarmRecord, ReassignmentRecord, RefusedRecord
from controllerd.zk.access import SetData
from events.cluster import Expire, RegisterBrokerAndReelect
from events.reassignments import (
    ApiPartitionReassignment,
    ListPartitionReassignments,
    PartitionReassignmentIsrChange,
    ReassignmentsMayComplete,
    ZkPartitionReassignment,
)
from events.replicas import AlterPartitionReceived, ProposedIsr
from events.topics import PartitionModifications
from tests.fakes.reassigning import (
    REASSIGN,
    ask_by_znode,
    assigned,
    change_isr,
    deleted_on,
    deletions_answered,
    pending_deletions_of,
    reassign,
    requested,
    successor,
)
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, topic_id_of, tp
from tests.handlers.test_faults import expire_before


async def with_topic(world: World, *replicas: int, partitions: int = 1) -> World:
    world.put_topic("t", dict.fromkeys(range(partitions), replicas))
    await world.settle()
    world.forget()
    return world


def steps(world: World) -> list[str]:
    return [record.step for record in world.audit.of(ReassignmentRecord)]


def reasons(world: World, what: str) -> dict[str, str]:
    return {
        f"{topic}-{partition}": reason
        for record in world.audit.of(RefusedRecord)
        if record.what == what
        for topic, partition, reason in zip(record.topics, record.partitions, record.reasons, strict=True)
    }


def alarms(world: World) -> list[str]:
    return [record.what for record in world.audit.of(AlarmRecord)]


# -- by request --------------------------------------------------------------------------------------------------------


async def test_a_request_is_answered_when_it_has_begun_and_completes_when_the_new_replica_is_in_sync(
    world: World,
) -> None:
    await with_topic(world, 1)

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.NONE}
    assert assigned(world, "t") == ([2, 1], [2], [1])

    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([2], [], [])
    assert world.state("t")[:3] == (2, 3, [2])
    assert steps(world) == ["begun", "completing", "completed"]


async def test_the_leader_has_its_answer_before_the_reassignment_continues(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.forget()

    await change_isr(world, "t", 1, 2)

    assert world.metrics.events[:2] == ["AlterPartitionReceived", "ReassignmentsMayComplete"]


async def test_a_repeated_isr_change_completes_what_the_first_one_left(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)
    world.put_topic("u", {0: [1]})
    await world.settle()
    world.forget()

    await change_isr(world, "t", 2)

    assert world.metrics.events == ["AlterPartitionReceived"]


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ([], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ([1, -1], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ([1, 9], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ([2_000_000_000], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (None, KafkaError.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
async def test_a_bad_request_is_refused_alone_and_the_others_begin(
    world: World, target: list[int] | None, error: KafkaError
) -> None:
    await with_topic(world, 1, partitions=2)

    answers = await reassign(world, {tp("t", 0): target, tp("t", 1): [2]})

    assert answers == {tp("t", 0): error, tp("t", 1): KafkaError.NONE}
    assert assigned(world, "t", 0) == ([1], [], [])
    assert assigned(world, "t", 1) == ([2, 1], [2], [1])
    assert list(reasons(world, "reassignment by request")) == ["t-0"]


async def test_a_broker_in_controlled_shutdown_is_not_live_for_a_request(world: World) -> None:
    await with_topic(world, 1)
    world.context.mark_shutting_down(ids(2)[0])

    assert await reassign(world, {tp("t"): [2]}) == {tp("t"): KafkaError.INVALID_REPLICA_ASSIGNMENT}


async def test_replicas_that_stay_need_not_be_live(world: World) -> None:
    await with_topic(world, 1, 3)
    world.die(3)
    await world.settle()

    assert await reassign(world, {tp("t"): [2, 3]}) == {tp("t"): KafkaError.NONE}


async def test_an_unknown_partition_does_not_exist(world: World) -> None:
    await with_topic(world, 1)

    answers = await reassign(world, {tp("t", 7): [2], tp("x"): [2], tp("y"): None})

    assert answers == {
        tp("t", 7): KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        tp("x"): KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        tp("y"): KafkaError.NO_REASSIGNMENT_IN_PROGRESS,
    }


async def test_a_request_overrules_the_znode_and_the_rest_of_it_stays_kafka_9089(world: World) -> None:
    await with_topic(world, 1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2], tp("t", 1): [2]})

    await reassign(world, {tp("t", 0): [3]})

    assert requested(world) == {"t-1": [2]}
    assert assigned(world, "t", 0) == ([3, 1], [3], [1])


async def test_a_standby_serves_nothing(world: World) -> None:
    standby = World()
    with pytest.raises(NotController):
        await standby.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(2)}))
    with pytest.raises(NotController):
        await standby.call(ListPartitionReassignments(None))


async def test_reassignments_that_are_under_way_are_listed(world: World) -> None:
    await with_topic(world, 1, partitions=2)
    await reassign(world, {tp("t", 1): [2]})

    under_way = {tp("t", 1): ReplicaAssignment(ids(2, 1), ids(2), ids(1))}
    assert await world.call(ListPartitionReassignments(None)) == under_way
    assert await world.call(ListPartitionReassignments(frozenset({tp("t", 0), tp("x")}))) == {}


# -- by znode ----------------------------------------------------------------------------------------------------------


async def test_input_21_an_unreadable_znode_is_left_alone_with_one_alarm_and_the_next_one_is_served(
    world: World,
) -> None:
    await with_topic(world, 1)
    world.tree.put(REASSIGN, b"{not json")
    await world.settle()
    await reassign(world, {tp("t"): [2]})

    assert world.tree.nodes[REASSIGN].data == b"{not json"
    assert alarms(world) == ["znode in quarantine"]
    assert REASSIGN in world.context.quarantine

    world.tree.remove(REASSIGN)
    await ask_by_znode(world, {tp("t"): [3]})

    assert assigned(world, "t") == ([3, 1], [3], [1])
    assert REASSIGN not in world.context.quarantine


async def test_input_22_bad_entries_are_refused_one_by_one_and_the_rest_proceeds_kafka_9478(world: World) -> None:
    world.put_topic("doomed", {0: [1]})
    await with_topic(world, 1, partitions=7)
    world.context.deletions.queue("doomed")
    bad = {tp("x"): [2], tp("doomed"): [2], tp("t", 0): [1], tp("t", 1): [], tp("t", 2): [2, 2], tp("t", 3): [-2]}

    await ask_by_znode(world, {**bad, tp("t", 4): [2_000_000_001], tp("t", 5): [2], tp("t", 6): [9]})

    assert requested(world) == {"t-5": [2], "t-6": [9]}
    assert reasons(world, "reassignment by znode") == {
        "x-0": "the partition does not exist",
        "doomed-0": "the topic is being deleted",
        "t-0": "nothing would change",
        "t-1": "Empty replica list specified in partition reassignment.",
        "t-2": "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(2, 2)",
        "t-3": "Invalid broker id in replica list: ArrayBuffer(-2)",
        "t-4": "controllerd itself has no replicas: ArrayBuffer(2000000001)",
    }
    assert assigned(world, "t", 5) == ([2, 1], [2], [1])
    assert assigned(world, "t", 6) == ([9, 1], [9], [1])


@pytest.mark.parametrize("entries", [{}, {tp("x"): [1]}])
async def test_a_znode_without_a_valid_entry_is_deleted_kafka_9478(
    world: World, entries: dict[TopicPartition, list[int]]
) -> None:
    await ask_by_znode(world, entries)

    assert requested(world) is None


async def test_each_entry_leaves_the_znode_when_it_is_done_and_the_last_one_deletes_the_znode_kafka_6193(
    world: World,
) -> None:
    await with_topic(world, 1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2], tp("t", 1): [2]})

    await change_isr(world, "t", 1, 2, partitions=[0])
    assert requested(world) == {"t-1": [2]}

    await change_isr(world, "t", 1, 2, partitions=[1])
    assert requested(world) is None


async def test_the_znode_being_announced_again_changes_nothing_of_what_is_under_way(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    before = world.state("t")

    world.queue.put(ZkPartitionReassignment())
    await world.settle()

    assert world.state("t") == before
    assert requested(world) == {"t-0": [2]}


async def test_a_changed_entry_overrides_the_reassignment_under_way_and_leaves_when_it_is_done_kafka_9478(
    world: World,
) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})

    await ask_by_znode(world, {tp("t"): [3]})
    assert assigned(world, "t") == ([3, 1], [3], [1])
    assert deleted_on(world, 2) == ["t-0"]

    await change_isr(world, "t", 1, 3)
    assert assigned(world, "t") == ([3], [], [])
    assert requested(world) is None


async def test_an_entry_that_is_added_to_the_znode_while_another_is_removed_is_kept(world: World) -> None:
    await with_topic(world, 1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2]})
    both = {
        "version": 1,
        "partitions": [
            {"topic": "t", "partition": 0, "replicas": [2]},
            {"topic": "t", "partition": 1, "replicas": [3]},
        ],
    }
    numbers_of_the_request_znode = [
        number
        for number, transaction in enumerate(await _transactions_of_completion(), start=1)
        if any(operation.path == REASSIGN for operation in transaction)
    ]
    at = len(world.zk.transactions) + numbers_of_the_request_znode[0]
    world.zk.before_transaction[at] = lambda: world.tree.put(REASSIGN, json.dumps(both).encode())

    await change_isr(world, "t", 1, 2, partitions=[0])

    assert requested(world) == {"t-1": [3]}


async def _transactions_of_completion() -> list[tuple[SetData, ...]]:
    """The transactions that complete a reassignment by znode, from a world of their own."""
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    await with_topic(await world.start(), 1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2]})
    before = len(world.zk.transactions)
    await change_isr(world, "t", 1, 2, partitions=[0])
    return list(world.zk.transactions[before:])  # type: ignore[arg-type]  # operations of any kind have a path


# -- progress ----------------------------------------------------------------------------------------------------------


async def test_partitions_that_caught_up_one_after_the_other_are_completed_together(world: World) -> None:
    await with_topic(world, 1, partitions=3)
    await reassign(world, {tp("t", partition): [2] for partition in range(3)})
    before = world.tree.nodes["/brokers/topics/t"].version
    for partition in range(3):
        state = world.state("t", partition)
        _queue_isr_change(world, partition, state)

    await world.settle()

    assert world.tree.nodes["/brokers/topics/t"].version == before + 1
    assert [assigned(world, "t", partition)[0] for partition in range(3)] == [[2], [2], [2]]


def _queue_isr_change(world: World, partition: int, state: tuple[int, int, list[int], int]) -> None:
    asked = {(topic_id_of("t"), partition): ProposedIsr(state[1], state[3], ids(1, 2))}
    epoch = world.tree.nodes["/brokers/ids/1"].czxid
    world.queue.put(AlterPartitionReceived(BrokerId(1), epoch, 3, {}, asked))


async def test_a_notification_of_an_isr_change_completes_where_leaders_write_isrs_themselves() -> None:
    world = await _old_cluster()
    await reassign(world, {tp("t"): [2]})
    _leader_writes(world, 1, 2)
    note = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
    world.tree.put("/isr_change_notification/isr_change_0000000001", json.dumps(note).encode())

    await world.settle()

    assert assigned(world, "t") == ([2], [], [])


async def test_the_watch_on_a_state_completes_where_leaders_write_isrs_themselves() -> None:
    world = await _old_cluster()
    await reassign(world, {tp("t"): [2]})
    world.forget()

    _leader_writes(world, 1, 2)
    await world.settle()

    assert "PartitionReassignmentIsrChange" in world.metrics.events
    assert assigned(world, "t") == ([2], [], [])
    assert world.state("t")[0] == 2


async def _old_cluster() -> World:
    world = World(features=Features(alter_partition=False))
    for broker in (1, 2, 3):
        world.register(broker)
    return await with_topic(await world.start(), 1)


def _leader_writes(world: World, *isr: int) -> None:
    path = "/brokers/topics/t/partitions/0/state"
    node = world.tree.nodes[path]
    state = {**json.loads(node.data or b""), "isr": list(isr)}
    world.tree.outsider(SetData(path, json.dumps(state).encode(), node.version))


async def test_events_about_partitions_that_are_not_being_reassigned_do_nothing(world: World) -> None:
    await with_topic(world, 1)

    world.queue.put(PartitionReassignmentIsrChange(tp("t")))
    world.queue.put(ReassignmentsMayComplete(frozenset({tp("t"), tp("x")})))
    await world.settle()

    assert world.zk.writes == []
    assert world.channels.sent == []


async def test_a_returned_broker_is_sent_its_new_replica_with_a_higher_leader_epoch(world: World) -> None:
    await with_topic(world, 1)
    world.die(2)
    await world.settle()
    await ask_by_znode(world, {tp("t"): [2]})
    assert world.state("t")[:3] == (1, 1, [1])

    world.register(2)
    await world.settle()

    assert world.state("t")[:3] == (1, 2, [1])
    assert "LeaderAndIsr(t-0 1/2 [1] new)" in world.brief(2)


async def test_the_next_controller_continues_reassignments_that_are_under_way(world: World) -> None:
    await with_topic(world, 1, partitions=2)
    await ask_by_znode(world, {tp("t", 0): [2]})
    await reassign(world, {tp("t", 1): [3]})

    after = await successor(world)

    assert after.state("t", 0)[1] == after.state("t", 1)[1] == 2
    await change_isr(after, "t", 1, 2, partitions=[0])
    await change_isr(after, "t", 1, 3, partitions=[1])
    assert assigned(after, "t", 0) == ([2], [], [])
    assert assigned(after, "t", 1) == ([3], [], [])
    assert requested(after) is None


async def test_a_controller_that_is_elected_again_keeps_no_state_of_its_earlier_term_kafka_5310(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    world.zk.expire()
    world.tree.remove(REASSIGN)
    _rewrite(world, "t", partitions={"0": [3]}, adding_replicas={}, removing_replicas={})
    _rewrite(world, "t/partitions/0/state", leader=3, isr=[3], leader_epoch=9)
    world.queue.clear_and_put(Expire(1))
    await world.settle()
    world.zk.reconnect_as(9)
    world.queue.put(RegisterBrokerAndReelect())
    await world.settle()

    assert world.c.is_active
    assert assigned(world, "t") == ([3], [], [])
    assert world.state("t")[:3] == (3, 9, [3])
    assert await world.call(ListPartitionReassignments(None)) == {}


async def test_a_reassignment_that_was_written_is_recorded_though_the_session_ends_right_after(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)
    assert pending_deletions_of(world, 1) == ["t-0"]
    world.forget()
    expire_before(world, 2)  # which clears the pending deletion of broker 1; the first one wrote the topic znode

    with pytest.raises((CallFailed, NotController)):
        await reassign(world, {tp("t"): [1]})

    assert assigned(world, "t") == ([1, 2], [1], [2])
    assert steps(world) == ["begun", "resumed"]


async def test_pending_reassignments_are_recorded_once_more_when_they_are_resumed(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})

    assert steps(await successor(world)) == ["resumed"]


# -- other writers --- -------------------------------------------------------------------------------------------------


def _rewrite(world: World, topic: str, **fields: object) -> None:
    path = f"/brokers/topics/{topic}"
    body = {**json.loads(world.tree.nodes[path].data or b""), **fields}
    world.tree.put(path, json.dumps(body).encode())


async def test_partitions_that_are_added_meanwhile_are_kept_and_started_history_58b(world: World) -> None:
    await with_topic(world, 1)
    at = len(world.zk.transactions) + 1
    world.zk.before_transaction[at] = lambda: _rewrite(world, "t", partitions={"0": [1], "1": [3]}, more={"a": 1})

    await reassign(world, {tp("t"): [2]})

    assert assigned(world, "t", 0) == ([2, 1], [2], [1])
    assert assigned(world, "t", 1) == ([3], [], [])
    assert world.state("t", 1)[:3] == (3, 0, [3])
    assert json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")["more"] == {"a": 1}


async def test_a_broker_that_overwrites_the_lists_of_a_reassignment_cancels_it_with_an_alarm_history_58b(
    world: World,
) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.forget()

    _rewrite(world, "t", partitions={"0": [1], "1": [1]}, adding_replicas={}, removing_replicas={})
    await world.settle()

    assert alarms(world) == ["assignment changed by somebody else"]
    assert assigned(world, "t", 0) == ([1], [], [])
    assert await world.call(ListPartitionReassignments(None)) == {}
    assert deleted_on(world, 2) == ["t-0"]
    assert world.state("t", 0)[:3] == (1, 2, [1])
    assert world.state("t", 1)[:3] == (1, 0, [1])


async def test_a_completion_never_deletes_what_the_topic_znode_still_assigns_history_58b(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    world.forget()
    _rewrite(world, "t", partitions={"0": [1]}, adding_replicas={}, removing_replicas={})
    stale = world.queue
    change = await stale.take()  # the change of the topic znode is handled only later

    await change_isr(world, "t", 1, 2)
    assert deleted_on(world, 1) == []

    stale.put(change.event)
    await world.settle()
    assert deleted_on(world, 1) == []
    assert assigned(world, "t") == ([1], [], [])
    assert world.state("t")[0] == 1


async def test_a_reassignment_that_an_operator_writes_into_the_topic_znode_is_carried_out_with_an_alarm(
    world: World,
) -> None:
    await with_topic(world, 1)

    _rewrite(world, "t", partitions={"0": [2, 1]}, adding_replicas={"0": [2]}, removing_replicas={"0": [1]})
    await world.settle()
    assert alarms(world) == ["assignment changed by somebody else"]
    await change_isr(world, "t", 1, 2)

    assert assigned(world, "t") == ([2], [], [])


async def test_a_replica_that_an_operator_removes_from_the_topic_znode_is_stopped_and_its_data_is_kept(
    world: World,
) -> None:
    await with_topic(world, 1, 2)

    _rewrite(world, "t", partitions={"0": [2]})
    await world.settle()

    assert world.state("t")[0] == 2
    assert world.state("t")[2] == [2]
    assert "StopReplica(t-0 0)" in world.brief(1)
    assert deleted_on(world, 1) == []
    assert pending_deletions_of(world, 1) == []


async def test_a_replica_that_an_operator_adds_to_the_topic_znode_is_started(world: World) -> None:
    await with_topic(world, 1)

    _rewrite(world, "t", partitions={"0": [1, 3]})
    await world.settle()

    assert "LeaderAndIsr(t-0 1/0 [1] new)" in world.brief(3)
    assert world.state("t")[:3] == (1, 1, [1])


async def test_an_assignment_in_the_topic_znode_without_any_isr_member_is_not_followed(world: World) -> None:
    await with_topic(world, 1)

    _rewrite(world, "t", partitions={"0": [2]})
    await world.settle()

    assert world.state("t")[:3] == (1, 0, [1])
    assert "/brokers/topics/t/partitions/0" in world.context.quarantine
    assert world.channels.to(1) == []


async def test_input_9_an_assignment_with_a_flaw_is_not_carried_on_and_not_changed(world: World) -> None:
    await with_topic(world, 1, partitions=2)
    flawed = {"partitions": {"0": [1], "1": [1]}, "adding_replicas": {"0": [3]}}
    _rewrite(world, "t", **flawed)
    await world.settle()

    answers = await reassign(world, {tp("t", 0): [2], tp("t", 1): [2]})

    assert answers == {tp("t", 0): KafkaError.UNKNOWN_SERVER_ERROR, tp("t", 1): KafkaError.NONE}
    assert assigned(world, "t", 0) == ([1], [3], [])
    assert assigned(world, "t", 1) == ([2, 1], [2], [1])


async def test_the_deletion_of_a_topic_ends_its_requested_reassignments_kafka_9478(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})

    world.tree.remove("/brokers/topics/t")
    await world.settle()

    assert requested(world) is None
    assert await world.call(ListPartitionReassignments(None)) == {}


async def test_a_reassignment_of_a_topic_is_not_applied_to_a_new_topic_of_that_name_kafka_9478(world: World) -> None:
    await with_topic(world, 1)
    await ask_by_znode(world, {tp("t"): [2]})
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.tree.remove("/brokers/topics/t")
    world.put_topic("t", {0: [1]})
    world.zk.on_watch = watches

    world.queue.put(PartitionModifications("t"))
    await world.settle()

    assert requested(world) is None
    assert assigned(world, "t") == ([1], [], [])
    assert await world.call(ListPartitionReassignments(None)) == {}


# -- pending deletions -------------------------------------------------------------------------------------------------


async def test_the_deletion_of_a_dead_brokers_replica_is_kept_and_sent_when_it_returns_history_58c(
    world: World,
) -> None:
    await with_topic(world, 1, 3)
    world.die(3)
    await world.settle()
    await reassign(world, {tp("t"): [1, 2]})
    await change_isr(world, "t", 1, 2)
    assert assigned(world, "t") == ([1, 2], [], [])
    assert pending_deletions_of(world, 3) == ["t-0"]
    world.forget()

    world.register(3)
    await world.settle()
    assert deleted_on(world, 3) == ["t-0"]

    await deletions_answered(world)
    assert pending_deletions_of(world, 3) == []


async def test_a_deletion_that_failed_stays_pending(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)

    await deletions_answered(world, KafkaError.KAFKA_STORAGE_ERROR)
    assert pending_deletions_of(world, 1) == ["t-0"]

    await deletions_answered(world)
    assert pending_deletions_of(world, 1) == []


async def test_a_pending_deletion_is_cleared_when_the_broker_gets_the_replica_again(world: World) -> None:
    await with_topic(world, 1)
    await reassign(world, {tp("t"): [2]})
    await change_isr(world, "t", 1, 2)
    assert pending_deletions_of(world, 1) == ["t-0"]

    await reassign(world, {tp("t"): [1]})

    assert pending_deletions_of(world, 1) == []
