"""Group H: topics are deleted, over brokers that carry out the requests about their replicas."""

import json
from collections.abc import Mapping, Sequence

import pytest

from controllerd.core.cluster_settings import Policy
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaState
from controllerd.record.records import AlarmRecord, RefusedRecord
from controllerd.zk.access import Create
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.disks import Disks, successor
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, offline_partitions, topic_id_of, tp
from tests.scenarios.worlds import served
from wire.versions import ApiKey

CONFIG = b'{"version":1,"config":{}}'
NOTHING: set[object] = set()


async def cluster(*brokers: int, policy: Policy | None = None) -> Disks:
    """Make these brokers live, with a controller that leads."""
    disks = Disks(World(policy=policy))
    for broker in brokers:
        disks.world.register(broker)
    return await _settled(disks, start=True)


async def _settled(disks: Disks, *, start: bool = False) -> Disks:
    await (disks.start() if start else disks.settle())
    return disks


async def with_topic(disks: Disks, *replicas: int, name: str = "t", partitions: int = 1) -> Disks:
    """Create an online topic, with a configuration."""
    disks.world.put_topic(name, dict.fromkeys(range(partitions), replicas))
    disks.world.tree.put(f"/config/topics/{name}", CONFIG)
    await disks.settle()
    disks.forget()
    return disks


def delete(world: World, *topics: str) -> None:
    """Request a deletion, as tools do."""
    world.tree.outsider(*(Create(f"/admin/delete_topics/{topic}", None) for topic in topics))


def left_over(world: World, topic: str = "t") -> list[str]:
    """The znodes of a topic."""
    roots = (f"/brokers/topics/{topic}", f"/config/topics/{topic}", f"/admin/delete_topics/{topic}")
    return [path for path in world.tree.nodes if path.startswith(roots)]


async def failover(before: Disks, **options: object) -> Disks:
    """Stop the controller, and let the next one lead."""
    after = successor(before, before.world.zk.session_id + 1, **options)
    before.world.zk.expire()
    return await _settled(after, start=True)


def put(world: World, partitions: Mapping[str, Sequence[int]], name: str = "t", **lists: object) -> None:
    """Write a topic znode as a tool does."""
    body = {
        "version": 3,
        "topic_id": topic_id_of(name),
        "partitions": dict(partitions),
        "adding_replicas": {},
        "removing_replicas": {},
        **lists,
    }
    world.tree.put(f"/brokers/topics/{name}", json.dumps(body).encode())


# -- the usual way -----------------------------------------------------------------------------------------------------


async def test_h1_with_all_replicas_alive_nothing_is_left_in_zookeeper_or_on_disk() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3, partitions=3)
    delete(disks.world, "t")

    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}
    assert disks.world.context.topics == {}


async def test_h2_with_a_follower_down_the_topic_is_unknown_to_all_brokers_and_goes_when_it_is_back() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3)
    disks.world.die(3)
    await disks.settle()
    delete(disks.world, "t")
    await disks.settle()
    assert disks.metadata[1] == disks.metadata[2] == {}
    assert disks.world.snapshot.topics["t"].deletion is not None
    assert "/brokers/topics/t" in left_over(disks.world)

    disks.world.register(3)
    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}


@pytest.mark.parametrize("returns", ["before the next controller", "under it"])
async def test_h3_a_fail_over_in_the_middle_does_not_lose_the_deletion_kafka_1681(returns: str) -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3)
    disks.world.die(3)
    delete(disks.world, "t")
    await disks.settle()
    if returns == "before the next controller":
        disks.world.tree.sessions.clear()
        disks.world.register(3)
        disks.world.tree.sessions.append(disks.world.zk)
    after = await failover(disks)
    if returns == "under it":
        assert "/brokers/topics/t" in left_over(after.world)
        after.world.register(3)
        await after.settle()

    assert left_over(after.world) == []
    assert after.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}


@pytest.mark.parametrize("number", range(1, 7))
async def test_h3_a_controller_that_dies_at_any_of_its_writes_leaves_what_the_next_one_ends(number: int) -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3)
    disks.world.zk.after_transaction[number] = disks.world.zk.expire
    delete(disks.world, "t")
    await disks.settle()
    assert (disks.world.zk.is_lost, len(disks.world.zk.transactions)) == (True, number)
    after = successor(disks, 2)

    await after.start()

    assert left_over(after.world) == []
    assert after.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}


