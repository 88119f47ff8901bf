"""Group B: the metadata that brokers get, when they get it, and that no broker keeps outdated metadata."""

import json

import pytest

from channel_manager.settings import ChannelSettings
from controllerd.core.model import NO_LEADER, Broker, BrokerId, Endpoint
from controllerd.core.requests import LeaderAndIsrRequest, UpdateMetadataRequest
from events.admin import ControlledShutdown
from events.cluster import Expire, RegisterBrokerAndReelect
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.channel_manager.requests import update_metadata
from tests.channel_manager.stub_broker import StubBroker, stub_broker
from tests.channel_manager.test_manager import Reports, channels
from tests.fakes.world import World, ids, registration, topic_id_of, tp
from tests.scenarios.worlds import Brokers, with_topic, world_of


async def fresh_world(*brokers: int) -> World:
    """A world whose brokers got all metadata since they started."""
    world = World()
    for broker in brokers:
        world.register(broker)
    return await world.start()


async def test_b1_a_single_broker_gets_one_request_at_failover() -> None:
    world = await fresh_world(1)

    assert world.brief(1) == ["UpdateMetadata()"]


async def test_b1_it_comes_over_the_control_plane_listener_and_nothing_over_the_other() -> None:
    async with stub_broker(1) as control, stub_broker(1) as data, channels(Reports(), listener="CONTROLLER") as manager:
        manager.add_broker(_with_two_listeners(control, data))
        manager.send(BrokerId(1), update_metadata())
        await control.got_so_many(1)
        await manager.drain(ChannelSettings().request_timeout_s)

    assert ([got.api for got in control.got], data.connections) == (["UpdateMetadata"], 0)


def _with_two_listeners(control: StubBroker, data: StubBroker) -> Broker:
    endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", data.port), Endpoint("CONTROLLER", "127.0.0.1", control.port))
    return Broker(BrokerId(1), 1, endpoints)


async def test_b2_a_follower_that_stops_is_offline_and_out_of_the_isr_for_the_survivors() -> None:
    world = await fresh_world(1, 2, 3)
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 1]})
    await world.settle()
    brokers = Brokers(world)
    untouched = [brokers.partition(broker, "t", 1) for broker in (1, 2)]

    world.die(3)
    await world.settle()

    for broker in (1, 2):
        state, replicas, offline = brokers.partition(broker, "t")
        assert (state.leader, state.isr, replicas, offline) == (1, ids(1, 2), ids(1, 2, 3), ids(3))
        assert brokers.live(broker) == [1, 2]
    assert [brokers.partition(broker, "t", 1) for broker in (1, 2)] == untouched


async def test_b3_after_its_return_no_broker_has_an_offline_replica() -> None:
    world = await fresh_world(1, 2, 3)
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.die(3)
    await world.settle()

    world.register(3)
    await world.settle()

    brokers = Brokers(world)
    assert [brokers.partition(broker, "t").offline_replicas for broker in (1, 2, 3)] == [(), (), ()]
    assert [brokers.live(broker) for broker in (1, 2, 3)] == [[1, 2, 3]] * 3


async def test_b4_brokers_that_start_without_the_only_replica_see_it_offline_and_in_the_isr() -> None:
    world = await fresh_world(1, 2, 3)
    world.put_topic("t", {0: [1]})
    await world.settle()
    for broker in (1, 2, 3):
        world.die(broker)
    await world.settle()

    world.register(2)
    world.register(3)
    await world.settle()

    for broker in (2, 3):
        state, replicas, offline = Brokers(world).partition(broker, "t")
        assert (state.leader, state.isr, replicas, offline) == (NO_LEADER, ids(1), ids(1), ids(1))


async def test_b4_so_do_they_when_the_controller_starts_with_them() -> None:
    before = await with_topic(await world_of(1, 2), 1)
    before.zk.expire()
    for broker in (1, 2):
        before.die(broker)
    world = World(tree=before.tree, session_id=2)
    world.register(2)

    await world.start()

    state, replicas, offline = Brokers(world).partition(2, "t")
    assert (state.leader, state.isr, replicas, offline) == (NO_LEADER, ids(1), ids(1), ids(1))


