"""Writes the audit log: a bounded queue, one thread, a hash chain over segments. The event loop never waits for a disk.

The order of record and send. The audit log must explain every request that a broker received: the decision, the term
and the event that led to it. Therefore the order is fixed (``machines.outbox``):

1. The controller writes to ZooKeeper. Only an acknowledged write changes its state.
2. The changes and then the requests are recorded. Each record gets its number at once, in the event loop's thread.
3. ``accepted`` waits until the writer thread has written these records to the file (and, with ``fsync = event``, has
   synced it).
4. The requests go to the senders.

If the process dies between 3 and 4, the log has requests that no broker received. This is harmless: the next controller
sends the full state again. With the opposite order, a broker could act on a request that no record explains.

The wait in 3 is bounded (``accept_wait_s``), because partitions must get new leaders even while the disk is full. When
the time runs out, the requests leave all the same, and the log counts as failing: later events do not wait until a
write succeeds. With ``on_failure = resign`` the controller gives up its role instead of leading without a log.

The meaning of a lost record. The controller never reads the audit log, and a new controller starts from ZooKeeper. So a
lost record changes no decision. It costs the readers of the log knowledge, and they must learn exactly how much:

- While the disk refuses writes, the writer retries, and records wait in the queue (``audit.backlog``) up to a bound.
- A record beyond the bound is dropped, but it keeps its number. When the disk takes writes again, a gap record names
  the range of lost numbers and the reason. The hash chain covers the written lines, so it stays unbroken.
- After a gap record, a replay does not trust its state. ``audit.checkpoints`` writes a snapshot at once, and from that
  snapshot on the replay is exact again.
- Records that still wait when the process ends are lost without a gap record. After an orderly end, the daemon's own
  log has their number. The next term begins with a snapshot in any case.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import structlog
from anyio import CancelScope, to_thread

from controllerd.audit.acceptance import Acceptance
from controllerd.audit.backlog import Backlog, StampedRecord
from controllerd.audit.compressor import Compressor
from controllerd.audit.heads import ExportedHead
from controllerd.audit.lines import GENESIS, Head, digest, encode_line
from controllerd.audit.secrets import without_secrets
from controllerd.audit.segments import (
    DirectoryLock,
    DiskFile,
    FileOpener,
    chain_end,
    list_segments,
    log_directory,
    remove_temporaries,
)
from controllerd.audit.settings import AuditSettings, at_level
from controllerd.audit.sink import SegmentSink
from controllerd.ports.clock import Clock
from controllerd.record.envelope import Envelope
from controllerd.record.records import SCHEMA_VERSION, Record

log = structlog.get_logger(__name__)

_CHUNK_BYTES: Final = 1024 * 1024
_IDLE_S: Final = 1.0


class _Chunk(NamedTuple):
    """Lines that are written together, and the head of the log after them."""

    data: bytes
    records: int
    head: Head
    epoch: int


class AuditWriter:
    """The audit log of one process. Implements ``controllerd.ports.audit.AuditLog``.

    Records that come before ``start`` wait in the queue. If the log cannot be written and ``on_failure`` is ``resign``,
    ``on_resign`` is called with the reason once per failure, in the writer thread or in the event loop's thread.
    The counters are for metrics.
    """

    def __init__(
        self,
        settings: AuditSettings,
        node: int,
        clock: Clock,
        *,
        boot: str | None = None,
        on_resign: Callable[[str], None] | None = None,
        opener: FileOpener = DiskFile,
    ) -> None:
        self.boot = boot or str(uuid4())
        self.head = Head(self.boot, 0, GENESIS)
        self.trouble: str | None = None
        """The reason why the log cannot be written at the moment; None if it can."""
        self.records_written = 0
        self.bytes_written = 0
        self.syncs = 0
        self.sync_s = 0.0
        self.failures = 0
        self.stalls = 0
        self._settings = settings
        self._node = node
        self._clock = clock
        self._on_resign = on_resign
        self._opener = opener
        self._cluster = ""
        self._hash = GENESIS
        self._written: tuple[Head, int] | None = None
        """The newest written line, and its controller epoch."""
        self._durable: tuple[Head, int] | None = None
        """The newest line that is as durable as ``fsync`` asks, and its controller epoch."""
        self._backlog = Backlog(settings.max_pending_rows, clock)
        self._acceptance = Acceptance()
        self._worker: _Worker | None = None

    @property
    def is_troubled(self) -> bool:
        """Whether the log cannot be written at the moment."""
        return self.trouble is not None

    @property
    def records_lost(self) -> int:
        """The number of dropped records. A gap record names them once the log can be written again."""
        return self._backlog.lost

    @property
    def gaps(self) -> int:
        """The number of gap records so far."""
        return self._backlog.gaps

    @property
    def directory(self) -> Path:
        """The directory of this cluster and node; known after ``start``."""
        return log_directory(self._settings.directory, self._cluster, self._node)

    def durable_head(self, now_ms: int) -> ExportedHead | None:
        """The newest synced line (with ``fsync = off``: the newest written line); None before the first."""
        if self._durable is None:
            return None
        head, epoch = self._durable
        return ExportedHead.of(head, cluster=self._cluster, node=self._node, epoch=epoch, exported_ms=now_ms)

    # -- in the event loop -------------------------------------------------------------------------------------------

    def record(self, *records: Record) -> None:
        """Queue the records that the level includes; never blocks."""
        level = self._settings.level
        self._backlog.put(*(kept for record in records if (kept := at_level(level, record)) is not None))

    async def accepted(self) -> None:
        """Wait until all records so far are written (with ``fsync = event``: synced), for a bounded time.

        Does not wait while the log is known to fail, so that a dead disk costs one wait and not one per event.
        """
        if self._worker is None or self.is_troubled:
            return
        in_time = await self._acceptance.wait(self._backlog.last_seq, self._settings.accept_wait_s)
        if not in_time and not self.is_troubled:
            self.stalls += 1
            self._fail("the audit log was not written in time")

    async def start(self, cluster: str) -> None:
        """Lock the directory of this cluster and node, find the end of its chain, and begin to write.

        :raises AuditInUse: another process writes it. :raises OSError: it cannot be created or read.
        """
        self._cluster = cluster
        self._worker = await to_thread.run_sync(self._begin)

    async def close(self) -> None:
        """Write the queued records and end the thread, for a bounded time. May be called before ``start`` and again."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._backlog.finish()
        with CancelScope(shield=True):
            await to_thread.run_sync(worker.end, self._settings.close_wait_s)

    def _begin(self) -> "_Worker":
        directory = self.directory
        directory.mkdir(parents=True, exist_ok=True)
        lock = DirectoryLock(directory, f"boot {self.boot}")
        try:
            remove_temporaries(directory)
            end = chain_end(directory)
            uncompressed = [segment.path for segment in list_segments(directory) if not segment.is_compressed]
        except OSError:
            lock.release()
            raise
        self._hash = end.head
        compressor = Compressor()
        sink = SegmentSink(
            directory,
            self.boot,
            end.next_number,
            settings=self._settings,
            clock=self._clock,
            opener=self._opener,
            compressor=compressor,
        )
        for path in uncompressed:
            compressor.add(path)
        return _Worker(lambda: self._run(sink), compressor, lock)

    # -- in the writer thread ----------------------------------------------------------------------------------------

    def _run(self, sink: SegmentSink) -> None:
        while not self._backlog.is_drained:
            due = sink.sync_due_in()
            items = self._backlog.take(_IDLE_S if due is None else min(due, _IDLE_S))
            for chunk in self._chunks(items):
                self._write(sink, chunk)
            self._maintain(sink)
        if self._attempt(sink.close) and sink.is_durable:
            self._durable = self._written

    def _chunks(self, items: Sequence[StampedRecord]) -> Iterator[_Chunk]:
        lines: list[bytes] = []
        size = 0
        for index, item in enumerate(items, 1):
            line = self._chain(item)
            lines.append(line)
            size += len(line) + 1
            if size >= _CHUNK_BYTES or index == len(items):
                yield _Chunk(b"\n".join(lines) + b"\n", len(lines), Head(self.boot, item.seq, self._hash), item.epoch)
                lines, size = [], 0

    def _chain(self, item: StampedRecord) -> bytes:
        """Encode the next line of the chain, and keep its hash for the line after it."""
        envelope = Envelope(
            SCHEMA_VERSION,
            item.record.kind,
            self._cluster,
            self._node,
            self.boot,
            item.seq,
            item.epoch,
            item.event,
            item.ts_ms,
            item.mono_ns,
            self._hash,
        )
        line = encode_line(envelope, without_secrets(item.record))
        self._hash = digest(line)
        return line

    def _write(self, sink: SegmentSink, chunk: _Chunk) -> None:
        """Append, and retry while the disk refuses. After ``finish``, make one last attempt."""
        is_last = False
        while not self._attempt(lambda: sink.append(chunk.data)):
            if is_last:
                self._backlog.lost += chunk.records
                log.error("lost audit records at shutdown", records=chunk.records, last_seq=chunk.head.seq)
                return
            is_last = self._backlog.pause(self._settings.retry_s)
        is_durable = self._settings.fsync != "event" or self._sync(sink)
        self.head, self._written = chunk.head, (chunk.head, chunk.epoch)
        self.records_written += chunk.records
        self.bytes_written += len(chunk.data)
        if is_durable:
            self._recover()
        self._acceptance.reached(chunk.head.seq)

    def _maintain(self, sink: SegmentSink) -> None:
        self._attempt(sink.tidy)
        if sink.sync_due_in() == 0.0:
            self._sync(sink)
        if sink.is_durable:
            self._durable = self._written

    def _sync(self, sink: SegmentSink) -> bool:
        began = self._clock.monotonic()
        is_durable = self._attempt(sink.sync)
        self.syncs += 1
        self.sync_s += self._clock.monotonic() - began
        return is_durable

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Return whether the action succeeded. After an ``OSError`` the log counts as failing."""
        try:
            action()
        except OSError as problem:
            self.failures += 1
            self._backlog.trouble = str(problem)
            self._fail(str(problem))
            return False
        return True

    # -- in both threads -----------------------------------------------------------------------------------------------

    def _fail(self, reason: str) -> None:
        if self.is_troubled:
            return
        self.trouble = reason
        self._acceptance.release()
        log.error("failed to write audit log", reason=reason, on_failure=self._settings.on_failure)
        if self._settings.on_failure == "resign" and self._on_resign is not None:
            self._on_resign(reason)

    def _recover(self) -> None:
        if self.is_troubled:
            self.trouble = self._backlog.trouble = None
            log.warning("resumed writing audit log", records_lost=self.records_lost)


class _Worker:
    """The writer thread, the compressor and the lock of the directory."""

    def __init__(self, run: Callable[[], None], compressor: Compressor, lock: DirectoryLock) -> None:
        self._compressor = compressor
        self._lock = lock
        self._thread = threading.Thread(target=run, name="audit-writer", daemon=True)
        self._thread.start()

    def end(self, timeout_s: float) -> None:
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.error("audit writer missed its deadline to end", waited_s=timeout_s)
            return
        self._compressor.close(timeout_s)
        self._lock.release()
