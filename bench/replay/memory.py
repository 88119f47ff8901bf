"""The memory of a process and of everything that it started, sampled from outside."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_EVERY_S: Final = 0.1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SESSION: Final = 3
"""Where the session stands behind the name of the command in ``/proc/<pid>/stat``; and the resident pages."""
_RESIDENT: Final = 21


class PeakMemory:
    """Samples the resident memory of all processes of a session until ``with`` ends."""

    def __init__(self, session: int) -> None:
        self.total = 0
        """Highest sum at one moment, in bytes. Pages that processes share count in each of them."""
        self.largest = 0
        """Highest of a single process."""
        self._session = session
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(_EVERY_S):
            sizes = [size for path in Path("/proc").glob("[0-9]*/stat") if (size := self._resident(path))]
            self.total = max(self.total, sum(sizes))
            self.largest = max(self.largest, *sizes, 0)

    def _resident(self, path: Path) -> int:
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended since
            return 0
        return int(fields[_RESIDENT]) * _PAGE if int(fields[_SESSION]) == self._session else 0
