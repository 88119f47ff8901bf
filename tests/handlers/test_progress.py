"""Readers see since when reassignments and deletions are under way."""

from controllerd.core.progress import Age
from events.cluster import Resign
from tests.fakes.reassigning import reassign, successor
from tests.fakes.world import World, tp


async def test_a_reassignment_is_as_old_as_its_beginning(world: World) -> None:
    world.put_topic("t", {0: [1, 2], 1: [1, 2]})
    await world.settle()
    world.clock.now = 5_000.0
    await reassign(world, {tp("t"): [1, 3]})
    world.clock.now = 6_000.0
    await reassign(world, {tp("t", 1): [1, 3]})

    progress = world.snapshot.progress
    assert sorted(progress.reassignments()) == [tp("t"), tp("t", 1)]
    assert progress.reassignment(tp("t")) == Age(5_000_000)
    assert progress.reassignment(tp("t", 1)) == Age(6_000_000)

    await reassign(world, {tp("t"): None, tp("t", 1): None})
    assert list(progress.reassignments()) == []
    assert progress.reassignment(tp("t")) is None


async def test_a_deletion_is_as_old_as_its_request(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.clock.now = 5_000.0
    world.tree.put("/admin/delete_topics/t")
    await world.settle()

    assert world.snapshot.progress.deletions == {"t": Age(5_000_000)}


async def test_a_reassignment_from_before_the_term_is_older_than_the_term(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    await reassign(world, {tp("t"): [1, 3]})

    after = await successor(world)

    assert after.snapshot.progress.reassignment(tp("t")) == Age(after.clock.now_ms(), is_older=True)


async def test_a_standby_shows_no_ages(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    await reassign(world, {tp("t"): [1, 3]})
    world.tree.put("/admin/delete_topics/t")
    await world.settle()

    await world.call(Resign())

    assert list(world.snapshot.progress.reassignments()) == []
    assert world.snapshot.progress.deletions == {}
