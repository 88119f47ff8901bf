"""Writes Kafka's own two logs from the audit records, in a thread of its own."""

import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Final

import structlog

from controllerd.kafkalogs.files import KafkaLogFiles
from controllerd.kafkalogs.texts import CONTROLLER, Line
from controllerd.kafkalogs.wording import Wording
from controllerd.ports.clock import Clock
from controllerd.record.envelope import rows_of
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import Record

log = structlog.get_logger(__name__)

MAX_ROWS: Final = 500_000
"""The most rows in records that wait to be written. Further records are left out, and a line counts them."""


class KafkaLogs:
    """A subscriber of records that writes the lines of Kafka's controller, without waiting for the disk."""

    takes: Final = EVERY_KIND

    def __init__(self, clock: Clock, node: int, folder: Path, *, max_rows: int = MAX_ROWS) -> None:
        """No file is opened before ``start``."""
        self._clock = clock
        self._node = node
        self._max_rows = max_rows
        self._queue: SimpleQueue[tuple[int, Record] | None] = SimpleQueue()
        self._waiting = 0
        self._written = 0
        self._left_out = 0
        self._has_failed = False
        self._files = KafkaLogFiles(folder)
        self._wording = Wording(node)
        self._thread = threading.Thread(target=self._run, name="kafka-logs", daemon=True)

    def start(self) -> None:
        """Begin to write. :raises OSError: the folder cannot be created."""
        self._files.make_folder()
        self._thread.start()

    def record(self, *records: Record) -> None:
        """Queue records for the thread."""
        at_ms = self._clock.now_ms()
        for record in records:
            rows = rows_of(record)
            # Each counter has one writing thread: the event loop's thread for these, the writer thread for the other.
            if self._waiting - self._written + rows > self._max_rows:
                self._left_out += 1
                continue
            self._waiting += rows
            self._queue.put((at_ms, record))

    def close(self, timeout_s: float) -> None:
        """Write the queued records, for a bounded time. May be called without ``start``."""
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        reported = 0
        while (item := self._queue.get()) is not None:
            at_ms, record = item
            lines = list(self._wording.lines(record))
            if self._left_out > reported:
                lines.append(self._gap(self._left_out - reported))
                reported = self._left_out
            self._write(at_ms, lines)
            self._written += rows_of(record)
        self._files.close()

    def _gap(self, records: int) -> Line:
        text = f"[Controller id={self._node}] Error left out: {records} records, because the disk did not keep up"
        return Line(CONTROLLER, "ERROR", text, "kafka.controller.KafkaController")

    def _write(self, at_ms: int, lines: list[Line]) -> None:
        try:
            for line in lines:
                self._files.write(at_ms, line)
            if self._queue.empty():
                self._files.flush()
        except OSError as error:
            self._note_failure(error)
        else:
            self._has_failed = False

    def _note_failure(self, error: OSError) -> None:
        self._files.close()
        if not self._has_failed:
            log.error("failed to write logs in Kafka's format", reason=str(error), next="free space; it is retried")
        self._has_failed = True
