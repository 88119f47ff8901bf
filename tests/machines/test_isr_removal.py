"""A broker is removed from the ISRs of its partitions; a leader that is removed has a successor or none."""

import json

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.machines.isr_removal import IsrRemoval
from controllerd.record.records import DecisionRecord, RefusedRecord
from controllerd.slicer import Slicer
from tests.fakes.world import World, tp


def removal(world: World, broker: int, *, hand_over: bool) -> IsrRemoval:
    return IsrRemoval(BrokerId(broker), world.context, world.c.store.states, world.audit, Slicer(), hand_over=hand_over)


@pytest.mark.parametrize(("hand_over", "leader"), [(False, -1), (True, 2)])
async def test_a_leader_that_is_removed_has_a_successor_only_with_hand_over(
    world: World, hand_over: bool, leader: int
) -> None:
    record = world.context.record(tp("t"))

    assert await removal(world, 1, hand_over=hand_over).run([record]) == [record]

    assert world.state("t")[:3] == (leader, 1, [2, 3])
    assert len(world.audit.of(DecisionRecord)) == hand_over


async def test_the_successor_is_online_assigned_and_in_sync(world: World) -> None:
    world.context.mark_shutting_down(BrokerId(2))

    await removal(world, 1, hand_over=True).run([world.context.record(tp("t"))])

    assert world.state("t")[:3] == (3, 1, [2, 3])


async def test_without_an_eligible_successor_the_partition_has_no_leader(world: World) -> None:
    for broker in (2, 3):
        world.context.mark_shutting_down(BrokerId(broker))

    await removal(world, 1, hand_over=True).run([world.context.record(tp("t"))])

    assert world.state("t")[:3] == (-1, 1, [2, 3])


async def test_a_follower_that_is_removed_does_not_change_the_leader(world: World) -> None:
    await removal(world, 3, hand_over=True).run([world.context.record(tp("t"))])

    assert world.state("t")[:3] == (1, 1, [1, 2])
    assert world.audit.of(DecisionRecord) == []


async def test_a_state_that_changed_meanwhile_is_read_and_decided_again(world: World) -> None:
    record, path = world.context.record(tp("t")), tp("t").state_path
    state = json.loads(world.tree.nodes[path].data or b"")
    world.tree.put(path, json.dumps({**state, "isr": [3]}).encode())

    assert await removal(world, 1, hand_over=False).run([record]) == [record]

    assert world.state("t") == (1, 0, [3], 1)
    assert record.leadership == LeaderAndIsr(BrokerId(1), 0, (BrokerId(3),), 1, 1)


async def test_a_state_that_cannot_be_understood_is_refused_and_left(world: World) -> None:
    world.context.put_in_quarantine(tp("t").state_path, "not JSON")

    assert await removal(world, 1, hand_over=False).run([world.context.record(tp("t"))]) == []

    assert [record.reasons for record in world.audit.of(RefusedRecord)] == [["in quarantine: not JSON"]]
