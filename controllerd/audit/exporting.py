"""Exports the head of the audit log at an interval: into a file, into the journal, and to ZooKeeper.

A head is exported only when its line is durable. So a log that ends before an exported head has been cut off. The file
should be in a place that a person who can change the log cannot change.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from anyio import to_thread

from controllerd.audit.heads import ExportedHead, encode_head, read_key
from controllerd.audit.segments import sync_directory
from controllerd.audit.writer import AuditWriter
from controllerd.errors import StoreUnavailable

log = structlog.get_logger(__name__)

KEPT: Final = 100
"""The most heads in the file, the newest last: enough to find out since when a history was rewritten."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """The destinations of exported heads, and the interval."""

    interval_s: float = 10.0
    file: Path | None = None
    key_file: Path | None = None
    """The key of the signatures; without a key, heads are not signed."""
    to_journal: bool = False
    """Whether each head is also a line of the daemon's own log."""


class HeadExporter:
    """Exports the newest head of a log whenever it changed. Call ``open`` first, then ``run``."""

    def __init__(
        self,
        settings: ExportSettings,
        audit: AuditWriter,
        now_ms: Callable[[], int],
        put: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> None:
        """``put`` writes the encoded head to ZooKeeper, and raises ``StoreUnavailable`` if that fails."""
        self.trouble: str | None = None
        """The reason why the newest head could not be exported; None if it was."""
        self._settings = settings
        self._audit = audit
        self._now_ms = now_ms
        self._put = put
        self._key: bytes | None = None
        self._lines: list[bytes] = []
        self._exported: ExportedHead | None = None

    async def open(self) -> None:
        """Read the key and the heads of earlier boots. :raises BadHead: the key is too short. :raises OSError:"""
        await to_thread.run_sync(self._read)

    def _read(self) -> None:
        if self._settings.key_file is not None:
            self._key = read_key(self._settings.key_file)
        file = self._settings.file
        if file is not None and file.exists():
            self._lines = [line for line in file.read_bytes().splitlines() if line.strip()][-KEPT:]

    async def run(self) -> None:
        """Export at the interval, for ever."""
        while True:
            await asyncio.sleep(self._settings.interval_s)
            await self.export()

    async def finish(self) -> None:
        """Export the last head of the closed log, into the file and the journal only."""
        self._put = None
        await self.export()

    async def export(self) -> None:
        """Export the newest durable head, if it changed. A failed export is retried at the next interval."""
        head = self._audit.durable_head(self._now_ms())
        if head is None or (self._exported is not None and head.head == self._exported.head):
            return
        line = encode_head(head, self._key)
        try:
            if self._settings.file is not None:
                await to_thread.run_sync(self._write, self._settings.file, line, abandon_on_cancel=True)
            if self._put is not None:
                await self._put(line)
        except (OSError, StoreUnavailable) as problem:
            self._fail(str(problem))
            return
        if self._settings.to_journal:
            log.info("exported audit head", head=line.decode())
        self._exported, self.trouble = head, None

    def _fail(self, reason: str) -> None:
        if self.trouble is None:
            log.error("failed to export audit head", reason=reason, next="it is retried")
        self.trouble = reason

    def _write(self, file: Path, line: bytes) -> None:
        """Replace the file atomically, so that readers find complete lines only."""
        lines = [*self._lines, line][-KEPT:]
        copy = file.with_name(f"{file.name}.{os.getpid()}.tmp")
        try:
            with copy.open("wb") as target:
                target.write(b"".join(kept + b"\n" for kept in lines))
                target.flush()
                os.fsync(target.fileno())
            copy.replace(file)
        finally:
            copy.unlink(missing_ok=True)
        sync_directory(file.parent)
        self._lines = lines
