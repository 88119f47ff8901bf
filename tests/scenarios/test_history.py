"""Past failures of the whole controller (``scenarios.md`` section 3), tested by the property that prevents each."""

from collections.abc import Sequence

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.requests import LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest
from controllerd.zk.codecs import decode_state, decode_topic, encode_reassignments
from events.cluster import Resync
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, ProposedIsr
from handlers.checks import EVERY_S, LOOK_AGAIN_S
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, offline_partitions, tp
from tests.handlers.test_slices import Stretches
from tests.scenarios.inputs import STATE, TOPIC, alarms, cluster, data, goes_on, successor

REASSIGN = "/admin/reassign_partitions"
T0 = tp("t")


async def reassign(world: World, *target: int) -> None:
    """Request these replicas, as an admin client does."""
    answer = await world.call(ApiPartitionReassignment(ALICE, {T0: ids(*target)}))
    assert answer == {T0: KafkaError.NONE}


async def alter_isr(world: World, *isr: int) -> KafkaError | object:
    """Let the leader of t propose this ISR, with all epochs right; return the outcome."""
    state = world.context.record(T0).leadership
    assert state is not None
    ask = {T0: ProposedIsr(state.leader_epoch, state.partition_epoch, ids(*isr))}
    epoch = world.context.epochs()[state.leader]
    reply = await world.call(AlterPartitionReceived(state.leader, epoch, 1, ask, {}))
    return reply.partitions[T0]


def updates(world: World, broker: int) -> list[UpdateMetadataRequest]:
    """The UpdateMetadata requests to a broker."""
    return [request for request in world.channels.to(broker) if isinstance(request, UpdateMetadataRequest)]


def is_as_in_zookeeper(world: World) -> bool:
    """Whether the controller's context has every topic and partition as in its znodes."""
    for name, topic in world.context.topics.items():
        node = world.tree.nodes[f"/brokers/topics/{name}"]
        image = decode_topic(name, node.data, version=node.version, czxid=node.czxid)
        if dict(image.assignments) != {p: record.assignment for p, record in topic.partitions.items()}:
            return False
        for record in topic.partitions.values():
            state = world.tree.nodes.get(record.tp.state_path)
            if record.leadership != (decode_state(record.tp, state.data, state.version) if state else None):
                return False
    return set(world.context.topics) == set(world.tree.children("/brokers/topics") or ())


async def test_live_and_dead_brokers_come_from_one_read_kafka_3085() -> None:
    """A broker comes and another goes between two events: neither is missed, and none is counted as both."""
    world = await cluster()
    reads = world.zk.round_trips
    world.die(1)
    world.register(4)
    world.die(3)
    world.register(3)
    await world.settle()
    assert sorted(world.context.brokers) == [2, 3, 4]
    assert world.context.brokers[ids(3)[0]].epoch == world.tree.nodes["/brokers/ids/3"].czxid
    assert world.metrics.events.count("BrokerChange") == 1
    assert world.zk.round_trips - reads < 12
    await goes_on(world)


async def test_the_first_request_to_a_new_broker_has_everything_kafka_831() -> None:
    world = await cluster()
    world.register(4)
    await world.settle()
    first = world.channels.to(4)[0]
    assert isinstance(first, UpdateMetadataRequest)
    assert first.body.partitions.keys() == {T0, tp("other")}
    assert {broker.id for broker in first.body.live_brokers} >= {1, 2, 3, 4}


@pytest.mark.parametrize("topics", [10, 40])
async def test_brokers_that_know_the_cluster_get_only_the_changes_kafka_7537(topics: int) -> None:
    world = await cluster()
    for number in range(topics):
        world.put_topic(f"n{number}", {0: [1, 2]})
    await world.settle()
    world.forget()
    world.register(4)
    await world.settle()
    assert [len(request.body.partitions) for request in updates(world, 1)] == [0]

    world.forget()
    world.put_topic("late", {0: [1, 2]})
    await world.settle()
    assert [list(request.body.partitions) for request in updates(world, 1)] == [[tp("late")]]


