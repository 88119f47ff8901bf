"""Group M: the requests of one step of the controller, per broker and in which form."""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataRequest,
    api_name,
)
from events.admin import ControlledShutdown
from events.responses import LeaderAndIsrResponseReceived
from events.topics import TopicDeletionStopReplicaResponseReceived
from tests.channel_manager.requests import CONTROLLER, leader_and_isr, stop_replica
from tests.channel_manager.stub_broker import Act
from tests.channel_manager.test_manager import one_broker
from tests.fakes.world import NODE_ID, World, ids, tp
from tests.scenarios.worlds import with_topic, world_of
from wire.versions import ApiKey


def sent_to(world: World, broker: int) -> list[str]:
    """The APIs of a broker's requests, in order."""
    return [api_name(request) for request in world.channels.to(broker)]


def metadata_of(request: ControlRequest) -> UpdateMetadataRequest:
    assert isinstance(request, UpdateMetadataRequest)
    return request


async def test_m1_one_step_is_one_leader_and_isr_and_one_update_metadata_per_broker_with_all_partitions() -> None:
    world = await world_of(1, 2, 3)

    for number in range(10):
        world.put_topic(f"t{number}", {partition: [1, 2, 3] for partition in range(10)})
    await world.settle()

    for broker in (1, 2, 3):
        roles, metadata = world.channels.to(broker)
        assert isinstance(roles, LeaderAndIsrRequest)
        assert (len(roles.partitions), len(metadata_of(metadata).body.partitions)) == (100, 100)


async def test_m2_a_replica_that_is_new_stays_new_when_it_is_named_again() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    async with world.c.outbox.batch() as batch:
        batch.add_leader_and_isr(ids(1), tp("t"), is_new=True)
        batch.add_leader_and_isr(ids(1), tp("t"), is_new=False)

    request = world.channels.to(1)[0]
    assert isinstance(request, LeaderAndIsrRequest)
    assert request.partitions[tp("t")].is_new


async def test_m3_dead_brokers_get_nothing_and_brokers_that_shut_down_get_everything() -> None:
    world = await with_topic(await world_of(1, 2, 3), 1, 2, 3)
    world.die(3)
    await world.settle()
    await world.call(ControlledShutdown(BrokerId(2), world.context.epochs()[BrokerId(2)]))
    world.forget()

    async with world.c.outbox.batch() as batch:
        batch.add_leader_and_isr(ids(1, 2, 3), tp("t"), is_new=False)
        batch.add_stop_replica(ids(2, 3), tp("t"), delete=False)

    assert sent_to(world, 1) == ["LeaderAndIsr", "UpdateMetadata"]
    assert sent_to(world, 2) == ["LeaderAndIsr", "UpdateMetadata", "StopReplica"]
    assert {broker for broker, _ in [*world.channels.sent, *world.channels.dropped]} == {1, 2}


async def test_m4_brokers_that_shut_down_are_listed_as_live() -> None:
    world = await world_of(1, 2, 3)
    await world.call(ControlledShutdown(BrokerId(2), world.context.epochs()[BrokerId(2)]))
    world.forget()

    world.die(3)
    await world.settle()

    (request,) = world.channels.to(1)
    assert [broker.id for broker in metadata_of(request).body.live_brokers] == [1, 2, NODE_ID]


async def test_m5_a_partition_without_leadership_is_in_no_metadata() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    await with_topic(world, 8, 9, name="waiting")

    world.register(3)
    await world.settle()

    sent = {each for request in world.channels.to(3) for each in metadata_of(request).body.partitions}
    assert sent == {tp("t")}


async def test_m6_partitions_of_a_topic_that_is_deleted_have_leader_minus_two_and_keep_their_isr() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    world.tree.put("/admin/delete_topics/t")
    await world.settle()

    states = [
        request.body.partitions[tp("t")].state
        for request in world.channels.to(1)
        if isinstance(request, UpdateMetadataRequest) and tp("t") in request.body.partitions
    ]
    assert states
    assert {(state.leader, state.isr) for state in states} == {(-2, ids(1, 2))}


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
async def test_m7_a_deletion_wins_over_a_mere_stop_of_the_same_replica(flags: tuple[bool, bool]) -> None:
    world = await with_topic(await world_of(1, 2, 3), 1, 2)

    async with world.c.outbox.batch() as batch:
        for delete in flags:
            batch.add_stop_replica(ids(3), tp("t"), delete=delete)

    (request,) = world.channels.to(3)
    assert isinstance(request, StopReplicaRequest)
    assert request.partitions == {tp("t"): StopReplicaPartition(0, delete=True)}


