"""Exports the head of the audit log from time to time: into a file, into the journal, and to a callable.

What is exported is durable in the log before, so that a log that ends before an exported head was cut off. The file
should lie where whoever can change the log cannot change it.
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
"""Heads in the file, the newest last: enough to tell since when a history is another one."""


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Where heads go, and how often."""

    interval_s: float = 10.0
    file: Path | None = None
    key_file: Path | None = None
    """The key of their signatures; they are not signed without one."""
    to_journal: bool = False
    """A line in the daemon's own log for each."""


class HeadExporter:
    """Exports the newest head of a log when it is another one than the last. ``open`` first, then ``run``."""

    def __init__(
        self,
        settings: ExportSettings,
        audit: AuditWriter,
        now_ms: Callable[[], int],
        put: Callable[[bytes], Awaitable[None]] | None = None,
    ) -> None:
        """``put`` takes the encoded head to ZooKeeper; :raises StoreUnavailable: not now."""
        self.trouble: str | None = None
        """Why the newest head could not be exported; None when all is well."""
        self._settings = settings
        self._audit = audit
        self._now_ms = now_ms
        self._put = put
        self._key: bytes | None = None
        self._lines: list[bytes] = []
        self._exported: ExportedHead | None = None

    async def open(self) -> None:
        """Read the key and the heads of earlier lives. :raises BadHead: the key is too short. :raises OSError:"""
        await to_thread.run_sync(self._read)

    def _read(self) -> None:
        if self._settings.key_file is not None:
            self._key = read_key(self._settings.key_file)
        file = self._settings.file
        if file is not None and file.exists():
            self._lines = [line for line in file.read_bytes().splitlines() if line.strip()][-KEPT:]

    async def run(self) -> None:
        """Export again and again."""
        while True:
            await asyncio.sleep(self._settings.interval_s)
            await self.export()

    async def finish(self) -> None:
        """The log is closed: export its last head, which ZooKeeper does not get any more."""
        self._put = None
        await self.export()

    async def export(self) -> None:
        """Export the newest durable head, if it is another one; what cannot be done is tried again next time."""
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
            log.info("audit head", head=line.decode())
        self._exported, self.trouble = head, None

    def _fail(self, reason: str) -> None:
        if self.trouble is None:
            log.error("the head of the audit log cannot be exported", reason=reason, next="it is tried again")
        self.trouble = reason

    def _write(self, file: Path, line: bytes) -> None:
        """Replace the file at once: who reads it finds whole lines only."""
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
