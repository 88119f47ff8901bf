"""Group J: brokers bounce, one by one and at once, and every life of a broker has an epoch of its own."""

import json

import pytest

from broker.gate import ControlGate
from controllerd.core.imbalance import is_imbalanced
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.requests import api_name
from controllerd.record.records import EventBegin
from controllerd.zk.access import Create, Delete
from events.admin import ControlledShutdown
from events.elections import AutoPreferredReplicaLeaderElection
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.world import World, ids, registration, topic_id_of, tp
from tests.scenarios.worlds import Brokers, with_topic, world_of


def epochs_in_zookeeper(world: World) -> dict[int, int]:
    """Broker id to the czxid of its registration."""
    names = world.tree.children("/brokers/ids") or []
    return {int(name): world.tree.nodes[f"/brokers/ids/{name}"].czxid for name in names}


async def catch_up(world: World, broker: int, partitions: int) -> None:
    """Let the leaders of t add a replica that has caught up to their ISRs."""
    for partition in range(partitions):
        state = world.context.leadership(tp("t", partition))
        assert state is not None
        if broker not in state.isr:
            proposed = ProposedIsr(state.leader_epoch, state.partition_epoch, (*state.isr, BrokerId(broker)))
            epoch = world.context.epochs()[state.leader]
            by_id = {(topic_id_of("t"), partition): proposed}
            await world.call(AlterPartitionReceived(state.leader, epoch, 3, {}, by_id))


async def test_j1_a_bounce_faster_than_the_controller_is_a_death_and_a_start_kafka_7235() -> None:
    world = await with_topic(await world_of(1, 2, 3), 1, 2, 3)
    await with_topic(world, 2, 3, name="other")

    epoch = world.bounce(1)
    await world.settle()

    assert world.context.epochs()[BrokerId(1)] == epoch
    assert world.channels.calls == [("remove", 1), ("add", 1)]
    assert world.state("t") == (2, 1, [2, 3], 1)
    first, *others = world.channels.to(1)
    assert {request.broker_epoch for request in world.channels.to(1)} == {epoch}
    assert api_name(first) == "UpdateMetadata"
    assert "LeaderAndIsr" in {api_name(request) for request in others}
    assert set(Brokers(world).cache(1).topics) == {"t", "other"}


async def test_j2_the_epochs_that_the_controller_knows_are_the_ones_of_the_registrations() -> None:
    world = await world_of(1, 2)
    seen = [(world.context.epochs(), epochs_in_zookeeper(world))]
    for change in (world.die, world.register, world.bounce):
        change(2)
        await world.settle()
        seen.append((world.context.epochs(), epochs_in_zookeeper(world)))

    assert all(known == registered for known, registered in seen)
    assert len({registered.get(2) for _, registered in seen}) == 4


@pytest.mark.parametrize(
    ("offset", "error"), [(-1, KafkaError.STALE_BROKER_EPOCH), (0, KafkaError.NONE), (1, KafkaError.NONE)]
)
async def test_j3_a_request_for_an_earlier_life_is_stale_and_no_other(offset: int, error: KafkaError) -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)
    world.bounce(2)
    await world.settle()
    await catch_up(world, 2, 1)
    await world.call(ControlledShutdown(BrokerId(2), world.context.epochs()[BrokerId(2)]))
    gate = ControlGate()
    gate.broker_epoch = epochs_in_zookeeper(world)[2]

    sent = {api_name(request): request for request in world.channels.to(2) if request.broker_epoch == gate.broker_epoch}

    assert sent.keys() == {"LeaderAndIsr", "UpdateMetadata", "StopReplica"}
    for request in sent.values():
        admitted = gate.admit(request.broker_epoch + offset, request.controller_epoch, is_kraft_controller=False)
        assert admitted is error


async def test_j4_a_broker_that_registers_over_its_own_old_registration_starts_anew_kafka_7165() -> None:
    world = await with_topic(await world_of(1, 2), 1, 2)

    path = "/brokers/ids/1"
    world.tree.outsider(Delete(path), Create(path, registration(1, 9_001), ephemeral=True))
    await world.settle()

    assert world.context.epochs() == epochs_in_zookeeper(world)
    assert world.state("t") == (2, 1, [2], 1)
    assert world.metrics.events.count("BrokerChange") == 1


async def test_j4_our_own_old_registration_as_controller_is_replaced_at_once_kafka_7165() -> None:
    """The earlier session has not expired in ZooKeeper yet; the instance id in the znode shows that it was ours."""
    before = await world_of(1, 2)

    world = await World(tree=before.tree, session_id=2).start()

    assert world.snapshot.is_active
    assert world.tree.nodes["/controller"].ephemeral_owner == 2
    assert json.loads(world.tree.nodes["/controller_epoch"].data or b"") == 2


async def test_j5_after_a_rolling_bounce_every_partition_is_led_by_its_preferred_replica() -> None:
    world = await world_of(1, 2, 3)
    world.put_topic("t", {partition: [1 + (partition + k) % 3 for k in range(3)] for partition in range(9)})
    await world.settle()

    for broker in (1, 2, 3):
        await world.call(ControlledShutdown(BrokerId(broker), world.context.epochs()[BrokerId(broker)]))
        world.die(broker)
        await world.settle()
        assert world.snapshot.offline_partitions == 0
        world.register(broker)
        await world.settle()
        await catch_up(world, broker, 9)
    away = sum(map(is_imbalanced, world.context.records()))
    world.queue.put(AutoPreferredReplicaLeaderElection())
    await world.settle()

    assert away > 0
    assert sum(map(is_imbalanced, world.context.records())) == 0
    for partition in range(9):
        leaders = {Brokers(world).partition(broker, "t", partition).state.leader for broker in (1, 2, 3)}
        assert leaders == {1 + partition % 3}
        assert sorted(world.state("t", partition)[2]) == [1, 2, 3]


async def test_j6_two_brokers_that_bounce_in_one_watch_interval_are_one_event() -> None:
    world = await with_topic(await world_of(1, 2, 3), 1, 2, 3)
    watches, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    world.bounce(1)
    world.zk.on_watch = watches

    world.bounce(2)
    await world.settle()

    assert [each.name for each in world.audit.of(EventBegin)].count("BrokerChange") == 1
    assert world.context.epochs() == epochs_in_zookeeper(world)
    assert sorted(world.channels.calls) == [("add", 1), ("add", 2), ("remove", 1), ("remove", 2)]
    assert world.state("t")[0] == 3
    assert [Brokers(world).live(broker) for broker in ids(1, 2, 3)] == [[1, 2, 3]] * 3
