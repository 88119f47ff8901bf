"""Changed configurations: what is looked at, what follows, and what cannot be understood."""

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
    """A topic of which 1 was the last in sync and died, and 2 lives."""
    await with_topic(world, topic, 1, 2)
    await alter_isr(world, topic, 1)
    await kill(world, 1)
    world.forget()
    return world


def enabled(world: World) -> list[str]:
    """What was enabled since the last time."""
    return [name for name in world.metrics.events if name in {TOPIC, DEFAULT}]


async def test_a_topic_that_says_yes_is_looked_at() -> None:
    world = await leaderless(await cluster(1, 2))

    await configure(world, "topics/t", ON)

    assert enabled(world) == [TOPIC]
    assert leader(world, "t")[0] == 2


@pytest.mark.parametrize("config", [{}, {UNCLEAN: "false"}, {"retention.ms": "1"}])
async def test_a_topic_that_does_not_say_yes_is_left_alone(config: dict[str, str]) -> None:
    world = await leaderless(await cluster(1, 2))

    await configure(world, "topics/t", config)

    assert enabled(world) == []


@pytest.mark.parametrize("entity", ["topics/unknown", "brokers/1", "users/u", "clients/c", "ips/i"])
async def test_other_configurations_are_no_business_of_a_controller(entity: str) -> None:
    world = await leaderless(await cluster(1, 2))
    world.tree.put(f"/config/{entity}", b'{"version":1,"config":{"%s":"true"}}' % UNCLEAN.encode())

    await configure(world, entity, ON)

    assert enabled(world) == []
    assert leader(world, "t")[0] == -1


async def test_a_default_that_stays_on_is_no_news() -> None:
    world = await cluster(1, 2)
    await configure(world, "brokers/<default>", ON)
    world.forget()

    await configure(world, "brokers/<default>", ON)

    assert enabled(world) == []


async def test_a_default_that_is_neither_true_nor_false_counts_as_none() -> None:
    """Brokers leave it out as well."""
    world = await cluster(1, 2)
    await configure(world, "brokers/<default>", ON)

    await configure(world, "brokers/<default>", {UNCLEAN: "perhaps"})

    assert not world.configs.unclean_by_default()
    assert "invalid configuration" in alarms(world)


async def test_a_default_that_is_taken_back_makes_room_for_the_configured_one() -> None:
    world = await cluster(1, 2)
    world.configs.unclean = True
    await configure(world, "brokers/<default>", {UNCLEAN: "false"})
    assert not world.configs.unclean_by_default()
    world.forget()

    await configure(world, "brokers/<default>", {})

    assert enabled(world) == [DEFAULT]


async def test_only_what_was_not_seen_yet_is_looked_at() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)
    world.forget()

    world.queue.put(ConfigChange())
    await world.settle()

    assert enabled(world) == []


async def test_what_changed_before_the_term_is_not_looked_at_again() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)

    successor = await take_over(world)
    successor.queue.put(ConfigChange())
    await successor.settle()

    assert enabled(successor) == []


async def test_notifications_that_brokers_purge_are_no_news() -> None:
    world = await leaderless(await cluster(1, 2))
    await configure(world, "topics/t", ON)
    world.forget()
    for child in world.tree.children("/config/changes") or []:
        world.tree.remove(f"/config/changes/{child}")
    await world.settle()

    assert enabled(world) == []
    assert world.c.configs.changes_seen == frozenset()


async def test_what_changed_while_the_connection_was_gone_is_noticed_when_it_is_back() -> None:
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


async def test_a_standby_looks_at_nothing() -> None:
    world = World()

    world.queue.put(ConfigChange())
    await world.settle()

    assert world.zk.round_trips == 0
