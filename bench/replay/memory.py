"""The memory of a process and of everything that it started, sampled from outside."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_EVERY_S: Final = 0.1
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_SESSION: Final = 3
"""The index of the session id behind the name of the command in ``/proc/<pid>/stat``."""
_RESIDENT: Final = 21
"""The index of the number of resident pages."""


class PeakMemory:
    """Sample the resident memory of all processes of a session until ``with`` ends."""

    def __init__(self, session: int) -> None:
        self.total = 0
        """The highest sum at one moment, in bytes. Shared pages count in each process."""
        self.largest = 0
        """The highest of a single process, in bytes."""
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
        except OSError:  # the process has ended meanwhile
            return 0
        return int(fields[_RESIDENT]) * _PAGE if int(fields[_SESSION]) == self._session else 0