async def test_h4_a_topic_whose_brokers_are_all_dead_can_be_deleted_and_goes_when_they_return() -> None:
    disks = await with_topic(await cluster(1, 2), 1)
    disks.world.die(1)
    await disks.settle()
    assert offline_partitions(disks.world.context) == 1
    delete(disks.world, "t")
    await disks.settle()
    assert "/brokers/topics/t" in left_over(disks.world)

    disks.world.register(1)
    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs[1] == NOTHING


# -- partitions that come late -----------------------------------------------------------------------------------------


async def test_h5_partitions_that_are_added_to_a_topic_under_deletion_are_removed_again_kafka_6612() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.world.die(2)
    delete(disks.world, "t")
    await disks.settle()

    put(disks.world, {"0": [1, 2], "1": [1]})
    await disks.settle()
    assert json.loads(disks.world.tree.nodes["/brokers/topics/t"].data or b"")["partitions"] == {"0": [1, 2]}
    after = await failover(disks)
    after.world.register(2)
    await after.settle()

    assert left_over(after.world) == []
    assert after.logs == {1: NOTHING, 2: NOTHING}


async def test_h5_partitions_that_are_added_while_the_controller_dies_go_with_the_others_kafka_6612() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.world.die(2)
    delete(disks.world, "t")
    await disks.settle()
    after = successor(disks, 2)
    disks.world.zk.expire()
    put(disks.world, {"0": [1, 2], "1": [1], "2": [2]})
    await after.start()

    after.world.register(2)
    await after.settle()

    assert left_over(after.world) == []
    assert after.logs == {1: NOTHING, 2: NOTHING}


@pytest.mark.parametrize("first", ["add", "delete"])
async def test_h6_nothing_of_an_added_partition_survives_in_either_order(first: str) -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2)
    if first == "add":
        put(disks.world, {"0": [1, 2], "1": [2, 3]})
        delete(disks.world, "t")
    else:
        delete(disks.world, "t")
        put(disks.world, {"0": [1, 2], "1": [2, 3]})

    await disks.settle()

    assert left_over(disks.world) == []
    assert not any(disks.logs.values())
    assert not any(disks.metadata.values())


# -- again and again ---------------------------------------------------------------------------------------------------


async def test_h7_a_topic_that_is_created_anew_on_the_same_brokers_works_at_once() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    before = disks.world.context.topic_id("t")
    delete(disks.world, "t")
    await disks.settle()

    disks.world.put_topic("t", {0: [2, 1]}, topic_id=topic_id_of("the second t"))
    await disks.settle()

    assert disks.world.state("t") == (2, 0, [2, 1], 0)
    assert disks.world.context.topic_id("t") == topic_id_of("the second t") != before
    assert disks.logs == {1: {tp("t")}, 2: {tp("t")}}
    assert disks.metadata == {1: {tp("t"): 2}, 2: {tp("t"): 2}}
    assert not [record for record in disks.world.audit.records if isinstance(record, RefusedRecord)]


async def test_h7_a_topic_that_is_created_anew_before_the_next_event_is_a_new_one() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.world.zk.after_transaction[5] = lambda: disks.world.put_topic("t", {0: [2]}, topic_id=topic_id_of("second"))
    delete(disks.world, "t")

    await disks.settle()

    assert disks.world.state("t") == (2, 0, [2], 0)
    assert disks.logs == {1: NOTHING, 2: {tp("t")}}


async def test_h8_a_marker_of_an_unknown_topic_is_removed_kafka_3175() -> None:
    disks = await cluster(1)
    delete(disks.world, "x")

    await disks.settle()

    assert left_over(disks.world, "x") == []
    assert disks.world.c.is_active


async def test_h8_a_marker_of_an_unknown_topic_is_removed_by_the_next_controller_too() -> None:
    disks = await cluster(1)
    after = successor(disks, 2)
    disks.world.zk.expire()
    delete(disks.world, "x")

    await after.start()

    assert left_over(after.world, "x") == []


async def errors_of(disks: Disks, *topics: str, version: int = 6) -> dict[str, int]:
    """The errors of a DeleteTopics request, by topic."""
    rows = [{"name": topic, "topic_id": None} for topic in topics]
    async with served(disks.world) as client:
        answer = await client.ask(ApiKey.DELETE_TOPICS, version, topics=rows, topic_names=topics)
    return {row.name: row.error_code for row in answer.responses}


