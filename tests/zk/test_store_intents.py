"""Pauses, the throttle and the configurations that it sets, in ZooKeeper: fenced, compared, never overwritten blind."""

import json

import pytest

from controllerd.core.intents import ThrottleView
from controllerd.core.model import TopicPartition
from controllerd.core.pauses import PausesRead, PauseView
from controllerd.core.throttles import Bound, Throttle
from controllerd.errors import BadZnode, ControllerMoved, NewerZnode
from controllerd.results import ConfigRead, Conflict, Written
from controllerd.zk import codecs, paths
from tests.zk.world import World

PAUSES = PausesRead(
    {"deletions": PauseView(5_000, "a freeze", "ann"), "drain-1": PauseView(6_000, "", "bob", 77)}, frozenset({"t"})
)
THROTTLE = Throttle(
    ThrottleView(1000, "ann", 4_000, frozenset({TopicPartition("t", 0), TopicPartition("t", 7)})),
    {"brokers/1": {"leader.replication.throttled.rate": Bound("1000", None)}, "topics/t": {"x": Bound("1", "0")}},
)


@pytest.fixture
async def leading(world: World) -> World:
    await world.ours.lead()
    await world.ours.store.ensure_paths()
    return world


async def test_pauses_are_read_as_they_were_written_by_whoever_leads_next(leading: World) -> None:
    assert await leading.ours.store.read_pauses() == PausesRead()
    await leading.ours.store.write_pauses(PAUSES)
    await leading.ours.store.write_pauses(PAUSES)

    assert await leading.theirs.store.read_pauses() == PAUSES

    await leading.ours.store.write_pauses(PausesRead())
    assert await leading.ours.store.read_pauses() == PausesRead()
    assert await leading.theirs.node(paths.PAUSES) is None


async def test_a_throttle_is_read_as_it_was_written_and_forgotten(leading: World) -> None:
    assert await leading.ours.store.read_throttle() is None
    await leading.ours.store.write_throttle(THROTTLE)

    assert await leading.theirs.store.read_throttle() == THROTTLE

    await leading.ours.store.write_throttle(None)
    await leading.ours.store.write_throttle(None)
    assert await leading.ours.store.read_throttle() is None


@pytest.mark.parametrize("data", [b"rubbish", b"", b'{"version":1}', b'{"version":2,"pauses":{},"rate":5}'])
async def test_what_nobody_understands_is_not_overwritten(leading: World, data: bytes) -> None:
    for path in (paths.PAUSES, paths.THROTTLE):
        await leading.theirs.put(path, data)

    for attempt in (
        leading.ours.store.read_pauses(),
        leading.ours.store.write_pauses(PAUSES),
        leading.ours.store.write_pauses(PausesRead()),
        leading.ours.store.read_throttle(),
        leading.ours.store.write_throttle(THROTTLE),
        leading.ours.store.write_throttle(None),
    ):
        with pytest.raises(NewerZnode if b'"version":2' in data else BadZnode):
            await attempt
    for path in (paths.PAUSES, paths.THROTTLE):
        node = await leading.theirs.node(path)
        assert node is not None
        assert (node.data or b"") == data


async def test_a_deposed_controller_writes_none_of_it(leading: World) -> None:
    await leading.theirs.lead()

    for attempt in (
        leading.ours.store.write_pauses(PAUSES),
        leading.ours.store.write_throttle(THROTTLE),
        leading.ours.store.write_configs({"brokers/1": ConfigRead({"a": "b"}, -1, {})}),
    ):
        with pytest.raises(ControllerMoved):
            await attempt
    assert await leading.theirs.node(paths.PAUSES) is None
    assert await leading.theirs.node("/config/brokers/1") is None


async def test_configurations_are_written_with_their_notifications_and_unknown_fields(leading: World) -> None:
    body = {"version": 1, "config": {"retention.ms": "5"}, "note": "kept"}
    await leading.theirs.put(paths.topic_config("t"), json.dumps(body).encode())
    read = await leading.ours.store.read_configs(["brokers/1", "topics/t"])
    assert read == {
        "brokers/1": ConfigRead({}, -1, {}),
        "topics/t": ConfigRead({"retention.ms": "5"}, 0, {"note": "kept"}),
    }
    fresh = {
        e: each._replace(config={**each.config, "a": "b"}) for e, each in read.items() if isinstance(each, ConfigRead)
    }

    results = await leading.ours.store.write_configs(fresh)

    assert all(isinstance(result, Written) for result in results.values())
    node = await leading.theirs.node(paths.topic_config("t"))
    assert node is not None
    assert json.loads(node.data or b"") == body | {"config": {"retention.ms": "5", "a": "b"}}
    told = await leading.theirs.store.read_config_changes()
    assert sorted(told.entities.values()) == ["brokers/1", "topics/t"]


async def test_a_configuration_that_somebody_changed_is_a_conflict_and_tells_nobody(leading: World) -> None:
    read = await leading.ours.store.read_configs(["brokers/1"])
    await leading.theirs.put("/config/brokers/1", codecs.encode_config({"theirs": "1"}))

    results = await leading.ours.store.write_configs({e: c for e, c in read.items() if isinstance(c, ConfigRead)})

    assert isinstance(results["brokers/1"], Conflict)
    assert (await leading.theirs.store.read_config_changes()).entities == {}


async def test_a_configuration_that_cannot_be_understood_is_told_beside_the_others(leading: World) -> None:
    await leading.theirs.put("/config/brokers/1", b"rubbish")

    read = await leading.ours.store.read_configs(["brokers/1", "brokers/2"])

    assert isinstance(read["brokers/1"], BadZnode)
    assert read["brokers/2"] == ConfigRead({}, -1, {})
