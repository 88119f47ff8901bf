"""Requests for elections at a version, changed configurations that were seen already, delegation tokens."""

import pytest

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerMoved
from controllerd.results import Conflict, ElectionsRead, Written
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


def token_of(name: str, expires_ms: int) -> bytes:
    """As a broker of 3.9 writes it."""
    return (
        b'{"version":3,"owner":"User%%3Aalice","tokenRequester":"User%%3Aalice","renewers":[],"issueTimestamp":1,'
        b'"maxTimestamp":9000,"expiryTimestamp":%d,"tokenId":"%s"}'
    ) % (expires_ms, name.encode())


async def test_a_token_is_deleted_with_the_notification_of_brokers(world: World) -> None:
    await world.ours.lead()
    store = world.ours.store
    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/one", token_of("one", 5))
    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/two", token_of("two", 10_000))
    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/rubbish", b"{")

    read = await store.read_delegation_tokens()
    assert {name: (each.owner, each.expires_ms) for name, each in read.tokens.items()} == {
        "one": ("User%3Aalice", 5),
        "two": ("User%3Aalice", 9_000),
    }
    assert [bad.path for bad in read.broken] == [f"{paths.DELEGATION_TOKENS}/rubbish"]
    results = await store.delete_delegation_tokens({"one": read.tokens["one"]})

    assert [isinstance(each, Written) for each in results.values()] == [True]
    assert (await store.read_delegation_tokens()).tokens.keys() == {"two"}
    (note,) = await world.theirs.zk.children(paths.DELEGATION_CHANGES) or []
    (node,) = await world.theirs.zk.read([f"{paths.DELEGATION_CHANGES}/{note}"])
    assert node is not None
    assert (note, node.data) == ("token_change_0000000000", b"one")


async def test_a_token_that_was_renewed_since_stays_and_nobody_is_told(world: World) -> None:
    await world.ours.lead()
    store, path = world.ours.store, f"{paths.DELEGATION_TOKENS}/one"
    await world.theirs.put(path, token_of("one", 5))
    read = await store.read_delegation_tokens()
    await world.theirs.put(path, token_of("one", 8_000))

    results = await store.delete_delegation_tokens(read.tokens)

    assert [isinstance(each, Conflict) for each in results.values()] == [True]
    assert (await store.read_delegation_tokens()).tokens["one"].expires_ms == 8_000
    assert not await world.theirs.zk.children(paths.DELEGATION_CHANGES)


async def test_whoever_was_deposed_deletes_no_token(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/one", token_of("one", 5))
    read = await world.ours.store.read_delegation_tokens()
    await world.theirs.put(paths.CONTROLLER_EPOCH, b"99")

    with pytest.raises(ControllerMoved):
        await world.ours.store.delete_delegation_tokens(read.tokens)

    assert (await world.ours.store.read_delegation_tokens()).tokens.keys() == {"one"}