async def test_h8_a_request_to_delete_an_unknown_topic_is_refused_and_leaves_nothing() -> None:
    disks = await cluster(1)

    assert await errors_of(disks, "x") == {"x": KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
    assert left_over(disks.world, "x") == []


async def test_h9_a_second_request_by_call_is_refused_once_the_first_has_begun() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.silent = {2}

    assert await errors_of(disks, "t") == {"t": KafkaError.NONE}
    assert await errors_of(disks, "t") == {"t": KafkaError.UNKNOWN_TOPIC_OR_PARTITION}
    assert disks.world.context.queued_for_deletion == {"t"}


async def test_h9_a_second_request_while_the_first_is_served_changes_nothing() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.silent = {2}
    delete(disks.world, "t")
    await disks.settle()
    disks.forget()

    disks.world.tree.remove("/admin/delete_topics/t")
    delete(disks.world, "t")
    await disks.settle()

    assert disks.world.channels.sent == []
    assert disks.world.context.queued_for_deletion == {"t"}


async def test_h10_where_deletion_is_disabled_the_marker_goes_and_the_topic_stays_kafka_3175() -> None:
    disks = await with_topic(await cluster(1, 2, policy=Policy(delete_topic_enable=False)), 1, 2)
    delete(disks.world, "t", "unknown")

    await disks.settle()

    assert disks.world.tree.children("/admin/delete_topics") == []
    assert disks.world.state("t") == (1, 0, [1, 2], 0)
    assert disks.world.channels.sent == []
    assert disks.world.snapshot.topics["t"].deletion is None


@pytest.mark.parametrize(
    ("version", "error"), [(2, KafkaError.INVALID_REQUEST), (6, KafkaError.TOPIC_DELETION_DISABLED)]
)
async def test_h10_where_deletion_is_disabled_a_call_is_refused_and_leaves_no_marker(
    version: int, error: KafkaError
) -> None:
    disks = await with_topic(await cluster(1, 2, policy=Policy(delete_topic_enable=False)), 1, 2)

    assert await errors_of(disks, "t", version=version) == {"t": error}
    assert disks.world.tree.children("/admin/delete_topics") == []


async def test_h10_a_request_of_before_is_dropped_at_the_fail_over() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.silent = {2}
    delete(disks.world, "t")
    await disks.settle()

    after = await failover(disks, policy=Policy(delete_topic_enable=False))

    assert after.world.tree.children("/admin/delete_topics") == []
    assert after.world.context.queued_for_deletion == set()


# -- after a crash -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "gone",
    [
        ["/brokers/topics/t/partitions/0/state"],
        ["/brokers/topics/t/partitions/0"],
        ["/brokers/topics/t/partitions"],
        ["/brokers/topics/t"],
        ["/brokers/topics/t", "/config/topics/t"],
    ],
    ids=["state", "partition", "partitions", "topic", "topic and configuration"],
)
async def test_h11_a_half_deleted_topic_is_ended_by_the_next_controller_kafka_6650(gone: list[str]) -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2, partitions=2)
    after = successor(disks, 2)
    disks.world.zk.expire()
    delete(disks.world, "t")
    for path in gone:
        disks.world.tree.remove(path)

    await after.start()

    assert left_over(after.world) == []
    assert after.world.context.topics == {}


async def test_h11_states_that_vanish_under_the_controller_hold_nothing_up_kafka_6650() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2, partitions=2)
    disks.world.tree.remove("/brokers/topics/t/partitions/0/state")
    delete(disks.world, "t")

    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs == {1: NOTHING, 2: NOTHING}


async def test_h12_a_leader_that_still_changes_its_isr_is_answered_and_the_deletion_goes_on() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2)
    disks.silent = {2}
    delete(disks.world, "t")
    await disks.settle()
    state = disks.world.context.leadership(tp("t"))
    assert isinstance(state, LeaderAndIsr)
    change = ProposedIsr(0, 0, ids(1))

    reply = await disks.world.call(
        AlterPartitionReceived(BrokerId(1), disks.world.context.brokers[BrokerId(1)].epoch, 1, {tp("t"): change}, {})
    )
    disks.silent = set()
    disks.world.bounce(2)
    await disks.settle()

    assert isinstance(reply.partitions[tp("t")], KafkaError)
    assert left_over(disks.world) == []


# -- brokers and reasons -----------------------------------------------------------------------------------------------


async def test_h13_a_broker_that_dies_after_its_stop_replica_waits_alone_and_gets_it_again() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3)
    disks.silent = {2, 3}
    delete(disks.world, "t")
    await disks.settle()
    disks.world.die(3)
    await disks.settle()
    assert disks.world.context.record(tp("t")).replica_states[BrokerId(3)] is ReplicaState.DELETION_INELIGIBLE
    disks.silent = set()
    disks.world.bounce(2)
    await disks.settle()
    assert disks.logs == {1: NOTHING, 2: NOTHING, 3: {tp("t")}}

    disks.world.register(3)
    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs[3] == NOTHING


