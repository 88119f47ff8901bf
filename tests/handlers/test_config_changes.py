"""Changed configurations: which ones the controller reads, which elections follow, and which it cannot decode."""

import pytest

from controllerd.zk.access import Create
from events.cluster import Resync
from events.elections import ConfigChange, TopicUncleanLeaderElectionEnable, UncleanLeaderElectionEnable
from tests.fakes.world import World
from tests.scenarios.acts import (
    UNCLEAN,
    alarms,
    alter_isr,
    cluster,
    configure,
    kill,
    leader,
    take_over,
    with_topic,
    write_config,
)

ON = {UNCLEAN: "true"}
TOPIC, DEFAULT = TopicUncleanLeaderElectionEnable.__name__, UncleanLeaderElectionEnable.__name__


async def leaderless(world: World, topic: str = "t") -> World:
    """A topic whose last ISR member, broker 1, has failed; broker 2 is live."""
    await with_topic(world, topic, 1, 2)
    await alter_isr(world, topic, 1)
    await kill(world, 1)
    world.forget()
    return world


def enabled(world: World) -> list[str]:
    """The events of enabled unclean elections since the last call of ``forget``."""
    return [name for name in world.metrics.events if name in {TOPIC, DEFAULT}]


async def test_a_topic_that_allows_unclean_elections_gets_a_leader() -> None:
    world = await leaderless(await cluster(1, 2))

    await configure(world, "topics/t", ON)

    assert enabled(world) == [TOPIC]
    assert leader(world, "t")[0] == 2


@pytest.mark.parametrize("config", [{}, {UNCLEAN: "false"}, {"retention.ms": "1"}])
async def test_a_topic_that_does_not_allow_unclean_elections_is_left_alone(config: dict[str, str]) -> None:
    world = await leaderless(await cluster(1, 2))

    await configure(world, "topics/t", config)

    assert enabled(world) == []


@pytest.mark.parametrize("entity", ["topics/unknown", "brokers/1", "users/u", "clients/c", "ips/i"])
async def test_configurations_of_other_entities_are_ignored(entity: str) -> None:
    world = await leaderless(await cluster(1, 2))
    world.tree.put(f"/config/{entity}", b'{"version":1,"config":{"%s":"true"}}' % UNCLEAN.encode())

    await configure(world, entity, ON)

    assert enabled(world) == []
    assert leader(world, "t")[0] == -1


async def test_a_default_that_stays_enabled_causes_no_event() -> None:
    world = await cluster(1, 2)
    await configure(world, "brokers/<default>", ON)
    world.forget()

    await configure(world, "brokers/<default>", ON)

    assert enabled(world) == []


async def test_a_default_that_is_neither_true_nor_false_counts_as_none() -> None:
    """Brokers ignore such a value as well."""
    world = await cluster(1, 2)
    await configure(world, "brokers/<default>", ON)

    await configure(world, "brokers/<default>", {UNCLEAN: "perhaps"})

    assert not world.configs.unclean_by_default()
    assert "invalid configuration" in alarms(world)


async def test_the_configured_value_holds_after_the_dynamic_default_is_deleted() -> None:
    world = await cluster(1, 2)
    world.configs.unclean = True
    await configure(world, "brokers/<default>", {UNCLEAN: "false"})
    assert not world.configs.unclean_by_default()
    world.forget()

    await configure(world, "brokers/<default>", {})

    assert enabled(world) == [DEFAULT]


async def test_only_notifications_that_were_not_read_yet_are_handled() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)
    world.forget()

    world.queue.put(ConfigChange())
    await world.settle()

    assert enabled(world) == []


async def test_changes_from_before_the_term_are_not_handled_again() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)

    successor = await take_over(world)
    successor.queue.put(ConfigChange())
    await successor.settle()

    assert enabled(successor) == []


async def test_notifications_that_brokers_purge_cause_no_event() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)
    world.forget()
    for child in world.tree.children("/config/changes") or []:
        world.tree.remove(f"/config/changes/{child}")
    await world.settle()

    assert enabled(world) == []
    assert world.c.configs.changes_seen == frozenset()


async def test_a_change_during_a_lost_connection_is_handled_after_the_reconnect() -> None:
    world = await leaderless(await cluster(1, 2))
    fired, world.zk.on_watch = world.zk.on_watch, lambda _path, _fired: None
    await configure(world, "topics/t", ON)
    world.zk.on_watch = fired

    world.queue.put(Resync())
    await world.settle()

    assert leader(world, "t")[0] == 2


@pytest.mark.parametrize("note", [b"{", b'{"version":1}', b'{"version":3,"entity_path":"topics/t"}', b""])
async def test_a_notification_that_cannot_be_read_hides_no_other(note: bytes) -> None:
    world = await leaderless(await cluster(1, 2))
    world.tree.outsider(Create("/config/changes/config_change_9999999999", note))

    await configure(world, "topics/t", ON)

    assert alarms(world) == ["notification cannot be read"]
    assert enabled(world) == [TOPIC]


async def test_a_notification_of_the_first_format_is_understood() -> None:
    world = await leaderless(await cluster(1, 2))
    world.tree.put("/config/topics/t", b'{"version":1,"config":{"%s":" TRUE "}}' % UNCLEAN.encode())
    note = b'{"version":1,"entity_type":"topics","entity_name":"t"}'

    world.tree.outsider(Create("/config/changes/config_change_0000000007", note))
    await world.settle()

    assert enabled(world) == [TOPIC]


async def test_a_default_that_cannot_be_understood_is_shown_until_it_can_be() -> None:
    world = await cluster(1, 2)

    await write_config(world, "brokers/<default>", b"{")
    assert "/config/brokers/<default>" in world.snapshot.quarantine

    await configure(world, "brokers/<default>", ON)
    assert world.snapshot.quarantine == {}
    assert world.configs.unclean_by_default()


async def test_a_standby_reads_no_configuration() -> None:
    world = World()

    world.queue.put(ConfigChange())
    await world.settle()

    assert world.zk.round_trips == 0
