"""``beside`` runs a coroutine while its block runs: both end together, and a failure of one ends the other."""

import asyncio
from collections.abc import Coroutine

import pytest

from controllerd.errors import ControllerMoved, StoreUnavailable
from handlers.failover import beside


async def fail_beside(work: Coroutine[object, object, None]) -> None:
    async with beside(work):
        await asyncio.sleep(0)
        raise StoreUnavailable("lost")


async def test_the_block_ends_when_the_work_beside_it_has_ended() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.append("beside")

    async with beside(work()):
        done.append("block")

    assert done == ["block", "beside"]


async def test_a_failure_beside_the_block_ends_the_block_and_is_raised_unchanged() -> None:
    async def work() -> None:
        raise ControllerMoved("fenced")

    with pytest.raises(ControllerMoved, match="fenced"):
        async with beside(work()):
            await asyncio.Event().wait()


async def test_a_failure_of_the_block_ends_the_work_beside_it() -> None:
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(StoreUnavailable):
        await fail_beside(work())

    assert ended.is_set()


async def test_the_loss_of_the_role_is_raised_rather_than_another_failure() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ControllerMoved("fenced")

    with pytest.raises(ControllerMoved):
        await fail_beside(work())
