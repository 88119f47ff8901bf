"""Group J, last row: brokers that do not support the finalized features of the cluster."""

import json

from controllerd.core.model import BrokerId
from tests.fakes.world import World, registration
from tests.scenarios.acts import alarms, cluster, leader, take_over, with_topic

INCOMPATIBLE = "broker is incompatible with the finalized features"


def finalize(world: World, **levels: int) -> None:
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    world.tree.put("/feature", json.dumps({"version": 2, "status": 1, "features": features}).encode())


def register(world: World, broker: int, **ranges: tuple[int, int]) -> None:
    """Register a broker that supports these ranges of levels."""
    body = json.loads(registration(broker, 9000 + broker))
    body["features"] = {name: {"min_version": low, "max_version": high} for name, (low, high) in ranges.items()}
    world.tree.put(f"/brokers/ids/{broker}", json.dumps(body).encode())


async def test_j7_an_incompatible_broker_stays_out_and_the_others_go_on() -> None:
    world = await cluster()
    register(world, 1, f=(1, 3))
    await world.settle()
    finalize(world, f=3)
    await with_topic(world, "t", 1, 2)
    world.forget()

    register(world, 2, f=(1, 2))
    register(world, 3, f=(2, 4))
    register(world, 4)
    await world.settle()

    assert world.context.live == {BrokerId(1), BrokerId(3)}
    assert alarms(world) == [INCOMPATIBLE, INCOMPATIBLE]
    assert world.context.quarantine == {
        "/brokers/ids/2": "supports levels 1 to 2 of f, of which 3 is finalized",
        "/brokers/ids/4": "does not know the finalized feature f",
    }
    assert {to for to, _ in world.channels.sent} == {1, 3}
    assert leader(world, "t") == (1, 0)


async def test_j7_an_incompatible_broker_stays_out_at_a_fail_over_too() -> None:
    world = await cluster()
    register(world, 1, f=(1, 3))
    register(world, 2)
    finalize(world, f=3)
    await with_topic(world, "t", 2, 1)

    successor = await take_over(world)

    assert successor.context.live == {BrokerId(1)}
    assert successor.state("t")[0] == 1
    assert INCOMPATIBLE in alarms(successor)


async def test_j7_a_broker_that_was_upgraded_comes_in() -> None:
    world = await cluster(1)
    finalize(world, f=3)
    register(world, 2, f=(1, 2))
    await world.settle()

    world.die(2)
    register(world, 2, f=(1, 3))
    await world.settle()

    assert BrokerId(2) in world.context.live
    assert "/brokers/ids/2" not in world.context.quarantine


async def test_j7_a_broker_that_serves_already_goes_on_and_is_shown() -> None:
    world = await with_topic(await cluster(1, 2), "t", 1, 2)
    finalize(world, f=1)

    register(world, 3, f=(1, 1))
    await world.settle()

    assert world.context.live == {BrokerId(1), BrokerId(2), BrokerId(3)}
    assert set(world.context.quarantine) == {"/brokers/ids/1", "/brokers/ids/2"}
    assert leader(world, "t") == (1, 0)


async def test_j7_unreadable_features_keep_no_broker_out() -> None:
    world = await cluster(1)
    world.tree.put("/feature", b"{")

    register(world, 2)
    await world.settle()

    assert world.context.live == {BrokerId(1), BrokerId(2)}
    assert "/feature" in world.context.quarantine
