"""A world with three live brokers and an active controller, for driving the machines directly."""

import pytest

from tests.fakes.world import World


@pytest.fixture
async def world() -> World:
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: [1, 2, 3]})
    await world.settle()
    world.forget()
    return world
