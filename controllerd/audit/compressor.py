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
"""The niceness of this thread alone. A segment often closes during a large event, which needs the processors more."""


class Compressor:
    """A queue of closed segments. Segments still queued when the process ends are compressed after the next start."""

    def __init__(self) -> None:
        self._closed: SimpleQueue[Path | None] = SimpleQueue()
        self._failed: list[Path] = []
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="audit-compressor", daemon=True)
        self._thread.start()

    def add(self, path: Path) -> None:
        """Queue a segment that is no longer written."""
        self._closed.put(path)

    def close(self, timeout_s: float) -> None:
        """Finish the current segment and leave the others."""
        self._stopping = True
        self._closed.put(None)
        self._thread.join(timeout_s)

    def _run(self) -> None:
        with suppress(PermissionError):  # a sandbox may forbid a change of the niceness
            os.nice(_NICENESS)
        while (path := self._closed.get()) is not None and not self._stopping:
            if self._compress(path):
                self._retry_failed()
            else:
                self._failed.append(path)

    def _retry_failed(self) -> None:
        """A compression succeeded, so the disk has room again: retry the failed segments until one fails."""
        while self._failed and not self._stopping and self._compress(self._failed[0]):
            del self._failed[0]

    def _compress(self, path: Path) -> bool:
        try:
            compress(path)
        except OSError as problem:
            # The uncompressed file stays, complete and readable. The unfinished copy would only take room.
            log.warning("failed to compress audit segment", segment=path.name, error=str(problem))
            with suppress(OSError):
                path.with_name(f"{path.name}.zst{TEMPORARY}").unlink(missing_ok=True)
            return False
        return True
