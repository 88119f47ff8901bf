"""The segment that is being written: appends, rotation by size and age, durability, and recovery of a failed write.

Runs in the writer thread and lets every ``OSError`` out; after one, the same bytes may simply be appended again.
"""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from controllerd.audit.compressor import Compressor
from controllerd.audit.segments import FileOpener, SegmentFile, segment_path
from controllerd.audit.settings import AuditSettings
from controllerd.ports.clock import Clock

TAKEN_AWAY: Final = "taken away, replaced or cut by somebody while it was being written"


class SegmentSink:
    """Appends bytes to the newest segment of a directory, beginning with a new one."""

    def __init__(
        self,
        directory: Path,
        boot: str,
        number: int,
        *,
        settings: AuditSettings,
        clock: Clock,
        opener: FileOpener,
        compressor: Compressor,
    ) -> None:
        self._directory = directory
        self._boot = boot
        self._number = number
        self._settings = settings
        self._clock = clock
        self._opener = opener
        self._compressor = compressor
        self._file: SegmentFile | None = None
        self._path = directory
        self._inode = 0
        self._size = 0
        self._is_torn = False
        """Whether a write failed: it is not known how much of it is there."""
        self._partial = 0
        self._done = 0
        self._opened_at = 0.0
        self._unsynced_since: float | None = None
        self.is_durable = True
        """Whether everything is as durable as the settings want it. After one that failed only the next makes it so."""

    def append(self, data: bytes) -> None:
        """All of ``data``, whole lines, reaches the kernel, or ``OSError``: then only the same data may come next."""
        if self._is_full():
            self._rotate()
        if self._is_torn:
            self._recover(data)
        file = self._file or self._open()
        self._is_torn, rest = True, memoryview(data)[self._done :]
        while rest:
            taken = file.write(rest)
            self._partial += taken
            rest = rest[taken:]
        self._size += self._partial
        self._partial = self._done = 0
        self._is_torn = False
        self.is_durable = self._settings.fsync == "off"
        if self._unsynced_since is None:
            self._unsynced_since = self._clock.monotonic()

    def _recover(self, data: bytes) -> None:
        """Cut off what a failed write left; if that fails, go on in a new segment after the lines that are whole."""
        end, self._partial, self._is_torn, file = self._done + self._partial, 0, False, self._file
        try:
            if file is not None:
                file.truncate(self._size)
        except OSError:
            self._done = max(self._done, data.rfind(b"\n", self._done, end) + 1)
            self._abandon()
            raise

    def sync_due_in(self) -> float | None:
        """Seconds until the interval's sync; None when everything is durable or the settings leave it to the kernel."""
        if self._unsynced_since is None or self._settings.fsync == "off":
            return None
        return max(0.0, self._unsynced_since + self._settings.fsync_interval_s - self._clock.monotonic())

    def sync(self) -> None:
        """Make what was appended durable.

        After a failure the kernel may have dropped it, and asking again would be answered with a lie: the segment is
        left behind, and its chain shows what is missing.
        """
        if self._file is None or self._unsynced_since is None:
            return
        try:
            self._file.sync()
        except OSError:
            self._abandon()
            raise
        self._unsynced_since, self.is_durable = None, True

    def tidy(self) -> None:
        """Rotate a segment that is old enough, so that a quiet cluster's log is closed and compressed too.

        A segment that is not there any more is left behind, or all records would go to a file without a name.
        """
        if self._is_full():
            self._rotate()
        elif self._file is not None and not self._is_torn and not self._is_there():
            self._abandon()
            raise OSError(errno.ENOENT, TAKEN_AWAY, str(self._path))

    def _is_there(self) -> bool:
        """Whether the segment has its name, and all that was appended."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return found.st_ino == self._inode and found.st_size >= self._size

    def close(self) -> None:
        """Make durable and close; the segment stays uncompressed until the next start."""
        try:
            if self._settings.fsync != "off":
                self.sync()
        finally:
            self._abandon()

    def _is_full(self) -> bool:
        if self._file is None or self._size == 0 or self._is_torn:
            return False
        age_s = self._clock.monotonic() - self._opened_at
        return self._size >= self._settings.segment_bytes or age_s >= self._settings.segment_age_s

    def _rotate(self) -> None:
        path = self._path
        if self._settings.fsync != "off":
            self.sync()
        self._abandon()
        self._compressor.add(path)

    def _open(self) -> SegmentFile:
        self._path = segment_path(self._directory, self._boot, self._number)
        self._number += 1  # also when opening fails half-way: a name is never used twice
        self._file = self._opener(self._path)
        self._inode = self._path.stat().st_ino
        self._size = 0
        self._opened_at = self._clock.monotonic()
        return self._file

    def _abandon(self) -> None:
        file, self._file, self._unsynced_since = self._file, None, None
        if file is not None:
            with suppress(OSError):  # nothing depends on it: what had to be durable was synced before
                file.close()
