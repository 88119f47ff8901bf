"""Delegation tokens that have expired are deleted, and brokers are notified; other tokens stay."""

import json

from controllerd.core.cluster_settings import Policy
from controllerd.record.records import AlarmRecord, RejectedRecord
from controllerd.zk.access import SetData
from events.cluster import DelegationTokenExpiryCheck, SelfAudit
from tests.fakes.world import World

TOKENS, CHANGES = "/delegation_token/tokens", "/delegation_token/token_changes"
HOUR_MS = 3_600_000


def token(name: str, expires_in_ms: int, *, longest_in_ms: int = 24 * HOUR_MS, **fields: object) -> bytes:
    """A token as a broker of 3.9 writes it; times from the start of ``World``'s clock."""
    now = 1_000_000
    body = {
        "version": 3,
        "owner": "User%3Aalice",
        "tokenRequester": "User%3Aalice",
        "renewers": ["User%3Abob"],
        "issueTimestamp": 1,
        "maxTimestamp": now + longest_in_ms,
        "expiryTimestamp": now + expires_in_ms,
        "tokenId": name,
    }
    return json.dumps(body | fields).encode()


def put(world: World, name: str, expires_in_ms: int, **fields: object) -> None:
    world.tree.put(f"{TOKENS}/{name}", token(name, expires_in_ms, **fields))  # type: ignore[arg-type]


def names(world: World) -> set[str]:
    return set(world.tree.children(TOKENS) or [])


def notified_tokens(world: World) -> list[bytes | None]:
    """The tokens that notifications name, in order."""
    return [world.tree.nodes[f"{CHANGES}/{name}"].data for name in sorted(world.tree.children(CHANGES) or [])]


async def check_expiry(world: World) -> None:
    """Let the time of the next check come."""
    for event in world.timers.fire():
        if isinstance(event, DelegationTokenExpiryCheck):
            world.queue.put(event)
    await world.settle()


async def with_tokens(**expiries: int) -> World:
    """An active controller of a cluster with these tokens, before its first check."""
    world = World()
    world.tree.put(CHANGES)
    for name, expires_in_ms in expiries.items():
        put(world, name, expires_in_ms)
    await world.start()
    world.forget()
    return world


async def test_expired_tokens_are_deleted_and_brokers_are_notified() -> None:
    world = await with_tokens(over=-1, lives=1, long_over=-HOUR_MS)

    await check_expiry(world)

    assert names(world) == {"lives"}
    assert sorted(filter(None, notified_tokens(world))) == [b"long_over", b"over"]


async def test_a_token_past_its_maximum_lifetime_has_expired() -> None:
    world = await with_tokens()
    put(world, "old", HOUR_MS, longest_in_ms=-1)
    world.queue.put(DelegationTokenExpiryCheck())
    await world.settle()

    assert names(world) == set()


async def test_a_token_and_its_notification_are_one_fenced_transaction() -> None:
    world = await with_tokens(over=-1)

    await check_expiry(world)

    assert len(world.zk.transactions) == 1
    assert [(write.op, write.path) for write in world.zk.writes] == [
        ("delete", f"{TOKENS}/over"),
        ("create", f"{CHANGES}/token_change_"),
    ]


async def test_a_token_that_a_broker_renews_at_the_same_moment_stays() -> None:
    world = await with_tokens(over=-1)
    renewed = SetData(f"{TOKENS}/over", token("over", HOUR_MS), -1)
    world.zk.before_transaction[len(world.zk.transactions) + 1] = lambda: world.tree.outsider(renewed)

    await check_expiry(world)

    assert names(world) == {"over"}
    assert notified_tokens(world) == []
    assert world.audit.of(AlarmRecord) == []


async def test_tokens_expire_one_check_after_the_other() -> None:
    world = World(policy=Policy(delegation_token_expiry_check_interval_s=60.0))
    world.tree.put(CHANGES)
    put(world, "soon", 30_000)
    await world.start()
    await check_expiry(world)
    assert names(world) == {"soon"}
    assert (60.0, DelegationTokenExpiryCheck()) in world.timers.later

    world.clock.now += 60
    await check_expiry(world)

    assert names(world) == set()


async def test_a_cluster_without_tokens_is_not_checked_again() -> None:
    world = await with_tokens()

    assert DelegationTokenExpiryCheck() not in [event for _, event in world.timers.later]


async def test_tokens_that_are_created_later_are_found_by_the_comparison_with_zookeeper() -> None:
    world = await with_tokens()
    put(world, "later", -1)

    world.queue.put(SelfAudit())
    await world.settle()
    await check_expiry(world)

    assert names(world) == set()


async def test_a_token_that_cannot_be_understood_is_left_alone_and_stays_in_quarantine_until_it_is_gone() -> None:
    world = await with_tokens(over=-1)
    bodies = {"rubbish": b"{", "newer": token("newer", -1, version=4), "foreign": token("over", -1), "empty": b""}
    for name, body in bodies.items():
        world.tree.put(f"{TOKENS}/{name}", body)

    await check_expiry(world)
    assert names(world) == bodies.keys()
    assert world.snapshot.quarantine.keys() == {f"{TOKENS}/{name}" for name in bodies}
    assert {each.content for each in world.audit.of(RejectedRecord)} == {""}, "it may be a secret"

    for name in bodies:
        world.tree.remove(f"{TOKENS}/{name}")
    await check_expiry(world)
    assert world.snapshot.quarantine == {}


async def test_the_formats_of_older_brokers_are_understood() -> None:
    world = await with_tokens()
    body = json.loads(token("old", -1, version=1))
    del body["tokenRequester"]
    world.tree.put(f"{TOKENS}/old", json.dumps(body).encode())
    world.queue.put(DelegationTokenExpiryCheck())
    await world.settle()

    assert names(world) == set()


async def test_the_parent_znode_of_notifications_is_created_when_it_is_missing() -> None:
    world = World()
    put(world, "over", -1)
    await world.start()

    await check_expiry(world)

    assert names(world) == set()
    assert notified_tokens(world) == [b"over"]


async def test_a_standby_deletes_nothing() -> None:
    world = World()
    put(world, "over", -1)
    world.queue.put(DelegationTokenExpiryCheck())
    await world.settle()

    assert names(world) == {"over"}
    assert world.timers.later == []
