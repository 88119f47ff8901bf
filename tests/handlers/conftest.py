"""A world with three live brokers and an active controller."""

import pytest

from tests.fakes.world import World


@pytest.fixture
async def world() -> World:
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    world.forget()
    return world
