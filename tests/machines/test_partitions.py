"""The partition state machine: refusals, compare-and-set, and the requests of each election."""

import pytest

from controllerd.core.election import (
    ControlledShutdownElection,
    ElectionStrategy,
    OfflineElection,
    PreferredElection,
    ReassignmentElection,
)
from controllerd.core.model import BrokerId, PartitionState, TopicPartition
from controllerd.errors import IllegalState
from controllerd.record.records import DecisionRecord, RefusedRecord
from tests.fakes.world import World, tp

STATE = "/brokers/topics/t/partitions/0/state"


async def test_an_illegal_transition_is_refused_and_recorded_while_the_others_proceed(world: World) -> None:
    unknown = TopicPartition("t", 9)

    await world.c.partitions.handle([unknown, tp("t")], PartitionState.OFFLINE)

    assert world.context.partition_state(tp("t")) is PartitionState.OFFLINE
    (refused,) = world.audit.of(RefusedRecord)
    assert refused.partitions == [9]
    assert refused.reasons == ["no transition from NonExistentPartition to OfflinePartition"]


async def test_no_partition_costs_no_transaction_and_no_request(world: World) -> None:
    elections = await world.c.partitions.handle([], PartitionState.ONLINE, OfflineElection())

    assert (elections.elected, world.zk.transactions, world.channels.sent) == ({}, [], [])


@pytest.mark.parametrize(
    "strategy", [OfflineElection(), PreferredElection(), ReassignmentElection(), ControlledShutdownElection()]
)
async def test_every_election_raises_the_leader_epoch_by_one_and_is_sent_to_the_replicas(
    world: World, strategy: ElectionStrategy
) -> None:
    elections = await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, strategy)

    assert world.state("t") == (1, 1, [1, 2, 3], 1)
    assert elections.elected[tp("t")].partition_epoch == 1
    for broker in (1, 2, 3):
        assert world.brief(broker) == ["LeaderAndIsr(t-0 1/1 [1, 2, 3])", "UpdateMetadata(t-0 1/1 [1, 2, 3])"]


async def test_an_election_without_strategy_is_an_illegal_state(world: World) -> None:
    with pytest.raises(IllegalState, match="strategy"):
        await world.c.partitions.handle([tp("t")], PartitionState.ONLINE)


async def test_a_failed_election_leaves_state_znode_and_brokers_alone(world: World) -> None:
    world.context.mark_shutting_down(BrokerId(1))

    elections = await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, PreferredElection())

    assert list(elections.failed) == [tp("t")]
    assert world.context.partition_state(tp("t")) is PartitionState.ONLINE
    assert (world.zk.writes, world.channels.sent) == ([], [])


async def test_after_a_lost_race_the_state_is_read_and_decided_again(world: World) -> None:
    foreign = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[3]}'
    world.zk.before_transaction[1] = lambda: world.tree.put(STATE, foreign)

    await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, OfflineElection())

    assert world.state("t") == (3, 1, [3], 2)
    assert [record.leaders for record in world.audit.of(DecisionRecord)] == [[1], [3]]


async def test_a_state_of_a_newer_controller_fails_that_partition_alone(world: World) -> None:
    world.tree.put(STATE, b'{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}')

    elections = await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, OfflineElection())

    assert elections.failed == {tp("t"): "written by controller epoch 9, ours is 1"}
    assert world.c.is_active


async def test_a_new_partition_with_an_existing_state_gets_an_election(world: World) -> None:
    world.tree.put("/brokers/topics/t/partitions/1/state", world.tree.nodes[STATE].data)
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 3]})

    await world.settle()

    assert world.state("t", 1) == (2, 1, [2, 3], 1)


async def test_a_new_partition_with_an_existing_state_and_dead_replicas_is_sent_as_offline(
    world: World,
) -> None:
    """A failover does the same. Without the request, the metadata of brokers would lack an existing partition."""
    world.tree.put("/brokers/topics/t/partitions/1/state", state_of(leader=7))
    world.put_topic("t", {0: [1, 2, 3], 1: [7]})

    await world.settle()

    assert world.context.partition_state(tp("t", 1)) is PartitionState.OFFLINE
    assert world.context.leadership(tp("t", 1)) is not None
    assert world.brief(1) == ["UpdateMetadata(t-1 7/0 [7] offline [7])"]


async def test_a_new_partition_whose_isr_is_dead_is_offline(world: World) -> None:
    world.tree.put("/brokers/topics/t/partitions/1/state", state_of(leader=7))
    world.put_topic("t", {0: [1, 2, 3], 1: [7, 1]})

    await world.settle()

    assert world.context.partition_state(tp("t", 1)) is PartitionState.OFFLINE
    assert world.brief(1) == ["UpdateMetadata(t-1 7/0 [7] offline [7])"]


def state_of(leader: int) -> bytes:
    return b'{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":0,"isr":[%d]}' % (leader, leader)
