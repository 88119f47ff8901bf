"""The controller reads a partition state before a change only where leaders write ISRs themselves."""

from collections.abc import Sequence

import pytest

from controllerd.core.election import OfflineElection
from controllerd.core.model import Features, LeaderAndIsr, PartitionState, Replica, ReplicaState
from controllerd.zk.access import Znode
from tests.fakes.world import World, ids, tp

STATE = "/brokers/topics/t/partitions/0/state"
SHRUNK_BY_ITS_LEADER = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2]}'


async def world_of(features: Features) -> World:
    world = World(features=features)
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: [1, 2, 3]})
    return await world.settle()


def count_reads(world: World) -> list[str]:
    read = world.zk.read
    seen: list[str] = []

    async def counted(paths: Sequence[str]) -> list[Znode | None]:
        seen.extend(paths)
        return await read(paths)

    world.zk.read = counted  # type: ignore[method-assign]
    return seen


@pytest.mark.parametrize(("alter_partition", "reads"), [(True, []), (False, [STATE])])
async def test_an_election_reads_a_state_only_where_leaders_write_it_themselves(
    *, alter_partition: bool, reads: list[str]
) -> None:
    world = await world_of(Features(alter_partition=alter_partition))
    seen = count_reads(world)

    await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, OfflineElection())

    assert (seen, world.state("t")) == (reads, (1, 1, [1, 2, 3], 1))


@pytest.mark.parametrize(("alter_partition", "reads"), [(True, []), (False, [STATE])])
async def test_an_isr_shrinks_without_a_read_unless_leaders_write_it_themselves(
    *, alter_partition: bool, reads: list[str]
) -> None:
    world = await world_of(Features(alter_partition=alter_partition))
    seen = count_reads(world)

    await world.c.replicas.handle([Replica(tp("t"), ids(3)[0])], ReplicaState.OFFLINE)

    assert (seen, world.state("t")) == (reads, (1, 1, [1, 2], 1))


async def test_an_isr_that_changed_without_an_event_is_read_and_decided_again() -> None:
    world = await world_of(Features())
    world.tree.put(STATE, SHRUNK_BY_ITS_LEADER)

    await world.c.replicas.handle([Replica(tp("t"), ids(2)[0])], ReplicaState.OFFLINE)

    assert world.state("t") == (1, 1, [1], 2)


async def test_a_state_of_a_later_controller_is_read_and_left_alone() -> None:
    world = await world_of(Features())
    world.context.set_leadership(tp("t"), LeaderAndIsr(ids(1)[0], 0, ids(1, 2, 3), 9, 0))
    world.tree.put(STATE, b'{"controller_epoch":9,"leader":1,"version":1,"leader_epoch":0,"isr":[1,2,3]}')

    elections = await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, OfflineElection())

    assert elections.failed == {tp("t"): "written by controller epoch 9, ours is 1"}


async def test_a_state_in_quarantine_is_left_alone_until_it_is_read_again() -> None:
    """The state may have been repaired meanwhile, but QuarantineCheck alone reads it and releases it."""
    world = await world_of(Features())
    world.c.context.put_in_quarantine(STATE, "not JSON")
    before = world.state("t")

    outcome = await world.c.partitions.handle([tp("t")], PartitionState.ONLINE, OfflineElection())
    await world.c.replicas.handle([Replica(tp("t"), ids(3)[0])], ReplicaState.OFFLINE)

    assert world.state("t") == before
    assert outcome.failed == {tp("t"): "in quarantine: not JSON"}
