"""Configurations, quotas and their notifications: the same in memory and on a real server."""

import json

import pytest

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode, NewerZnode
from controllerd.ports.results import ConfigRead, Conflict, Written
from controllerd.zk import codecs, paths
from tests.fakes.store import FakeStore
from tests.zk.world import World

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
B1 = BrokerId(1)
B2 = BrokerId(2)
B3 = BrokerId(3)
MOVES = {T1: (B3, B2), T0: (B1, B2)}


async def test_topic_configs_are_overrides_or_nothing_or_broken(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.topic_config("t"), codecs.encode_config({"retention.ms": "5"}))
    await world.theirs.put(paths.topic_config("bad"), b"[]")

    configs = await world.ours.store.configs.read_topic_configs(["t", "bad", "none"])

    assert configs["t"] == {"retention.ms": "5"}
    assert configs["none"] == {}
    assert isinstance(configs["bad"], BadZnode)


async def test_quotas_are_found_at_every_level(world: World) -> None:
    await world.ours.lead()
    rate = codecs.encode_config({"controller_mutation_rate": "2.5"})
    for entity in ("users/alice", "users/<default>/clients/app", "clients/app"):
        await world.theirs.put(f"{paths.CONFIG}/{entity}", rate)
    await world.theirs.put(f"{paths.CONFIG}/clients/broken", b"rubbish")

    found = dict(await world.ours.store.configs.read_mutation_rates())

    assert isinstance(found.pop("clients/broken"), BadZnode)
    assert found == {
        "users/<default>": None,
        "users/alice": "2.5",
        "clients/app": "2.5",
        "users/<default>/clients/app": "2.5",
    }
    assert await world.ours.store.configs.read_mutation_rates(["users/none", "clients/app"]) == {
        "users/none": None,
        "clients/app": "2.5",
    }


async def test_the_configuration_of_a_user_is_written_with_its_notification(world: World) -> None:
    await world.ours.lead()
    path = f"{paths.CONFIG_USERS}/al%20ice"
    await world.theirs.put(path, b'{"version":1,"config":{"a":"1"},"note":"kept"}')
    before = len(world.ours.transactions())

    read = (await world.ours.store.configs.read_user_configs(["al ice"]))["al ice"]
    assert isinstance(read, ConfigRead)
    changed = {"al ice": read._replace(config={**read.config, "b": "2"})}
    result = (await world.ours.store.configs.write_user_configs(changed))["al ice"]

    assert read == ConfigRead({"a": "1"}, 0, {"note": "kept"})
    assert isinstance(result, Written)
    assert len(world.ours.transactions()) == before + 1
    node = await world.ours.node(path)
    assert node is not None
    assert json.loads(node.data or b"") == {"version": 1, "config": {"a": "1", "b": "2"}, "note": "kept"}
    assert list((await world.ours.store.configs.read_config_changes()).entities.values()) == ["users/al%20ice"]


async def test_a_user_that_another_client_changed_meanwhile_is_a_conflict_without_notification(world: World) -> None:
    await world.ours.lead()
    read = (await world.ours.store.configs.read_user_configs(["alice"]))["alice"]
    assert isinstance(read, ConfigRead)
    await world.theirs.put(f"{paths.CONFIG_USERS}/alice", codecs.encode_config({"a": "1"}))

    results = await world.ours.store.configs.write_user_configs({"alice": read._replace(config={"b": "2"})})
    assert isinstance(results["alice"], Conflict)
    assert (await world.ours.store.configs.read_config_changes()).entities == {}


async def test_changed_configurations_come_in_the_order_of_their_numbers(world: World) -> None:
    await world.ours.lead()
    for child, entity in (("z_0000000002", "topics/b"), ("a_0000000010", "brokers/1"), ("m_0000000001", "topics/a")):
        await world.theirs.put(paths.config_change(child), codecs.encode_config_change(entity))

    read = await world.ours.store.configs.read_config_changes()

    assert list(read.entities.items()) == [
        ("m_0000000001", "topics/a"),
        ("z_0000000002", "topics/b"),
        ("a_0000000010", "brokers/1"),
    ]


async def test_a_config_change_that_cannot_be_decoded_hides_no_other(world: World) -> None:
    await world.ours.lead()
    await world.theirs.put(paths.config_change("config_change_0000000001"), b"?")
    await world.theirs.put(paths.config_change("config_change_0000000002"), codecs.encode_config_change("topics/t"))
    await world.theirs.put(paths.config_change("unnumbered"), b'{"version":9}')

    read = await world.ours.store.configs.read_config_changes()

    assert read.entities == {"config_change_0000000002": "topics/t"}
    assert {bad.path: type(bad) for bad in read.broken} == {
        "/config/changes/config_change_0000000001": BadZnode,
        "/config/changes/unnumbered": NewerZnode,
    }


