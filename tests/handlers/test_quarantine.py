"""States in quarantine that are repaired while their topic is being deleted."""

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderAndIsr, PartitionState
from events.cluster import QuarantineCheck
from tests.fakes.disks import Disks, successor
from tests.fakes.world import World, tp
from tests.handlers.test_isr_change import ask
from tests.handlers.test_pauses import pause

STATE = "/brokers/topics/t/partitions/0/state"


@pytest.fixture
async def after() -> Disks:
    """Brokers 1 to 3 with the topic t, whose state the new controller cannot read; broker 3 is silent."""
    before = Disks(World())
    for broker in (1, 2, 3):
        before.world.register(broker)
    await before.start()
    before.world.put_topic("t", {0: [1, 2, 3]})
    await before.settle()
    sound = before.world.tree.nodes[STATE].data
    before.world.tree.put(STATE, b"not JSON")
    after = successor(before, 2)
    before.world.zk.expire()
    await after.start()
    after.silent = {3}
    after.world.tree.put("/admin/delete_topics/t")
    await after.settle()
    after.world.tree.put(STATE, sound)
    return after


async def test_a_repaired_state_starts_no_replica_that_is_being_deleted(after: Disks) -> None:
    """A broker that has deleted its replica would begin it anew, and keep it when the topic is gone."""
    requests_before = {broker: len(after.world.brief(broker)) for broker in (1, 2, 3)}
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert [
        line for b in requests_before for line in after.world.brief(b)[requests_before[b] :] if "LeaderAndIsr" in line
    ] == []
    assert (after.logs[1], after.logs[2]) == (set(), set())


async def test_a_repaired_state_of_a_topic_that_is_being_deleted_leaves_the_quarantine(after: Disks) -> None:
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert isinstance(after.world.context.leadership(tp("t")), LeaderAndIsr)
    assert STATE not in after.world.context.quarantine


async def test_no_leader_is_elected_for_a_repaired_partition_whose_replicas_are_being_deleted(after: Disks) -> None:
    """The leader has not received the deletion yet and names an older partition epoch, which an election would answer.

    The LeaderAndIsr of an election reaches a broker after its StopReplica: the broker begins the
    replica anew, and has it for good when the topic is gone.
    """
    after.world.queue.put(QuarantineCheck())
    await after.settle()
    before = after.world.state("t")

    reply = await after.world.call(ask(after.world, (1, 2), by=1, leader_epoch=0, partition_epoch=0))
    await after.settle()

    assert after.world.state("t") == before
    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
    assert (after.logs[1], after.logs[2]) == (set(), set())


async def test_a_repaired_partition_whose_deletion_has_begun_stays_nonexistent(after: Disks) -> None:
    after.world.queue.put(QuarantineCheck())
    await after.settle()

    assert after.world.context.partition_state(tp("t")) is PartitionState.NON_EXISTENT


async def test_a_repaired_state_does_not_keep_its_topic_from_being_deleted(after: Disks) -> None:
    after.world.queue.put(QuarantineCheck())
    await after.settle()
    after.silent, after._at = set(), 0
    await after.settle()

    assert "/brokers/topics/t" not in after.world.tree.nodes
    assert all(logs == set() for logs in after.logs.values())


async def test_no_leader_is_elected_for_a_topic_whose_deletion_is_paused_after_it_began(after: Disks) -> None:
    """The next controller loads the repaired state and counts the partition as online while the pause lasts."""
    await after.world.call(pause(after.world))
    after.world.zk.expire()
    third = successor(after, 3)
    await third.start()
    before = third.world.state("t")

    reply = await third.world.call(ask(third.world, (1, 2), by=1, leader_epoch=0, partition_epoch=0))
    await third.settle()

    assert third.world.state("t") == before
    assert reply.partitions == {tp("t"): KafkaError.UNKNOWN_SERVER_ERROR}
