"""Delegation tokens: found, deleted with their notification, and only by the active controller."""

import pytest

from controllerd.errors import ControllerMoved
from controllerd.ports.results import Conflict, Written
from controllerd.zk import paths
from tests.zk.world import World


async def test_delegation_tokens_are_found_where_there_are_some(world: World) -> None:
    await world.ours.lead()
    assert not await world.ours.store.tokens.has_delegation_tokens()
    await world.theirs.put(paths.DELEGATION_TOKENS, b"")
    assert not await world.ours.store.tokens.has_delegation_tokens()

    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/one", b"{}")

    assert await world.ours.store.tokens.has_delegation_tokens()


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

    read = await store.tokens.read_delegation_tokens()
    assert {name: (each.owner, each.expires_ms) for name, each in read.tokens.items()} == {
        "one": ("User%3Aalice", 5),
        "two": ("User%3Aalice", 9_000),
    }
    assert [bad.path for bad in read.broken] == [f"{paths.DELEGATION_TOKENS}/rubbish"]
    results = await store.tokens.delete_delegation_tokens({"one": read.tokens["one"]})

    assert [isinstance(each, Written) for each in results.values()] == [True]
    assert (await store.tokens.read_delegation_tokens()).tokens.keys() == {"two"}
    (note,) = await world.theirs.zk.children(paths.DELEGATION_CHANGES) or []
    (node,) = await world.theirs.zk.read([f"{paths.DELEGATION_CHANGES}/{note}"])
    assert node is not None
    assert (note, node.data) == ("token_change_0000000000", b"one")


async def test_a_token_that_was_renewed_since_stays_without_notification(world: World) -> None:
    await world.ours.lead()
    store, path = world.ours.store, f"{paths.DELEGATION_TOKENS}/one"
    await world.theirs.put(path, token_of("one", 5))
    read = await store.tokens.read_delegation_tokens()
    await world.theirs.put(path, token_of("one", 8_000))

    results = await store.tokens.delete_delegation_tokens(read.tokens)

    assert [isinstance(each, Conflict) for each in results.values()] == [True]
    assert (await store.tokens.read_delegation_tokens()).tokens["one"].expires_ms == 8_000
    assert not await world.theirs.zk.children(paths.DELEGATION_CHANGES)


async def test_a_deposed_controller_deletes_no_token(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(f"{paths.DELEGATION_TOKENS}/one", token_of("one", 5))
    read = await world.ours.store.tokens.read_delegation_tokens()
    await world.theirs.put(paths.CONTROLLER_EPOCH, b"99")

    with pytest.raises(ControllerMoved):
        await world.ours.store.tokens.delete_delegation_tokens(read.tokens)

    assert (await world.ours.store.tokens.read_delegation_tokens()).tokens.keys() == {"one"}
