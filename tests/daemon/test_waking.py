"""The look at the clock comes before anything that became ready while the process was stopped."""

import asyncio
import socket

from controllerd.daemon.waking import WakingSelector


def test_the_clock_is_looked_at_before_a_socket_that_became_ready_is_served() -> None:
    selector = WakingSelector()
    order: list[str] = []

    async def story() -> None:
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        served = asyncio.Event()

        def serve() -> None:
            order.append("served")
            served.set()

        loop.add_reader(ours, serve)
        selector.on_waking = lambda: order.append("looked")
        theirs.send(b"!")
        async with asyncio.timeout(20):
            await served.wait()
        loop.remove_reader(ours)
        ours.close()
        theirs.close()

    with asyncio.Runner(loop_factory=selector.loop) as runner:
        runner.run(story())

    assert order[:2] == ["looked", "served"]
