"""Reassignments are throttled as by Kafka's tool, and the controller of that moment removes the throttle at the end."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.model import BrokerId
from controllerd.errors import CallRefused, NotController
from controllerd.services.throttles import GRACE_S
from events.cluster import Resign
from events.operator import ThrottleCheck, ThrottleReassignments, ThrottleReply
from handlers.throttles import RETRY_S
from tests.fakes.reassigning import change_isr, deletions_answered, reassign, successor
from tests.fakes.world import World, ids, tp

PATH = "/controllerd/throttle"
L_RATE, F_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
L_LIST, F_LIST = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
RATES = {L_RATE: "1000", F_RATE: "1000"}
LISTS = {L_LIST: "0:1,0:2", F_LIST: "0:3"}


def throttle(rate: int = 1000, *, override: bool = False) -> ThrottleReassignments:
    return ThrottleReassignments(rate, {tp("t"): ids(1, 3)}, "ann", override)


def config(world: World, entity: str) -> Mapping[str, str] | None:
    node = world.tree.nodes.get(f"/config/{entity}")
    return None if node is None else json.loads(node.data or b"")["config"]


def configs(world: World) -> list[Mapping[str, str] | None]:
    return [config(world, entity) for entity in ("brokers/1", "brokers/2", "brokers/3", "topics/t")]


def put_config(world: World, entity: str, values: Mapping[str, str], **extra: object) -> None:
    body = {"version": 1, "config": dict(values), **extra}
    world.tree.put(f"/config/{entity}", json.dumps(body).encode())


def notified(world: World) -> list[str]:
    """The entities that notifications name, in order."""
    children = sorted(path for path in world.tree.nodes if path.startswith("/config/changes/"))
    return [json.loads(world.tree.nodes[path].data or b"")["entity_path"] for path in children]


async def tick(world: World, within_s: float = 0.0) -> None:
    """Queue the events that are due within so many seconds, and handle them."""
    for event in world.timers.fire(within_s):
        world.queue.put(event)
    await world.settle()


async def finish(world: World) -> None:
    """The new replica has caught up, and the old one is deleted."""
    await change_isr(world, "t", 1, 2, 3)
    await deletions_answered(world)
    await tick(world)


@pytest.fixture
async def moving(world: World) -> World:
    """Topic t is on brokers 1 and 2, and is about to move to brokers 1 and 3."""
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.forget()
    return world


async def test_rates_and_replicas_are_set_and_brokers_are_notified(moving: World) -> None:
    reply = await moving.call(throttle())

    assert reply == ThrottleReply(ids(1, 2, 3), ("t",))
    assert configs(moving) == [RATES, RATES, RATES, LISTS]
    assert notified(moving) == ["brokers/1", "brokers/2", "brokers/3", "topics/t"]
    assert moving.snapshot.throttle is not None
    assert (moving.snapshot.throttle.rate, moving.snapshot.throttle.by) == (1000, "ann")


async def test_the_throttle_is_stored_before_it_is_set(moving: World) -> None:
    await moving.call(throttle())

    first = [operation.path for transaction in moving.zk.transactions for operation in transaction]
    assert first.index(PATH) < first.index("/config/brokers/1")


async def test_the_throttle_stays_while_the_reassignment_is_under_way(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})

    moving.clock.now += GRACE_S
    await tick(moving, GRACE_S)

    assert configs(moving) == [RATES, RATES, RATES, LISTS]


async def test_the_throttle_is_removed_when_the_reassignment_has_completed(moving: World) -> None:
    put_config(moving, "topics/t", {"retention.ms": "5"}, note="kept")
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})

    await finish(moving)

    assert configs(moving) == [{}, {}, {}, {"retention.ms": "5"}]
    assert json.loads(moving.tree.nodes["/config/topics/t"].data or b"")["note"] == "kept"
    assert PATH not in moving.tree.nodes
    assert moving.snapshot.throttle is None
    assert notified(moving)[-4:] == ["brokers/1", "brokers/2", "brokers/3", "topics/t"]


async def test_the_next_throttle_is_removed_as_soon_as_its_reassignment_has_ended(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})
    await finish(moving)

    await moving.call(ThrottleReassignments(1000, {tp("t"): ids(1, 2)}, "ann", False))
    await reassign(moving, {tp("t"): [1, 2]})
    await reassign(moving, {tp("t"): None})
    await tick(moving)

    assert moving.snapshot.throttle is None
    assert PATH not in moving.tree.nodes


async def test_the_throttle_is_removed_when_the_reassignment_is_cancelled(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})

    await reassign(moving, {tp("t"): None})
    await tick(moving)

    assert configs(moving) == [{}, {}, {}, {}]


async def test_the_throttle_is_removed_when_the_reassignment_never_begins(moving: World) -> None:
    await moving.call(throttle())
    await tick(moving)
    assert configs(moving) == [RATES, RATES, RATES, LISTS]

    moving.clock.now += GRACE_S
    await tick(moving, GRACE_S)

    assert configs(moving) == [{}, {}, {}, {}]


async def test_the_next_controller_removes_the_throttle(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})
    after = await successor(moving)
    await tick(after)
    assert configs(after) == [RATES, RATES, RATES, LISTS]
    assert after.snapshot.throttle is not None

    await finish(after)

    assert configs(after) == [{}, {}, {}, {}]
    assert PATH not in after.tree.nodes


async def test_the_throttle_of_a_reassignment_that_ended_between_two_terms_is_removed(moving: World) -> None:
    await moving.call(throttle())
    moving.zk.expire()
    after = World(tree=moving.tree, session_id=2)
    after.clock.now = moving.clock.now + GRACE_S
    await after.start()

    await tick(after)

    assert configs(after) == [{}, {}, {}, {}]


async def test_an_existing_throttle_refuses_the_request_and_nothing_is_set(moving: World) -> None:
    put_config(moving, "brokers/2", {L_RATE: "77"})

    with pytest.raises(CallRefused, match=r"brokers/2: leader.replication.throttled.rate is 77 already.*override"):
        await moving.call(throttle())

    assert configs(moving) == [None, {L_RATE: "77"}, None, None]
    assert PATH not in moving.tree.nodes


async def test_an_overridden_throttle_is_restored_at_the_end(moving: World) -> None:
    put_config(moving, "brokers/2", {L_RATE: "77"})
    await moving.call(throttle(override=True))
    assert config(moving, "brokers/2") == RATES
    await reassign(moving, {tp("t"): [1, 3]})

    await finish(moving)

    assert config(moving, "brokers/2") == {L_RATE: "77"}


async def test_a_rate_that_an_operator_changed_meanwhile_is_left_alone(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})
    put_config(moving, "brokers/1", {L_RATE: "5", F_RATE: "1000"})

    await finish(moving)

    assert config(moving, "brokers/1") == {L_RATE: "5"}


async def test_a_second_throttle_is_merged_with_the_first(moving: World) -> None:
    moving.put_topic("u", {0: [2]})
    await moving.settle()
    await moving.call(throttle())
    await moving.call(ThrottleReassignments(5000, {tp("u"): ids(3)}, "bob"))

    assert config(moving, "brokers/3") == {L_RATE: "5000", F_RATE: "5000"}
    assert config(moving, "topics/t") == LISTS
    await reassign(moving, {tp("t"): [1, 3], tp("u"): [3]})
    await finish(moving)
    assert config(moving, "brokers/3") == {L_RATE: "5000", F_RATE: "5000"}  # u still moves

    await reassign(moving, {tp("u"): None})
    await tick(moving)

    assert [*configs(moving), config(moving, "topics/u")] == [{}, {}, {}, {}, {}]


async def test_a_configuration_that_cannot_be_understood_is_left_alone_and_retried(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})
    kept = moving.tree.nodes["/config/brokers/2"].data
    moving.tree.put("/config/brokers/2", b"rubbish")
    await finish(moving)
    assert configs_of_others(moving) == [{}, {}]
    assert moving.tree.nodes["/config/brokers/2"].data == b"rubbish"
    assert PATH in moving.tree.nodes

    moving.tree.put("/config/brokers/2", kept or b"")
    moving.clock.now += RETRY_S
    await tick(moving, RETRY_S)

    assert config(moving, "brokers/2") == {}
    assert PATH not in moving.tree.nodes


def configs_of_others(world: World) -> list[Mapping[str, str] | None]:
    return [config(world, "brokers/1"), config(world, "brokers/3")]


async def test_a_configuration_that_cannot_be_understood_refuses_the_throttle(moving: World) -> None:
    moving.tree.put("/config/brokers/2", b"rubbish")

    with pytest.raises(CallRefused, match="nothing is throttled before that znode is repaired"):
        await moving.call(throttle())

    assert moving.tree.nodes["/config/brokers/2"].data == b"rubbish"


async def test_a_stored_throttle_that_cannot_be_understood_is_left_alone_and_nothing_is_set(moving: World) -> None:
    moving.tree.put(PATH, b"rubbish")
    after = await successor(moving)

    assert PATH in after.snapshot.quarantine
    with pytest.raises(CallRefused, match="repair or delete that znode"):
        await after.call(throttle())
    assert after.tree.nodes[PATH].data == b"rubbish"
    assert configs(after) == [None, None, None, None]


@pytest.mark.parametrize("rate", [0, -5])
async def test_a_rate_that_is_not_positive_is_refused(moving: World, rate: int) -> None:
    with pytest.raises(CallRefused, match="it must be positive"):
        await moving.call(throttle(rate))


async def test_an_unknown_partition_is_refused(moving: World) -> None:
    with pytest.raises(CallRefused, match="partition nowhere-0 does not exist"):
        await moving.call(ThrottleReassignments(1000, {tp("nowhere"): ids(1)}, "ann"))


async def test_a_standby_throttles_nothing(moving: World) -> None:
    await moving.call(Resign())

    with pytest.raises(NotController):
        await moving.call(throttle())
    moving.queue.put(ThrottleCheck())
    await moving.settle()
    assert configs(moving) == [None, None, None, None]


async def test_a_topic_that_is_deleted_leaves_no_configuration_behind(moving: World) -> None:
    await moving.call(throttle())
    await reassign(moving, {tp("t"): [1, 3]})
    moving.tree.remove("/config/topics/t")
    await finish(moving)

    assert config(moving, "topics/t") is None
    assert config(moving, "brokers/1") == {}
    assert BrokerId(1) in moving.context.brokers
