"""UpdateFeatures: every update is judged by itself, and those that are allowed are written together or not at all."""

import json
from collections.abc import Mapping

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, Features
from controllerd.errors import NotController
from controllerd.record.records import AlarmRecord
from events.admin import FeatureUpdate, UpdateFeatures
from tests.fakes.requester import ALICE
from tests.fakes.world import World, registration

NONE, INVALID, FAILED = KafkaError.NONE, KafkaError.INVALID_REQUEST, KafkaError.FEATURE_UPDATE_FAILED


async def cluster(*supported: Mapping[str, tuple[int, int]], **levels: int) -> World:
    """A broker for each mapping of features to ranges of levels; ``levels`` are finalized."""
    world = World()
    for broker, ranges in enumerate(supported, 1):
        body = json.loads(registration(broker, 9000 + broker))
        body["features"] = {name: {"min_version": low, "max_version": high} for name, (low, high) in ranges.items()}
        world.tree.put(f"/brokers/ids/{broker}", json.dumps(body).encode())
    features = {name: {"max_version_level": level} for name, level in levels.items()}
    body = {"version": 2, "status": 1, "features": features, "comment": "kept"}
    world.tree.put("/feature", json.dumps(body).encode())
    await world.start()
    world.forget()
    return world


def finalized(world: World) -> dict[str, int]:
    body = json.loads(world.tree.nodes["/feature"].data or b"")
    return {name: levels["max_version_level"] for name, levels in body["features"].items()}


async def update(world: World, **updates: tuple[int, bool]) -> object:
    return await world.call(UpdateFeatures(ALICE, {name: FeatureUpdate(*wanted) for name, wanted in updates.items()}))


UP, DOWN = False, True


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ((3, UP), NONE),
        ((4, UP), INVALID),
        ((2, UP), INVALID),
        ((1, UP), INVALID),
        ((1, DOWN), NONE),
        ((3, DOWN), INVALID),
        ((0, DOWN), NONE),
        ((0, UP), INVALID),
        ((-1, DOWN), NONE),
        ((2, DOWN), INVALID),
    ],
    ids=[
        "raised",
        "raised beyond what a broker supports",
        "unchanged",
        "lowered without permission",
        "lowered",
        "raised as a downgrade",
        "deleted",
        "deleted without permission",
        "deleted by a negative level",
        "unchanged as a downgrade",
    ],
)
async def test_an_update_is_judged(wanted: tuple[int, bool], expected: KafkaError) -> None:
    world = await cluster({"f": (1, 4)}, {"f": (1, 3)}, f=2)

    assert await update(world, f=wanted) == {"f": expected}

    allowed = {} if wanted[0] < 1 else {"f": wanted[0]}
    assert finalized(world) == (allowed if expected is NONE else {"f": 2})


async def test_a_new_feature_is_finalized_when_every_broker_supports_it() -> None:
    world = await cluster({"f": (1, 4)}, {"f": (1, 3)})

    assert await update(world, f=(3, UP)) == {"f": NONE}
    assert finalized(world) == {"f": 3}


@pytest.mark.parametrize("supported", [[], [{}, {"f": (1, 9)}]], ids=["no broker", "one broker does not"])
async def test_a_feature_that_not_every_broker_supports_is_refused(supported: list[dict[str, tuple[int, int]]]) -> None:
    world = await cluster(*supported)

    assert await update(world, f=(1, UP)) == {"f": INVALID}


async def test_a_feature_that_is_not_finalized_cannot_be_deleted() -> None:
    world = await cluster({"f": (1, 4)})

    assert await update(world, f=(0, DOWN)) == {"f": INVALID}


async def test_a_feature_without_name_is_refused() -> None:
    world = await cluster({"": (1, 4)})

    assert await world.call(UpdateFeatures(ALICE, {"": FeatureUpdate(1, UP)})) == {"": INVALID}


async def test_good_updates_are_written_in_one_transaction_beside_bad_ones_and_unknown_fields_are_kept() -> None:
    world = await cluster({"f": (1, 4), "g": (1, 1), "h": (1, 2)}, f=2, h=1)

    outcomes = await update(world, f=(3, UP), g=(2, UP), h=(0, DOWN), x=(1, UP))

    assert outcomes == {"f": NONE, "g": INVALID, "h": NONE, "x": INVALID}
    assert finalized(world) == {"f": 3}
    assert [write.path for write in world.zk.writes] == ["/feature"]
    assert json.loads(world.tree.nodes["/feature"].data or b"")["comment"] == "kept"


async def test_without_a_good_update_nothing_is_written() -> None:
    world = await cluster({"f": (1, 4)}, f=2)

    await update(world, f=(9, UP))

    assert world.zk.writes == []


async def test_an_update_that_is_only_validated_is_not_written() -> None:
    world = await cluster({"f": (1, 4)}, f=2)

    outcomes = await world.call(UpdateFeatures(ALICE, {"f": FeatureUpdate(3, UP)}, validate_only=True))

    assert outcomes == {"f": NONE}
    assert world.zk.writes == []


async def test_an_update_that_lost_the_race_is_judged_anew() -> None:
    world = await cluster({"f": (1, 4)}, f=2)
    other = {"version": 2, "status": 1, "features": {"f": {"max_version_level": 3}}}
    world.zk.before_transaction[len(world.zk.transactions) + 1] = lambda: world.tree.put(
        "/feature", json.dumps(other).encode()
    )

    assert await update(world, f=(3, UP)) == {"f": INVALID}
    assert finalized(world) == {"f": 3}


async def test_a_race_that_is_lost_again_and_again_fails_the_good_updates_alone() -> None:
    world = await cluster({"f": (1, 4)}, f=2)
    first = len(world.zk.transactions) + 1

    def meddle() -> None:
        data = world.tree.nodes["/feature"].data
        world.tree.put("/feature", data)

    world.zk.before_transaction.update(dict.fromkeys(range(first, first + 100), meddle))

    assert await update(world, f=(3, UP), x=(1, UP)) == {"f": FAILED, "x": INVALID}
    assert [record.what for record in world.audit.of(AlarmRecord)] == ["features were not written"]
    assert finalized(world) == {"f": 2}


async def test_features_that_cannot_be_understood_are_not_overwritten() -> None:
    world = await cluster({"f": (1, 4)})
    world.tree.put("/feature", b"{")

    assert await update(world, f=(3, UP)) == {"f": FAILED}
    assert world.tree.nodes["/feature"].data == b"{"
    assert "/feature" in world.snapshot.quarantine


async def test_a_broker_without_a_finalized_feature_becomes_live_when_the_feature_is_deleted() -> None:
    world = await cluster({"f": (1, 4)}, {}, f=2)
    assert world.context.live == {BrokerId(1)}

    await update(world, f=(0, DOWN))

    assert world.context.live == {BrokerId(1), BrokerId(2)}
    assert world.snapshot.quarantine == {}


async def test_below_2_7_there_are_no_features() -> None:
    world = World(features=Features(feature_versioning=False))
    await world.start()

    assert await update(world, f=(1, UP)) is INVALID


async def test_a_standby_finalizes_nothing() -> None:
    with pytest.raises(NotController):
        await update(World(), f=(1, UP))


async def test_features_that_were_repaired_are_finalized_and_leave_the_quarantine() -> None:
    world = await cluster({"f": (1, 4)})
    world.tree.put("/feature", b"{")
    await update(world, f=(3, UP))

    world.tree.put("/feature", b'{"version":2,"status":1,"features":{}}')

    assert await update(world, f=(3, UP)) == {"f": NONE}
    assert finalized(world) == {"f": 3}
    assert world.snapshot.quarantine == {}
