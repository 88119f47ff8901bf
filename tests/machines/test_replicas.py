"""The replica state machine: the requests of each transition, and the ISRs that shrink."""

import pytest

from controllerd.core.model import Replica, ReplicaAssignment, ReplicaState
from controllerd.record.records import RefusedRecord
from tests.fakes.world import World, ids, tp

FOLLOWER = Replica(tp("t"), ids(3)[0])
LEADER = Replica(tp("t"), ids(1)[0])


async def test_a_replica_that_goes_offline_is_stopped_with_its_epoch_and_the_others_are_sent_the_next(
    world: World,
) -> None:
    await world.c.replicas.handle([FOLLOWER], ReplicaState.OFFLINE)

    assert world.state("t") == (1, 1, [1, 2], 1)
    assert world.brief(3) == ["UpdateMetadata(t-0 1/1 [1, 2])", "StopReplica(t-0 0)"]
    assert world.brief(2) == ["LeaderAndIsr(t-0 1/1 [1, 2])", "UpdateMetadata(t-0 1/1 [1, 2])"]


async def test_a_leader_that_goes_offline_leaves_the_partition_without_leader(world: World) -> None:
    await world.c.replicas.handle([LEADER], ReplicaState.OFFLINE)

    assert world.state("t") == (-1, 1, [2, 3], 1)


async def test_a_replica_outside_the_isr_goes_offline_without_a_write(world: World) -> None:
    await world.c.replicas.handle([FOLLOWER], ReplicaState.OFFLINE)
    await world.c.replicas.handle([FOLLOWER], ReplicaState.ONLINE)
    world.forget()

    await world.c.replicas.handle([FOLLOWER], ReplicaState.OFFLINE)

    assert world.zk.writes == []
    assert world.brief(1) == ["LeaderAndIsr(t-0 1/1 [1, 2])", "UpdateMetadata(t-0 1/1 [1, 2])"]


async def test_the_last_member_stays_in_the_isr(world: World) -> None:
    for broker in ids(1, 2, 3):
        await world.c.replicas.handle([Replica(tp("t"), broker)], ReplicaState.OFFLINE)

    assert world.state("t") == (-1, 3, [3], 3)


async def test_deletion_goes_through_its_states_and_removes_the_replica(world: World) -> None:
    world.context.set_assignment(tp("t"), ReplicaAssignment(ids(1, 2, 3), removing=ids(3)))
    for state in (ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL):
        await world.c.replicas.handle([FOLLOWER], state)
    await world.c.replicas.handle([FOLLOWER], ReplicaState.NON_EXISTENT)

    assert world.context.replica_state(FOLLOWER) is ReplicaState.NON_EXISTENT
    assert world.context.assignment(tp("t")).replicas == ids(1, 2)
    assert world.brief(3)[-1] == "StopReplica(t-0 1 delete)"


@pytest.mark.parametrize("target", [ReplicaState.DELETION_STARTED, ReplicaState.NON_EXISTENT, ReplicaState.NEW])
async def test_an_illegal_transition_is_refused_recorded_and_changes_nothing(
    world: World, target: ReplicaState
) -> None:
    await world.c.replicas.handle([FOLLOWER], target)

    assert world.context.replica_state(FOLLOWER) is ReplicaState.ONLINE
    assert (world.zk.writes, world.channels.sent) == ([], [])
    assert len(world.audit.of(RefusedRecord)) == 1
