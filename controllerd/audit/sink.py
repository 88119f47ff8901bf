"""The newest segment of a log: appends, rotation by size and age, syncs, and recovery after a failed write.

Runs in the writer thread and passes every ``OSError`` on. After an error, the caller appends the same bytes again.
"""

import errno
from contextlib import suppress
from pathlib import Path
from typing import Final

from controllerd.audit.compressor import Compressor
from controllerd.audit.segments import FileOpener, SegmentFile, segment_path
from controllerd.audit.settings import AuditSettings
from controllerd.ports.clock import Clock

REMOVED: Final = "removed, replaced or cut by another process while it was being written"


class SegmentSink:
    """Appends bytes to the newest segment of a directory. Begins with a new segment."""

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
        """Whether a write failed, so that the end of the file is unknown."""
        self._partial = 0
        """The bytes of the data in progress that are in the newest segment; a failed write may leave some."""
        self._done = 0
        """The bytes of the data in progress that are complete lines in a closed segment, and are not written again."""
        self._opened_at = 0.0
        self._unsynced_since: float | None = None
        self.is_durable = True
        """Whether all lines are as durable as the settings ask. A failed sync makes it false until one succeeds."""

    def append(self, data: bytes) -> None:
        """Write ``data``, which is complete lines, to the file.

        :raises OSError: it was not written whole; the caller must append the same data next.
        """
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
        """Cut off the rest of a failed write. If that fails, continue in a new segment after the complete lines."""
        end, self._partial, self._is_torn, file = self._done + self._partial, 0, False, self._file
        try:
            if file is not None:
                file.truncate(self._size)
        except OSError:
            self._done = max(self._done, data.rfind(b"\n", self._done, end) + 1)
            self._abandon()
            raise

    def sync_due_in(self) -> float | None:
        """Seconds until the next sync of the interval; None if all is durable or ``fsync`` is ``off``."""
        if self._unsynced_since is None or self._settings.fsync == "off":
            return None
        return max(0.0, self._unsynced_since + self._settings.fsync_interval_s - self._clock.monotonic())

    def sync(self) -> None:
        """Make all appended lines durable.

        A failed ``fsync`` may have dropped the pages, and a second ``fsync`` would then succeed without writing them.
        So the segment is closed, and its chain shows which lines are missing.
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
        """Rotate a segment that is old enough, so that the log of a quiet cluster is closed and compressed too.

        A segment that another process removed is closed: all further records would go to a file without a name.
        """
        if self._is_full():
            self._rotate()
        elif self._file is not None and not self._is_torn and not self._is_in_place():
            self._abandon()
            raise OSError(errno.ENOENT, REMOVED, str(self._path))

    def _is_in_place(self) -> bool:
        """Whether the segment still has its name and all appended bytes."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return False
        return found.st_ino == self._inode and found.st_size >= self._size

    def close(self) -> None:
        """Sync and close; the segment stays uncompressed until the next start."""
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
        self._number += 1  # before the file is opened: a name is never used twice, even if opening fails
        self._file = self._opener(self._path)
        self._inode = self._path.stat().st_ino
        self._size = 0
        self._opened_at = self._clock.monotonic()
        return self._file

    def _abandon(self) -> None:
        """Close the segment without a sync; the next append opens another one."""
        file, self._file, self._unsynced_since = self._file, None, None
        if file is not None:
            with suppress(OSError):  # a failed close loses nothing: lines that must be durable were synced before
                file.close()
