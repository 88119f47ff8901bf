"""Requests for elections at a version, changed configurations that were seen already, delegation tokens."""

from controllerd.core.model import TopicPartition
from controllerd.results import ElectionsRead
from controllerd.zk import codecs, paths
from tests.zk.world import World

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_a_request_for_an_election_that_says_something_else_by_now_is_kept(world: World) -> None:
    await world.ours.lead()
    path = paths.PREFERRED_REPLICA_ELECTION
    await world.theirs.put(path, codecs.encode_preferred_election([T0]))
    read = await world.ours.store.read_preferred_election()
    assert read is not None
    await world.theirs.put(path, codecs.encode_preferred_election([T1]))

    assert not await world.ours.store.delete_preferred_election(read.version)
    assert await world.ours.store.read_preferred_election() == ElectionsRead((T1,), 1)
    assert await world.ours.store.delete_preferred_election(1)
    assert await world.ours.store.delete_preferred_election(1)


async def test_changes_that_are_known_are_not_read_again(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.ensure_paths()
    for number, entity in enumerate(("topics/a", "topics/b")):
        await world.theirs.put(paths.config_change(f"config_change_{number:010}"), codecs.encode_config_change(entity))

    read = await world.ours.store.read_config_changes({"config_change_0000000000", "config_change_purged"})

    assert read.entities == {"config_change_0000000001": "topics/b"}
    assert read.names == {"config_change_0000000000", "config_change_0000000001"}


async def test_delegation_tokens_are_found_where_there_are_some(world: World) -> None:
    await world.ours.lead()
    assert not await world.ours.store.has_delegation_tokens()
    await world.theirs.put(paths.DELEGATION_TOKENS, b"")
    assert not await world.ours.store.has_delegation_tokens()

    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/one", b"{}")

    assert await world.ours.store.has_delegation_tokens()
