"""Replicas that brokers missed to delete: they are told when they are back, and never lose what is assigned to them."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import StopReplicaRequest
from controllerd.zk import codecs, paths
from events.topics import TopicDeletionRetry, TopicDeletionStopReplicaResponseReceived
from tests.fakes.disks import Disks, successor
from tests.fakes.world import World, topic_id_of, tp

THREE = BrokerId(3)
Owed = Mapping[TopicPartition, str | None]


@pytest.fixture
async def disks() -> Disks:
    """Brokers 1 and 2, a controller, and topics; broker 3 is away and once had replicas of all of them."""
    disks = Disks(World())
    for broker in (1, 2):
        disks.world.register(broker)
    await disks.start()
    disks.world.put_topic("moved", {0: [1, 2]})
    disks.world.put_topic("back", {0: [1, 3]})
    await disks.settle()
    disks.logs[3] = {tp("gone"), tp("moved"), tp("back")}
    disks.forget()
    return disks


async def owe(disks: Disks, *topics: str) -> None:
    await disks.world.c.debts.owe({THREE: [tp(topic) for topic in topics]})
    disks.forget()


def stopped(world: World, broker: int) -> list[str]:
    return [request for request in world.brief(broker) if request.startswith("StopReplica")]


def written(world: World) -> Owed:
    """What broker 3 owes by ZooKeeper."""
    node = world.tree.nodes.get(paths.debt(THREE))
    return {} if node is None else codecs.decode_debt(THREE, node.data)


async def test_a_broker_that_is_back_deletes_what_it_missed_history_58c(disks: Disks) -> None:
    await owe(disks, "gone", "moved")

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == ["StopReplica(gone-0 -1 delete; moved-0 0 delete)"]
    assert disks.logs[3] == {tp("back")}
    assert written(disks.world) == {}


async def test_a_debt_stays_until_the_broker_has_answered(disks: Disks) -> None:
    await owe(disks, "gone")
    disks.silent = {3}

    disks.world.register(3)
    await disks.settle()

    assert written(disks.world).keys() == {tp("gone")}


async def test_a_replica_that_is_assigned_to_the_broker_again_is_never_deleted(disks: Disks) -> None:
    await owe(disks, "back")

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert tp("back") in disks.logs[3]
    assert written(disks.world) == {}


async def test_a_replica_of_a_topic_that_was_created_anew_is_never_deleted(disks: Disks) -> None:
    await disks.world.c.store.write_debts({THREE: {tp("back"): topic_id_of("an older one")}})
    disks.world.context.debts.set(THREE, {tp("back"): topic_id_of("an older one")})

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world) == {}


@pytest.mark.parametrize("data", [b"not JSON", b'{"version":3,"partitions":{"0":[1,1]}}'])
async def test_what_nobody_understands_may_be_assigned_to_the_broker(disks: Disks, data: bytes) -> None:
    await owe(disks, "odd")
    disks.world.tree.put("/brokers/topics/odd", data)
    await disks.settle()

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world).keys() == {tp("odd")}


async def test_a_replica_that_is_in_the_isr_is_never_deleted_though_nobody_assigns_it(disks: Disks) -> None:
    await owe(disks, "moved")
    state = disks.world.context.leadership(tp("moved"))
    assert state is not None
    disks.world.context.set_leadership(tp("moved"), state._replace(isr=(*state.isr, THREE)))

    disks.world.register(3)
    await disks.settle()

    assert stopped(disks.world, 3) == []
    assert written(disks.world).keys() == {tp("moved")}


async def test_a_debt_of_a_broker_that_is_still_away_waits(disks: Disks) -> None:
    await owe(disks, "gone")

    disks.world.register(4)
    await disks.settle()

    assert stopped(disks.world, 4) == []
    assert written(disks.world).keys() == {tp("gone")}


async def test_the_next_controller_asks_for_what_is_owed(disks: Disks) -> None:
    await owe(disks, "gone")
    after = successor(disks, 2)
    disks.world.zk.expire()
    after.world.register(3)

    await after.start()

    assert stopped(after.world, 3) == ["StopReplica(gone-0 -1 delete)"]
    assert written(after.world) == {}


async def test_a_failed_deletion_of_a_debt_is_asked_for_again(disks: Disks) -> None:
    await owe(disks, "gone")
    disks.refusing[3] = KafkaError.KAFKA_STORAGE_ERROR
    disks.world.register(3)
    await disks.settle()
    assert TopicDeletionRetry() in disks.world.timers.fire()

    disks.refusing.clear()
    disks.world.queue.put(TopicDeletionRetry())
    await disks.settle()

    assert written(disks.world) == {}


async def test_a_broker_that_was_never_told_is_told_again_when_it_bounces(disks: Disks) -> None:
    await owe(disks, "gone")
    disks.silent = {3}
    disks.world.register(3)
    await disks.settle()
    disks.silent = set()

    disks.world.bounce(3)
    await disks.settle()

    assert written(disks.world) == {}


async def test_an_answer_of_an_earlier_life_settles_nothing(disks: Disks) -> None:
    await owe(disks, "gone")
    disks.silent = {3}
    epoch = disks.world.register(3)
    await disks.settle()

    late = TopicDeletionStopReplicaResponseReceived(
        THREE, epoch - 1, disks.world.context.epoch, KafkaError.NONE, {tp("gone"): KafkaError.NONE}
    )
    disks.world.queue.put(late)
    await disks.settle()

    assert written(disks.world).keys() == {tp("gone")}


async def test_many_debts_are_one_request(disks: Disks) -> None:
    await disks.world.c.debts.owe({THREE: [tp("gone", partition) for partition in range(2500)]})
    disks.forget()

    disks.world.register(3)
    await disks.settle()

    requests = [request for request in disks.world.channels.to(3) if isinstance(request, StopReplicaRequest)]
    assert [len(request.partitions) for request in requests] == [2500]
    assert written(disks.world) == {}


async def test_a_debt_that_cannot_be_understood_stops_nobody(disks: Disks) -> None:
    disks.world.tree.put(paths.debt(THREE), json.dumps({"version": "?"}).encode())
    after = successor(disks, 2)
    disks.world.zk.expire()

    await after.start()

    assert after.world.c.is_active
    assert after.world.context.debts.brokers() == []
