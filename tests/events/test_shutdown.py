"""The event queue during the shutdown of the instance."""

import asyncio
from contextlib import suppress

from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from events.admin import ControlledShutdown
from events.cluster import Expire, ShutdownEventThread
from events.queue import EventQueue
from tests.fakes.world import World


async def test_a_session_that_expires_during_the_shutdown_does_not_cancel_it() -> None:
    queue = EventQueue(lambda: 0.0)
    queue.clear_and_put(ShutdownEventThread())
    queue.clear_and_put(Expire(1))  # by ZooKeeperSession.declare_lost

    kinds = [type((await queue.take()).event) for _ in range(len(queue))]

    assert ShutdownEventThread in kinds


async def test_calls_are_answered_when_the_loop_was_cancelled() -> None:
    """``Instance._stop`` cancels the loop when the current event does not end in time."""
    world = World()
    running = asyncio.create_task(world.loop.run())
    await asyncio.sleep(0)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running

    reply = asyncio.ensure_future(world.queue.call(ControlledShutdown(BrokerId(1), 7)))
    done, _ = await asyncio.wait({reply}, timeout=0.2)

    assert done, "the call is never answered"
    assert isinstance(reply.exception(), NotController)
