"""Compresses closed segments in a thread of its own, so that the writer never waits for it."""

import os
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import structlog

from controllerd.audit.segments import compress

log = structlog.get_logger(__name__)

_NICENESS: Final = 10
"""Of this thread alone: a segment often closes in the middle of a large event, which needs the processors more."""


class Compressor:
    """A queue of closed segments. What is not done when the process ends is done after the next start."""

    def __init__(self) -> None:
        self._closed: SimpleQueue[Path | None] = SimpleQueue()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="audit-compressor", daemon=True)
        self._thread.start()

    def add(self, path: Path) -> None:
        """Nobody writes this segment any more."""
        self._closed.put(path)

    def close(self, timeout_s: float) -> None:
        """Finish the segment in work, leave the others."""
        self._stopping = True
        self._closed.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        os.nice(_NICENESS)
        while (path := self._closed.get()) is not None and not self._stopping:
            try:
                compress(path)
            except OSError as problem:
                # The plain file stays, complete and readable; the next start tries again.
                log.warning("audit segment could not be compressed", segment=path.name, error=str(problem))
