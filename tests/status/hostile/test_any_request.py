"""Thousands of valid and invalid requests, made from the OpenAPI document, to a whole controller."""

from pathlib import Path

import pytest

from tests.scenarios.worlds import world_of
from tests.status.hostile.requesting import requests_made
from tests.status.verbs.operating import operating


@pytest.mark.timeout(400)
async def test_every_request_gets_an_answer_that_the_document_describes(tmp_path: Path) -> None:
    """The controller has topics, one of which lost a replica; the requests really change it."""
    world = await world_of(1, 2, 3)
    world.put_topic("orders", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3]})
    world.put_topic("audit", {0: [1, 2]})
    await world.settle()
    world.die(3)
    await world.settle()

    async with operating(world) as operator:
        assert await requests_made(operator.url, tmp_path, examples=30) >= 2_000
