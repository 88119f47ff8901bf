"""What the job says while it runs: one line at a time on standard error, seldom enough to be read."""

import time
from typing import Final, TextIO

from replay.facts.engine import Progress

_EVERY_S: Final = 2.0


class Terminal:
    """A progress listener that writes a line at the beginning and end of a stage, and now and then between them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._began = self._told = 0.0

    def __call__(self, progress: Progress) -> None:
        """Stage, how much is done, and how much of it per second."""
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._began = progress.stage, now
        elif now - self._told < _EVERY_S and progress.done < progress.total:
            return
        self._told = now
        total = f" of {progress.total:,}" if progress.total else ""
        rate = f", {progress.done / (now - self._began):,.0f}/s" if progress.done and now > self._began else ""
        self.tell(f"{progress.stage}: {progress.done:,}{total} {progress.unit}{rate}")

    def tell(self, sentence: str) -> None:
        """One line."""
        print(sentence, file=self._stream, flush=True)

    def refuse(self, why: str, code: int) -> int:
        """Say why the job ends, and give the code that it ends with."""
        self.tell(f"replay: {why}")
        return code