async def test_nothing_of_an_earlier_term_is_left_in_the_next_kafka_849_and_kafka_1202() -> None:
    world = await cluster()
    world.zk.on_watch = lambda _path, _fired: None
    world.tree.put(STATE, b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":5,"isr":[2,1]}')
    world.tree.remove("/brokers/topics/other")
    world.tree.put("/controller_epoch", b"7")
    other = await successor(world)
    assert is_as_in_zookeeper(other)
    assert other.context.leadership(T0) == decode_state(T0, data(other, STATE), 1)
    assert tp("other") not in other.context


async def test_metadata_shows_the_leader_epochs_that_a_reassignment_has_just_written_kafka_9212() -> None:
    world = await cluster()
    await reassign(world, 3, 2)
    await alter_isr(world, 1, 2, 3)
    shown = [row.state.leader_epoch for request in updates(world, 2) for row in request.body.partitions.values()]
    assert shown == sorted(shown)
    assert shown[-1] == world.state("t")[1]
    assert is_as_in_zookeeper(world)


async def test_a_removed_replica_leaves_the_isr_before_the_topic_forgets_it_kafka_9672_and_kafka_6638() -> None:
    world = await cluster()
    await reassign(world, 3, 2)
    world.forget()
    await alter_isr(world, 1, 2, 3)
    written = [write.path for write in world.zk.writes]
    isrs = [decode_state(T0, write.data, write.version).isr for write in world.zk.writes if write.path == STATE]
    last_state = len(written) - 1 - written[::-1].index(STATE)
    assert isrs[-1] == ids(2, 3)
    assert last_state < written.index(TOPIC)


async def test_a_removed_replica_cannot_come_back_into_the_isr_kafka_1097_and_kafka_1170() -> None:
    """The leader gets the new replicas with a newer leader epoch, and before the old one is stopped."""
    world = await cluster()
    await reassign(world, 3, 2)
    await alter_isr(world, 1, 2, 3)
    at = [
        (broker, request) for broker, request in world.channels.sent if not isinstance(request, UpdateMetadataRequest)
    ]
    sent = next(i for i, (_, r) in enumerate(at) if isinstance(r, LeaderAndIsrRequest) and _replicas(r) == ids(3, 2))
    stopped = next(i for i, (broker, r) in enumerate(at) if isinstance(r, StopReplicaRequest) and broker == 1)
    assert sent < stopped
    assert await alter_isr(world, 2, 3, 1) is KafkaError.INVALID_REQUEST
    assert world.state("t")[2] == [2, 3]


def _replicas(request: LeaderAndIsrRequest) -> Sequence[BrokerId]:
    return request.partitions[T0].assignment.replicas if T0 in request.partitions else ()


async def test_a_controller_that_leads_again_resumes_nothing_of_its_earlier_life_kafka_5310() -> None:
    world = await cluster()
    await reassign(world, 3, 2)
    world.zk.on_watch = lambda _path, _fired: None
    world.put_topic("t", {0: [1, 2]})
    other = await successor(world)
    assert other.context.being_reassigned == set()
    assert world.context.being_reassigned == {T0}
    assert is_as_in_zookeeper(other)
    assert all(T0 not in r.partitions for r in other.channels.to(3) if isinstance(r, LeaderAndIsrRequest))


async def test_a_request_overrules_what_the_znode_asks_for_kafka_9089() -> None:
    world = await cluster()
    world.tree.put(REASSIGN, encode_reassignments({T0: ids(3, 2), tp("other"): ids(3, 2)}))
    await world.settle()
    await reassign(world, 2, 1)
    assert world.context.assignment(T0).replicas == ids(2, 1)
    assert world.context.assignment(tp("other")).adding == ids(3)
    assert b'"t"' not in (data(world, REASSIGN) or b"")
    assert is_as_in_zookeeper(world)


async def test_what_is_deleted_or_gone_is_counted_nowhere_kafka_13572_and_kafka_1068_and_kafka_6753() -> None:
    """The count of offline partitions is computed from the state, so it can neither be missed nor fall below zero."""
    world = await cluster()
    for broker in (1, 2):
        world.die(broker)
    await world.settle()
    assert offline_partitions(world.context) == 2
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    assert offline_partitions(world.context) == 1
    world.tree.remove("/brokers/topics/other")
    await world.settle()
    assert offline_partitions(world.context) == 0
    for broker in (1, 2):
        world.register(broker)
    await world.settle()
    assert offline_partitions(world.context) == 0


async def lines_of(work: str, partitions: int) -> int:
    """How many lines of our code run while a cluster of so many partitions handles a change."""
    world = await cluster()
    world.put_topic("wide", {p: [p % 3 + 1, (p + 1) % 3 + 1] for p in range(partitions)})
    await world.settle()
    stretches = Stretches()
    if work == "a broker dies":
        world.die(1)
        await stretches.over(world.settle())
    elif work == "another controller comes":
        await stretches.over(successor(world))
    else:
        world.tree.put("/admin/delete_topics/wide")
        await stretches.over(world.settle())
    return stretches.total


@pytest.mark.parametrize("work", ["a broker dies", "another controller comes", "a topic is deleted"])
async def test_twice_the_partitions_are_twice_the_work_kafka_10794_and_kafka_6630_and_kafka_9499_and_kafka_17061(
    work: str,
) -> None:
    half, whole = await lines_of(work, 500), await lines_of(work, 1_000)
    assert whole < 2.2 * half


async def test_a_missed_change_is_found_and_put_right_before_it_does_harm_history_62() -> None:
    """Every watch is lost for good, and no connection comes back: the context is compared with ZooKeeper anyway."""
    world = await cluster()
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.die(1)
    world.register(4)
    world.put_topic("other", {0: [1, 2], 1: [2, 3]})
    world.put_topic("new", {0: [4, 3]})
    world.tree.put(STATE, b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":7,"isr":[2]}')
    assert not is_as_in_zookeeper(world)
    for within_s in (EVERY_S, LOOK_AGAIN_S):
        for event in world.timers.fire(within_s):
            world.queue.put(event)
        await world.settle()
    assert sorted(world.context.brokers) == [2, 3, 4]
    assert (world.state("t")[0], world.state("new")[0], world.state("other", 1)[0]) == (2, 4, 2)
    assert world.state("t")[1] > 7
    assert is_as_in_zookeeper(world)
    assert "picture differs from ZooKeeper: /brokers/ids/4" in alarms(world)
    assert any(tp("new") in request.body.partitions for request in updates(world, 4))
    world.zk.on_watch = watches
    await goes_on(world)


async def test_after_a_night_without_zookeeper_nothing_is_taken_for_granted_history_62() -> None:
    """Every watch was lost and much has changed: a controller that is connected again reads everything again."""
    world = await cluster()
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.die(1)
    world.register(4)
    world.put_topic("other", {0: [1, 2], 1: [2, 3]})
    world.put_topic("late", {0: [4, 3]})
    world.tree.put(REASSIGN, encode_reassignments({T0: ids(3, 2)}))
    world.zk.on_watch = watches
    world.queue.put(Resync())
    await world.settle()
    assert sorted(world.context.brokers) == [2, 3, 4]
    assert (world.state("t")[0], world.state("late")[0], world.state("other", 1)[0]) == (2, 4, 2)
    assert world.context.being_reassigned == {T0}
    assert is_as_in_zookeeper(world)
    assert any(tp("late") in request.body.partitions for request in updates(world, 4))
