"""Compresses closed segments in a thread of its own, so that the writer never waits for it."""

import os
import threading
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import structlog

from controllerd.audit.segments import TEMPORARY, compress

log = structlog.get_logger(__name__)

_NICENESS: Final = 10
"""Of this thread alone: a segment often closes in the middle of a large event, which needs the processors more."""


class Compressor:
    """A queue of closed segments. What is not done when the process ends is done after the next start."""

    def __init__(self) -> None:
        self._closed: SimpleQueue[Path | None] = SimpleQueue()
        self._refused: list[Path] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="audit-compressor", daemon=True)
        self._thread.start()

    def add(self, path: Path) -> None:
        """Take a segment that is not written any more."""
        self._closed.put(path)

    def close(self, timeout_s: float) -> None:
        """Finish the segment in work, leave the others."""
        self._stopping = True
        self._closed.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        with suppress(PermissionError):  # a sandbox may forbid even to be nicer
            os.nice(_NICENESS)
        while (path := self._closed.get()) is not None and not self._stopping:
            if self._compress(path):
                self._try_again()
            else:
                self._refused.append(path)

    def _try_again(self) -> None:
        """There is room again, it seems: the segments that were refused before, as long as that is so."""
        while self._refused and not self._stopping and self._compress(self._refused[0]):
            del self._refused[0]

    def _compress(self, path: Path) -> bool:
        try:
            compress(path)
        except OSError as problem:
            # The plain file stays, complete and readable; what there is of the copy only takes room.
            log.warning("audit segment could not be compressed", segment=path.name, error=str(problem))
            with suppress(OSError):
                path.with_name(f"{path.name}.zst{TEMPORARY}").unlink(missing_ok=True)
            return False
        return True
