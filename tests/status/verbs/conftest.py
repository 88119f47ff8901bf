"""Three brokers, an active controller, and an operator with an HTTP client."""

from collections.abc import AsyncIterator

import pytest

from tests.fakes.world import World
from tests.scenarios.worlds import world_of
from tests.status.verbs.operating import Operator, operating


@pytest.fixture
async def world() -> World:
    return await world_of(1, 2, 3)


@pytest.fixture
async def operator(world: World) -> AsyncIterator[Operator]:
    async with operating(world) as operator:
        yield operator
