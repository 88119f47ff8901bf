"""Ends the process when the event loop blocks, because no test could end then."""

import asyncio
import faulthandler
import os
import sys
import threading
import time
from typing import Final, Self

STANDSTILL_S: Final = 30.0
"""Seconds of processor time, so that a busy machine is not taken for a blocked loop."""
_BEAT_S: Final = 0.05


class Watchdog:
    """Checks from a thread of its own whether the loop turns; a context manager inside the loop."""

    def __init__(self) -> None:
        self.doing = ""
        """The text in the message of a blocked loop."""
        self.longest_s = 0.0
        """The most processor time between two turns of the loop."""
        self._beaten_at = time.process_time()
        self._ended = threading.Event()
        self._heart: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._beaten_at = time.process_time()
        self._heart = asyncio.get_running_loop().create_task(self._beat(), name="heart")
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        assert self._heart is not None
        self._heart.cancel()

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT_S)
            now = time.process_time()
            self.longest_s, self._beaten_at = max(self.longest_s, now - self._beaten_at), now

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            if time.process_time() - self._beaten_at > STANDSTILL_S:
                print(f"FAILED: the event loop stands still: {self.doing}", flush=True)
                faulthandler.dump_traceback(sys.stdout)
                sys.stdout.flush()
                os._exit(1)
