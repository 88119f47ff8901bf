"""No false alarm: the rules on the records of a controller's reassignments and deletions."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import StopReplicaRequest
from controllerd.record.fold import apply
from controllerd.record.invariants import check
from controllerd.record.records import DeletionRecord, PendingDeletionsRecord, ReassignmentRecord
from controllerd.record.state import ClusterState
from events.reassignments import ApiPartitionReassignment
from events.replicas import AlterPartitionReceived, ProposedIsr
from events.topics import TopicDeletionStopReplicaResponseReceived
from tests.fakes.requester import ALICE
from tests.fakes.world import World, ids, tp
from tests.record.logs import stamped_log

T0 = tp("t")


async def cluster() -> World:
    """Four brokers, and a topic on three of them."""
    world = World()
    for broker in (1, 2, 3, 4):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    return await world.settle()


async def reassign(world: World, *target: int) -> None:
    await world.call(ApiPartitionReassignment(ALICE, {T0: ids(*target) if target else None}))


async def grow(world: World, *isr: int) -> None:
    """The leader reports this ISR."""
    state = world.context.record(T0).leadership
    assert state is not None
    ask = {T0: ProposedIsr(state.leader_epoch, state.partition_epoch, ids(*isr))}
    await world.call(AlterPartitionReceived(state.leader, world.context.epochs()[state.leader], 1, ask, {}))


async def delete(world: World) -> None:
    """Request the deletion of the topic; brokers carry out their requests."""
    world.tree.put("/admin/delete_topics/t")
    await world.settle()
    while orders := _orders(world):
        world.channels.sent.clear()
        for broker, request in orders:
            done = dict.fromkeys(request.partitions, KafkaError.NONE)
            answer = TopicDeletionStopReplicaResponseReceived(
                broker, request.broker_epoch, request.controller_epoch, KafkaError.NONE, done
            )
            world.queue.put(answer)
        await world.settle()


def _orders(world: World) -> list[tuple[BrokerId, StopReplicaRequest]]:
    return [
        (broker, request)
        for broker, request in world.channels.sent
        if isinstance(request, StopReplicaRequest) and any(row.delete for row in request.partitions.values())
    ]


def assert_is_clean(world: World) -> None:
    """No rule has anything to say, and the fold is what the controller knows."""
    log = stamped_log(world.audit.records)
    assert list(check(log)) == []
    state = ClusterState()
    for envelope, record in log:
        apply(state, envelope, record)
    assert state.assignments() == {p: world.context.assignment(p) for p in world.context.partitions()}
    assert state.pending_deletions.keys() == set(world.context.pending_deletions.brokers())
    assert state.deletions.keys() == world.context.queued_for_deletion


async def test_a_reassignment_that_is_overridden_cancelled_and_completed() -> None:
    world = await cluster()
    await reassign(world, 4, 2, 3)
    await reassign(world, 4, 1, 2)
    await reassign(world)
    await reassign(world, 4, 2, 3)
    await grow(world, 1, 2, 3, 4)

    assert world.context.assignment(T0).replicas == ids(4, 2, 3)
    assert {record.step for record in world.audit.of(ReassignmentRecord)} >= {"begun", "overridden", "completed"}
    assert_is_clean(world)


async def test_a_reassignment_that_only_removes() -> None:
    world = await cluster()
    await reassign(world, 2, 1)
    assert world.context.assignment(T0).replicas == ids(2, 1)
    assert_is_clean(world)


async def test_a_reassignment_away_from_a_failed_broker() -> None:
    world = await cluster()
    world.die(3)
    await world.settle()
    await reassign(world, 1, 2, 4)
    await grow(world, 1, 2, 4)

    assert world.context.assignment(T0).replicas == ids(1, 2, 4)
    assert world.audit.of(PendingDeletionsRecord)
    assert_is_clean(world)
    world.register(3)
    await world.settle()
    assert_is_clean(world)


async def test_a_deletion_with_all_brokers_live() -> None:
    world = await cluster()
    await delete(world)
    assert "/brokers/topics/t" not in world.tree.nodes
    assert TopicPartition("t", 0) not in world.context
    assert world.audit.of(DeletionRecord)
    assert_is_clean(world)


async def test_a_deletion_that_waits_for_a_broker() -> None:
    world = await cluster()
    world.die(3)
    await world.settle()
    await delete(world)
    assert "/brokers/topics/t" in world.tree.nodes
    assert_is_clean(world)

    world.register(3)
    await world.settle()
    await delete(world)

    assert "/brokers/topics/t" not in world.tree.nodes
    assert_is_clean(world)
