"""ISRs that are written ahead, beside the elections of the same event."""

import pytest

from controllerd.core.model import ReplicaState
from controllerd.errors import IllegalState
from tests.fakes.world import World, ids, tp

(ONE, THREE) = ids(1, 3)


async def test_what_was_written_ahead_is_not_written_again(world: World) -> None:
    removal = world.c.replicas.removal(THREE, [tp("t")])
    await removal.begin()

    await world.c.replicas.handle_on({THREE: [tp("t")]}, ReplicaState.OFFLINE, removal)

    assert world.state("t") == (1, 1, [1, 2], 1)
    assert len(world.zk.writes) == 1


async def test_the_context_learns_of_it_only_when_the_replicas_go_offline(world: World) -> None:
    before = world.context.leadership(tp("t"))

    await world.c.replicas.removal(THREE, [tp("t")]).begin()

    assert world.context.leadership(tp("t")) == before


async def test_the_broker_is_stopped_with_the_epoch_that_it_knows_all_the_same(world: World) -> None:
    removal = world.c.replicas.removal(THREE, [tp("t")])
    await removal.begin()

    await world.c.replicas.handle_on({THREE: [tp("t")]}, ReplicaState.OFFLINE, removal)

    assert world.brief(3) == ["UpdateMetadata(t-0 1/1 [1, 2])", "StopReplica(t-0 0)"]


async def test_what_the_broker_leads_waits_for_its_election(world: World) -> None:
    await world.c.replicas.removal(ONE, [tp("t")]).begin()

    assert world.zk.writes == []


async def test_a_state_that_somebody_else_wrote_meanwhile_is_read_and_decided_again(world: World) -> None:
    foreign = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1,3]}'
    world.tree.put(tp("t").state_path, foreign)
    removal = world.c.replicas.removal(THREE, [tp("t")])
    await removal.begin()

    await world.c.replicas.handle_on({THREE: [tp("t")]}, ReplicaState.OFFLINE, removal)

    assert world.state("t")[:3] == (1, 5, [1])


async def test_an_isr_that_was_written_ahead_and_is_not_asked_for_is_a_defect(world: World) -> None:
    removal = world.c.replicas.removal(THREE, [tp("t")])
    await removal.begin()

    with pytest.raises(IllegalState):
        await removal.run([])
