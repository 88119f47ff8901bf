"""Three brokers, a controller that leads, and an operator in front of it."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.world import World
from tests.scenarios.worlds import world_of
from tests.status.verbs.operating import Operator, operating


@pytest.fixture
async def world() -> World:
    """Three topics: t on brokers 1 and 2, lone on 1 alone, wide on all three."""
    world = await world_of(1, 2, 3)
    world.put_topic("t", {number: [1, 2] for number in range(3)})
    world.put_topic("lone", {0: [1]})
    world.put_topic("wide", {0: [3, 1, 2]})
    await world.settle()
    return world


@pytest.fixture
async def operator(world: World) -> AsyncIterator[Operator]:
    async with operating(world) as operator:
        yield operator