async def test_h14_only_what_is_to_be_deleted_is_held_up_at_a_fail_over() -> None:
    disks = await with_topic(await cluster(1, 2), 1, 2, name="doomed")
    await with_topic(disks, 1, 2, name="kept")
    disks.world.die(2)
    await disks.settle()
    after = successor(disks, 2)
    disks.world.zk.expire()
    delete(disks.world, "doomed")

    await after.start()

    assert after.world.context.deletions.halted.keys() == {"doomed"}
    assert after.world.context.queued_for_deletion == {"doomed"}


async def test_h15_topics_that_are_deleted_are_not_counted_as_offline() -> None:
    disks = await with_topic(await cluster(1, 2), 1, partitions=4)
    context, counts = disks.world.context, []
    disks.world.die(1)
    await disks.settle()
    counts.append(offline_partitions(context))
    delete(disks.world, "t")
    await disks.settle()
    counts.append(offline_partitions(context))
    disks.world.register(1)
    await disks.settle()
    counts.append(offline_partitions(context))

    assert counts == [4, 0, 0]


# -- while the topic is being reassigned -------------------------------------------------------------------------------


async def reassigning() -> Disks:
    """Start to move the topic t from 1, 2 to 2, 3; 3 has not caught up."""
    disks = await with_topic(await cluster(1, 2, 3), 1, 2)
    answers = await disks.world.call(ApiPartitionReassignment(ALICE, {tp("t"): ids(2, 3)}))
    await disks.settle()
    assert answers == {tp("t"): KafkaError.NONE}
    disks.forget()
    return disks


async def test_a_deletion_waits_for_the_reassignment_of_its_topic_and_then_goes_on_history_48() -> None:
    disks = await reassigning()
    delete(disks.world, "t")
    await disks.settle()
    assert disks.world.channels.sent == []
    state = disks.world.context.leadership(tp("t"))
    assert state is not None

    grown = ProposedIsr(state.leader_epoch, state.partition_epoch, ids(1, 2, 3))
    epoch = disks.world.context.brokers[BrokerId(1)].epoch
    await disks.world.call(AlterPartitionReceived(BrokerId(1), epoch, 1, {tp("t"): grown}, {}))
    await disks.settle()

    assert left_over(disks.world) == []
    assert disks.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}


async def test_a_reassignment_can_be_called_off_so_that_the_deletion_need_not_wait() -> None:
    disks = await reassigning()
    delete(disks.world, "t")
    await disks.settle()

    answers = await disks.world.call(ApiPartitionReassignment(ALICE, {tp("t"): None}))
    await disks.settle()

    assert answers == {tp("t"): KafkaError.NONE}
    assert left_over(disks.world) == []
    assert disks.logs == {1: NOTHING, 2: NOTHING, 3: NOTHING}


async def test_a_deletion_waits_for_the_last_of_several_reassignments() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, partitions=2)
    await disks.world.call(ApiPartitionReassignment(ALICE, {tp("t", 0): ids(2, 3), tp("t", 1): ids(2, 3)}))
    delete(disks.world, "t")
    await disks.settle()

    await disks.world.call(ApiPartitionReassignment(ALICE, {tp("t", 0): None}))
    await disks.settle()
    assert disks.world.context.deletions.halted == {"t": "waits for the reassignment of t-1"}
    await disks.world.call(ApiPartitionReassignment(ALICE, {tp("t", 1): None}))
    await disks.settle()

    assert left_over(disks.world) == []
    assert not any(disks.logs.values())


async def test_what_was_asked_for_by_znode_goes_with_a_topic_that_did_not_wait() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2)
    body = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 3]}]}
    disks.world.tree.put("/admin/reassign_partitions", json.dumps(body).encode())
    await disks.settle()
    delete(disks.world, "t")
    disks.world.die(3)
    await disks.settle()
    assert disks.world.context.deletions.started == {"t"}

    disks.world.register(3)
    await disks.settle()

    assert left_over(disks.world) == []
    assert "/admin/reassign_partitions" not in disks.world.tree.nodes
    disks.world.put_topic("t", {0: [1, 2]}, topic_id=topic_id_of("second"))
    await disks.settle()
    assert disks.world.state("t") == (1, 0, [1, 2], 0)
    assert disks.world.context.being_reassigned == set()


async def test_nothing_of_a_deletion_raises_an_alarm() -> None:
    disks = await with_topic(await cluster(1, 2, 3), 1, 2, 3)
    delete(disks.world, "t")

    await disks.settle()

    assert not [record for record in disks.world.audit.records if isinstance(record, AlarmRecord | RefusedRecord)]