async def test_the_defaults_of_all_brokers_are_read_or_empty_or_broken(world: World) -> None:
    await world.ours.lead()
    assert await world.ours.store.configs.read_broker_defaults() == {}

    await world.theirs.put(paths.CONFIG_BROKER_DEFAULTS, codecs.encode_config({"a": "b"}))
    assert await world.ours.store.configs.read_broker_defaults() == {"a": "b"}

    await world.theirs.put(paths.CONFIG_BROKER_DEFAULTS, b"[]")
    with pytest.raises(BadZnode):
        await world.ours.store.configs.read_broker_defaults()


@pytest.fixture
def store() -> FakeStore:
    """A leading store with reassignments to do, the answer to whose next transaction will be lost."""
    store = FakeStore()
    store.lead()
    store.tree.put(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(MOVES))
    store.zk.lose_reply_of.add(1)
    return store


async def test_users_without_client_ids_are_not_read_one_by_one() -> None:
    store = FakeStore()
    for number in range(1_000):
        store.tree.put(f"/config/users/user-{number}", codecs.encode_config({"SCRAM-SHA-256": "secret"}))
    store.tree.put("/config/users/user-7/clients/app", codecs.encode_config({"controller_mutation_rate": "2"}))

    found = await store.configs.read_mutation_rates()

    assert len(found) == 1_001
    assert found["users/user-7/clients/app"] == "2"
    assert store.zk.round_trips < 20


@pytest.fixture
async def leading(world: World) -> World:
    await world.ours.lead()
    await world.ours.store.cluster.ensure_paths()
    return world


async def test_configurations_are_written_with_their_notifications_and_unknown_fields(leading: World) -> None:
    body = {"version": 1, "config": {"retention.ms": "5"}, "note": "kept"}
    await leading.theirs.put(paths.topic_config("t"), json.dumps(body).encode())
    read = await leading.ours.store.configs.read_configs(["brokers/1", "topics/t"])
    assert read == {
        "brokers/1": ConfigRead({}, -1, {}),
        "topics/t": ConfigRead({"retention.ms": "5"}, 0, {"note": "kept"}),
    }
    fresh = {
        e: each._replace(config={**each.config, "a": "b"}) for e, each in read.items() if isinstance(each, ConfigRead)
    }

    results = await leading.ours.store.configs.write_configs(fresh)

    assert all(isinstance(result, Written) for result in results.values())
    node = await leading.theirs.node(paths.topic_config("t"))
    assert node is not None
    assert json.loads(node.data or b"") == body | {"config": {"retention.ms": "5", "a": "b"}}
    notified = await leading.theirs.store.configs.read_config_changes()
    assert sorted(notified.entities.values()) == ["brokers/1", "topics/t"]


async def test_a_configuration_that_another_client_changed_is_a_conflict_without_notification(leading: World) -> None:
    read = await leading.ours.store.configs.read_configs(["brokers/1"])
    await leading.theirs.put("/config/brokers/1", codecs.encode_config({"theirs": "1"}))

    results = await leading.ours.store.configs.write_configs(
        {e: c for e, c in read.items() if isinstance(c, ConfigRead)}
    )

    assert isinstance(results["brokers/1"], Conflict)
    assert (await leading.theirs.store.configs.read_config_changes()).entities == {}


async def test_a_configuration_that_cannot_be_decoded_is_returned_beside_the_others(leading: World) -> None:
    await leading.theirs.put("/config/brokers/1", b"rubbish")

    read = await leading.ours.store.configs.read_configs(["brokers/1", "brokers/2"])

    assert isinstance(read["brokers/1"], BadZnode)
    assert read["brokers/2"] == ConfigRead({}, -1, {})


async def test_changes_that_are_known_are_not_read_again(world: World) -> None:
    await world.ours.lead()
    await world.ours.store.cluster.ensure_paths()
    for number, entity in enumerate(("topics/a", "topics/b")):
        await world.theirs.put(paths.config_change(f"config_change_{number:010}"), codecs.encode_config_change(entity))

    read = await world.ours.store.configs.read_config_changes({"config_change_0000000000", "config_change_purged"})

    assert read.entities == {"config_change_0000000001": "topics/b"}
    assert read.names == {"config_change_0000000000", "config_change_0000000001"}