def mixed_stop() -> StopReplicaRequest:
    partitions = {tp("t", 0): StopReplicaPartition(3, delete=False), tp("t", 1): StopReplicaPartition(-2, delete=True)}
    return StopReplicaRequest(CONTROLLER, 5, 1, partitions)


@pytest.mark.parametrize("version", [3, 4])
async def test_m8_a_new_broker_gets_stops_and_deletions_in_one_request(version: int) -> None:
    async with one_broker() as (_, manager, stub):
        stub.versions[ApiKey.STOP_REPLICA] = (0, version)
        manager.send(BrokerId(1), mixed_stop())
        (got,) = await stub.got_so_many(1)
        rows = [(row.partition_index, row.delete_partition) for row in got.entity.topic_states[0].partition_states]

    assert rows == [(0, False), (1, True)]


@pytest.mark.parametrize("version", [1, 2])
async def test_m8_an_older_broker_gets_two_requests_the_deletions_first(version: int) -> None:
    async with one_broker() as (_, manager, stub):
        stub.versions[ApiKey.STOP_REPLICA] = (0, version)
        manager.send(BrokerId(1), mixed_stop())
        got = await stub.got_so_many(2)
        requests = [(each.entity.delete_partitions, each.entity.topics[0].partition_indexes) for each in got]

    assert requests == [(True, (1,)), (False, (0,))]


async def test_m9_only_deletions_are_reported_and_mere_stops_are_not_kafka_9946() -> None:
    async with one_broker() as (desk, manager, stub):
        manager.send(BrokerId(1), stop_replica(delete=False))
        manager.send(BrokerId(1), mixed_stop())
        await stub.got_so_many(2)
        (event,) = await desk.has_events(1)

    assert isinstance(event, TopicDeletionStopReplicaResponseReceived)
    assert event.partition_errors == {tp("t", 1): KafkaError.NONE}


async def test_m9_an_answer_for_a_topic_whose_deletion_did_not_start_deletes_nothing_kafka_9946() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    epoch = world.context.epochs()[BrokerId(2)]
    answered = TopicDeletionStopReplicaResponseReceived(
        BrokerId(2), epoch, world.context.epoch, KafkaError.NONE, {tp("t"): KafkaError.NONE}
    )

    world.queue.put(answered)
    await world.settle()

    assert world.zk.writes == []
    assert world.context.leadership(tp("t")) == LeaderAndIsr(BrokerId(1), 0, ids(1, 2), 1, 0)
    assert world.snapshot.topics["t"].partitions[0].offline_replicas == ()


@pytest.mark.parametrize(("is_deleted", "epoch"), [(False, 0), (True, -2)])
async def test_m10_a_stop_carries_the_leader_epoch_or_minus_two_for_a_topic_that_goes(
    is_deleted: bool, epoch: int
) -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    if is_deleted:
        world.tree.put("/admin/delete_topics/t")
        await world.settle()
    else:
        await world.call(ControlledShutdown(BrokerId(2), world.context.epochs()[BrokerId(2)]))

    stops = [request for request in world.channels.to(2) if isinstance(request, StopReplicaRequest)]
    assert stops
    assert {each.leader_epoch for stop in stops for each in stop.partitions.values()} == {epoch}


async def test_m10_it_is_on_the_wire_from_version_3_on() -> None:
    async with one_broker() as (_, manager, stub):
        manager.send(BrokerId(1), mixed_stop())
        (got,) = await stub.got_so_many(1)
        rows = [(row.partition_index, row.leader_epoch) for row in got.entity.topic_states[0].partition_states]

    assert rows == [(0, 3), (1, -2)]


async def test_m11_a_stale_broker_epoch_is_reported_and_the_request_not_sent_again() -> None:
    async with one_broker(Act(error=KafkaError.STALE_BROKER_EPOCH)) as (desk, manager, stub):
        manager.send(BrokerId(1), leader_and_isr())
        (event,) = await desk.has_events(1)
        await manager.drain(10)
        requests = len(stub.got)

    assert isinstance(event, LeaderAndIsrResponseReceived)
    assert (event.error, requests) == (KafkaError.STALE_BROKER_EPOCH, 1)


async def test_m11_the_controller_does_not_take_it_for_a_failed_directory_or_a_lost_role() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    epoch = world.context.epochs()[BrokerId(2)]
    stale = LeaderAndIsrResponseReceived(
        BrokerId(2),
        epoch,
        world.context.epoch,
        KafkaError.STALE_BROKER_EPOCH,
        {tp("t"): KafkaError.STALE_BROKER_EPOCH},
        frozenset({tp("t")}),
    )

    world.queue.put(stale)
    await world.settle()

    assert world.snapshot.is_active
    assert (world.channels.sent, world.zk.writes) == ([], [])
