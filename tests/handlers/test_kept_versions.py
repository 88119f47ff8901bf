"""A protocol version and answers that are on disk: the version rises when brokers answer, and not before."""

import json

import pytest

from controllerd.core.cluster_settings import PROTOCOL_VERSION
from controllerd.core.settings_book import Configured, Remembered, SettingsBook
from tests.fakes.world import World
from tests.handlers.test_cluster_settings import NEWEST, hear, terms

OTHER = "5c0ffee0-0000-4000-8000-000000000002"


async def left_by(book: SettingsBook, *, topic_id: str | None) -> tuple[World, Remembered]:
    """The state of ZooKeeper and disk after an instance with these settings, which brokers of 3.9 have answered."""
    world = World(settings=book)
    world.register(1)
    world.register(2)
    world.put_topic("orders", {0: [1, 2]}, topic_id=topic_id)
    await hear(world, b1=NEWEST, b2=NEWEST)
    await world.start()
    world.tree.remove("/controller")
    return world, book.remembered()


async def started_after(before: World, known: Remembered) -> World:
    """The next process leads before any broker has answered it."""
    book = SettingsBook()
    book.recall(known)
    world = World(settings=book, tree=before.tree, session_id=2, instance=OTHER)
    return await world.start()


@pytest.mark.parametrize("configured", ["2.6", "2.8", "3.2"])
@pytest.mark.parametrize("topic_id", ["", None])
async def test_a_version_that_is_no_longer_configured_rises_with_a_new_term_when_brokers_answer(
    configured: str, topic_id: str | None
) -> None:
    """As docs/operations.md has it: the key is removed, and the instance restarted."""
    lowered = SettingsBook({PROTOCOL_VERSION: Configured(configured, "prod.toml")})
    world = await started_after(*await left_by(lowered, topic_id=topic_id))
    assert world.c.settings.current.values[PROTOCOL_VERSION] != "3.9-IV0"
    assert world.context.features == world.c.settings.features

    await hear(world, b1=NEWEST, b2=NEWEST)

    assert world.c.settings.current.values[PROTOCOL_VERSION] == "3.9-IV0"
    assert world.context.features == world.c.settings.features
    assert terms(world) == ["elected", "ended", "renewed"]
    assert json.loads(world.tree.nodes["/feature"].data or b"") == {"version": 2, "status": 1, "features": {}}
    assert world.context.topic_id("orders") is not None


async def test_a_version_that_all_brokers_had_answered_is_used_by_the_next_process_from_its_first_moment() -> None:
    world = await started_after(*await left_by(SettingsBook(), topic_id=""))

    assert world.c.settings.current.values[PROTOCOL_VERSION] == "3.9-IV0"
    await hear(world, b1=NEWEST, b2=NEWEST)
    assert terms(world) == ["elected"]
