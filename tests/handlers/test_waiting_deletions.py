"""A topic whose deletion waits for a reassignment of it is served in full until the deletion begins."""

import json
from dataclasses import replace

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from events.admin import ControlledShutdown
from events.elections import AutoPreferredReplicaLeaderElection, ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.operator import DrainBroker
from events.reassignments import ApiPartitionReassignment
from events.topics import TopicDeletion
from tests.fakes.disks import Disks, successor
from tests.fakes.reassigning import change_isr
from tests.fakes.requester import ALICE
from tests.fakes.world import World, topic_id_of, tp
from tests.scenarios.acts import fire

MOVING, OTHER = tp("t", 0), tp("t", 1)


@pytest.fixture
async def waiting() -> Disks:
    """t-0 moves from [1, 2] to [2, 4]; broker 4 has not caught up. t-1 is on [3, 1, 5]. t is to be deleted."""
    disks = Disks(World())
    for broker in (1, 2, 3, 4, 5):
        disks.world.register(broker)
    disks.world.put_topic("t", {0: [1, 2], 1: [3, 1, 5]})
    await disks.start()
    body = {
        "version": 3,
        "topic_id": topic_id_of("t"),
        "partitions": {"0": [2, 4, 1], "1": [3, 1, 5]},
        "adding_replicas": {"0": [4]},
        "removing_replicas": {"0": [1]},
    }
    disks.world.tree.put("/brokers/topics/t", json.dumps(body).encode())
    disks.world.tree.put("/admin/delete_topics/t")
    after = successor(disks, 2)
    disks.world.zk.expire()
    await after.start()
    assert waits(after)
    after.forget()
    return after


def waits(disks: Disks) -> bool:
    """Whether the deletion of t waits for the reassignment of t-0."""
    book = disks.world.context.deletions
    return "t" not in book.started and book.halted["t"].startswith("waits for the reassignment of t-0")


def leader(disks: Disks, partition: TopicPartition) -> int:
    return disks.world.state(partition.topic, partition.partition)[0]


def sent(disks: Disks, broker: int) -> str:
    return " ".join(disks.world.brief(broker))


async def shut_down(disks: Disks, broker: int) -> frozenset[TopicPartition]:
    epoch = disks.world.context.epochs()[BrokerId(broker)]
    reply = await disks.world.call(ControlledShutdown(BrokerId(broker), epoch))
    assert reply.error is KafkaError.NONE
    return reply.remaining


async def test_another_leader_is_elected_for_a_partition_that_does_not_move(waiting: Disks) -> None:
    waiting.world.die(3)
    await waiting.settle()

    assert leader(waiting, OTHER) == 1
    assert waiting.metadata[2][OTHER] == 1
    assert waits(waiting)


async def test_another_leader_is_elected_for_the_moving_partition_and_the_reassignment_continues(
    waiting: Disks,
) -> None:
    waiting.world.die(1)
    await waiting.settle()

    assert leader(waiting, MOVING) == 2
    assert waiting.metadata[4][MOVING] == 2
    assert waits(waiting)


async def test_a_leader_is_sent_the_shrunk_isr(waiting: Disks) -> None:
    """A leader that does not get it proposes its next ISR with an outdated partition epoch, and is fenced."""
    waiting.world.die(5)
    await waiting.settle()

    assert "LeaderAndIsr(t-1 3/1 [3, 1])" in sent(waiting, 3)
    assert waiting.world.state("t", 1)[2] == [3, 1]


async def test_a_stop_replica_request_names_the_leader_epoch(waiting: Disks) -> None:
    await shut_down(waiting, 5)

    assert "StopReplica(t-1 0)" in sent(waiting, 5)
    assert "-2" not in sent(waiting, 5)


async def test_a_controlled_shutdown_moves_the_leaderships_of_the_topic(waiting: Disks) -> None:
    assert await shut_down(waiting, 3) == frozenset()

    assert leader(waiting, OTHER) == 1
    assert waits(waiting)


async def test_a_controlled_shutdown_of_the_moving_partitions_leader_keeps_the_reassignment(waiting: Disks) -> None:
    assert await shut_down(waiting, 1) == frozenset()

    assert leader(waiting, MOVING) == 2
    assert waits(waiting)


async def test_the_deletion_begins_when_its_wait_ends_though_deletions_were_disabled_meanwhile(
    waiting: Disks,
) -> None:
    """Otherwise the topic would not be served any more, and not be deleted either."""
    world = waiting.world
    policy = world.settings.policy._replace(delete_topic_enable=False)
    world.settings.current = replace(world.settings.current, policy=policy)
    body = json.loads(world.tree.nodes["/brokers/topics/t"].data or b"")
    world.tree.put("/brokers/topics/t", json.dumps(body | {"adding_replicas": {"0": [9]}}).encode())
    await waiting.settle()

    await fire(world, TopicDeletion())
    await waiting.settle()

    assert "t" not in world.context.topics


