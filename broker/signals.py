"""How the parts of a broker wake each other within the event loop."""

import asyncio


class Signal:
    """Wakes everybody who waits at this moment. Look at the condition first, then wait, without awaiting between."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Wake all who wait."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the next ``notify``; False when ``timeout_s`` passed first."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._event.wait()
        except TimeoutError:
            return False
        return True