async def test_b5_survivors_learn_of_a_death_without_replicas_while_a_partition_is_offline_kafka_13225() -> None:
    world = await fresh_world(1, 2, 3)
    world.put_topic("t", {0: [1]})
    await world.settle()
    world.die(1)
    await world.settle()
    assert world.snapshot.offline_partitions == 1

    world.die(3)
    await world.settle()

    assert Brokers(world).live(2) == [2]


async def test_b6_a_broker_that_joins_a_cluster_without_topics_is_seen_by_all_kafka_1867() -> None:
    world = await fresh_world(1, 2)

    world.register(3)
    await world.settle()

    assert [Brokers(world).live(broker) for broker in (1, 2, 3)] == [[1, 2, 3]] * 3


async def test_b7_at_failover_every_broker_gets_the_live_brokers_before_its_leaderships_kafka_4443() -> None:
    before = await with_topic(await world_of(1, 2, 3), 1, 2, 3)
    before.zk.expire()
    world = World(tree=before.tree, session_id=2)

    await world.start()

    for broker in (1, 2, 3):
        first, *others = world.channels.to(broker)
        assert isinstance(first, UpdateMetadataRequest)
        assert not first.body.partitions
        assert {other.id for other in first.body.live_brokers} >= {1, 2, 3}
        assert any(isinstance(request, LeaderAndIsrRequest) for request in others)


async def test_b8_a_changed_listener_is_sent_to_all_brokers() -> None:
    world = await fresh_world(1, 2, 3)

    world.tree.put("/brokers/ids/1", registration(1, 19_091))
    await world.settle()

    for broker in (1, 2, 3):
        endpoint = Brokers(world).cache(broker).endpoint(1, "PLAINTEXT")
        assert endpoint is not None
        assert endpoint.port == 19_091
    assert world.channels.calls[-1] == ("add", 1)


async def test_b8_so_is_one_that_changed_after_our_session_had_expired() -> None:
    world = await fresh_world(1, 2)
    world.zk.expire()
    world.queue.clear_and_put(Expire(1))
    await world.settle()
    world.zk.reconnect_as(2)
    world.queue.put(RegisterBrokerAndReelect())
    await world.settle()

    world.tree.put("/brokers/ids/2", registration(2, 19_092))
    await world.settle()

    assert world.snapshot.is_active
    for broker in (1, 2):
        endpoint = Brokers(world).cache(broker).endpoint(2, "PLAINTEXT")
        assert endpoint is not None
        assert endpoint.port == 19_092


@pytest.mark.parametrize("isr", [(2, 1), (2, 1, 3)])
async def test_b9_a_changed_isr_is_sent_to_every_broker_even_one_that_shuts_down(isr: tuple[int, ...]) -> None:
    world = await with_topic(await world_of(1, 2, 3, 4), 2, 1, 3)
    await with_topic(world, 1, name="other")
    state = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 1, 3][: 5 - len(isr)]}
    world.tree.put("/brokers/topics/t/partitions/0/state", json.dumps(state).encode())
    note = b'{"version":1,"partitions":[{"topic":"t","partition":0}]}'
    world.tree.put("/isr_change_notification/isr_change_0000000000", note)
    await world.settle()
    await world.call(ControlledShutdown(BrokerId(4), world.context.epochs()[BrokerId(4)]))
    world.forget()

    proposal = ProposedIsr(0, 1, ids(*isr))
    epoch = world.context.epochs()[BrokerId(2)]
    await world.call(AlterPartitionReceived(BrokerId(2), epoch, 3, {}, {(topic_id_of("t"), 0): proposal}))

    assert world.context.leadership(tp("t")) is not None
    for broker in (1, 2, 3, 4):
        assert world.brief(broker) == [f"UpdateMetadata(t-0 2/0 {list(isr)})"]