async def test_the_deletion_begins_on_a_controlled_shutdown_of_the_broker_that_has_to_catch_up(waiting: Disks) -> None:
    """The broker joins no ISR any more, so that the reassignment cannot end."""
    await shut_down(waiting, 4)

    assert waiting.world.context.deletions.started == {"t"}


async def test_a_drain_moves_the_leaders_of_the_topic(waiting: Disks) -> None:
    reply = await waiting.world.call(DrainBroker(BrokerId(3), leaders_only=True, reason="a test", by="User:test"))

    assert reply.moved == (OTHER,)
    assert leader(waiting, OTHER) == 1


async def test_an_admin_client_may_elect_the_preferred_leader(waiting: Disks) -> None:
    await shut_down(waiting, 3)
    waiting.world.bounce(3)
    await waiting.settle()
    await change_isr(waiting.world, "t", 1, 5, 3, partitions=[1])
    event = ReplicaLeaderElection(frozenset({OTHER}), ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT)

    assert await waiting.world.call(event) == {OTHER: BrokerId(3)}


async def test_the_rebalance_moves_leaderships_of_the_topic(waiting: Disks) -> None:
    await shut_down(waiting, 3)
    waiting.world.bounce(3)
    await waiting.settle()
    await change_isr(waiting.world, "t", 1, 5, 3, partitions=[1])

    waiting.world.queue.put(AutoPreferredReplicaLeaderElection())
    await waiting.settle()

    assert leader(waiting, OTHER) == 3


async def test_a_broker_that_returns_leads_the_offline_partition(waiting: Disks) -> None:
    await change_isr(waiting.world, "t", 3, partitions=[1])
    waiting.world.die(3)
    await waiting.settle()
    assert leader(waiting, OTHER) == -1
    assert waits(waiting)

    waiting.world.register(3)
    await waiting.settle()

    assert leader(waiting, OTHER) == 3


async def test_the_deletion_begins_when_the_moving_partition_is_offline(waiting: Disks) -> None:
    await change_isr(waiting.world, "t", 1)
    waiting.world.die(1)
    await waiting.settle()

    assert waiting.world.context.deletions.started == {"t"}


async def test_another_leader_is_elected_while_the_znode_of_the_topic_is_in_quarantine(waiting: Disks) -> None:
    """No deletion begins then, so that the topic is served even when the reassignment cannot end any more."""
    waiting.world.tree.put("/brokers/topics/t", b"not JSON")
    waiting.world.die(4)
    await waiting.settle()

    waiting.world.die(3)
    await waiting.settle()

    assert leader(waiting, OTHER) == 1
    assert waiting.metadata[2][OTHER] == 1


async def test_the_topic_is_deleted_when_another_client_makes_the_reassignment_invalid(waiting: Disks) -> None:
    """No other event checks the topic then: brokers would be sent its deletion with the next change of its ISR."""
    body = json.loads(waiting.world.tree.nodes["/brokers/topics/t"].data or b"")
    waiting.world.tree.put("/brokers/topics/t", json.dumps(body | {"adding_replicas": {"0": [9]}}).encode())
    await waiting.settle()
    await fire(waiting.world, TopicDeletion())
    await waiting.settle()

    assert "/brokers/topics/t" not in waiting.world.tree.nodes


async def test_the_topic_is_deleted_when_a_reassignment_with_an_unreadable_state_is_cancelled(waiting: Disks) -> None:
    """The state cannot be read, so no completed reassignment begins the deletion."""
    state, znode = "/brokers/topics/t/partitions/0/state", "/brokers/topics/t"
    body = json.loads(waiting.world.tree.nodes[znode].data or b"")
    body |= {"partitions": body["partitions"] | {"0": [2, 1]}, "adding_replicas": {}}
    waiting.world.tree.put(state, b"not JSON")
    waiting.world.context.put_in_quarantine(state, "not JSON")
    waiting.world.tree.put(znode, json.dumps(body).encode())
    await waiting.settle()

    assert await waiting.world.call(ApiPartitionReassignment(ALICE, {MOVING: None})) == {MOVING: KafkaError.NONE}
    await waiting.settle()
    await fire(waiting.world, TopicDeletion())
    await waiting.settle()

    assert znode not in waiting.world.tree.nodes


async def test_the_next_controller_elects_a_leader_for_the_topic_too(waiting: Disks) -> None:
    after = successor(waiting, 3)
    waiting.world.zk.expire()
    after.world.die(3)

    await after.start()

    assert leader(after, OTHER) == 1
    assert waits(after)


async def test_the_deletion_completes_when_the_reassignment_has_completed(waiting: Disks) -> None:
    waiting.world.die(3)
    await waiting.settle()
    await change_isr(waiting.world, "t", 1, 2, 4)
    await waiting.settle()
    waiting.world.register(3)
    await waiting.settle()

    assert "t" not in waiting.world.context.topics
    assert "/brokers/topics/t" not in waiting.world.tree.nodes
    assert waiting.logs == {broker: set() for broker in (1, 2, 3, 4, 5)}
