"""The daemon's own log: text on a terminal, JSON lines elsewhere, entries with fields in systemd's journal."""

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from controllerd.journal import SOCKET, SystemdJournal
from controllerd.journal_fields import fields_of, readable

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]

_PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""Syslog priorities, as sd-daemon(3) reads them from the head of a line."""

_REPEAT_AFTER_S: Final = 60.0
_REMEMBERED: Final = 100
"""The most messages of libraries that are remembered to detect repetitions."""

_FORMAT_EXCEPTIONS: Final[list[Processor]] = [structlog.processors.format_exc_info]


def configure_logging(
    level: Level,
    log_format: Format = "auto",
    *,
    stream: TextIO | None = None,
    env: Mapping[str, str] | None = None,
    journal: Path = SOCKET,
) -> None:
    """Send the log, and warnings of the libraries, to ``stream`` (standard error unless given).

    If that stream leads to systemd's journal, send entries with fields to the socket ``journal`` instead.
    """
    out = sys.stderr if stream is None else stream
    variables = os.environ if env is None else env
    console = log_format == "console" or (log_format == "auto" and out.isatty())
    rendering = _rendering(console=console, colors=out.isatty() and not variables.get("NO_COLOR"))
    if goes_to_journal(out, variables):
        rendering = _for_journal(rendering, journal, in_json=log_format == "json")
    minimum = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_common(), *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    _capture_libraries(out, rendering, minimum)


def goes_to_journal(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether systemd connected ``stream`` to its journal (``JOURNAL_STREAM`` of systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # a stream without a file descriptor is not connected to the journal
        return False
    return env.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _common() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _rendering(*, console: bool, colors: bool) -> list[Processor]:
    if console:
        return [structlog.dev.ConsoleRenderer(colors=colors, sort_keys=False)]
    return [*_FORMAT_EXCEPTIONS, structlog.processors.JSONRenderer()]


def _for_journal(rendering: list[Processor], path: Path, *, in_json: bool) -> list[Processor]:
    """Processors for entries with fields; without the socket, for lines with a priority prefix."""
    *before, last = rendering
    fallback = _with_priority(last)
    if not path.is_socket():
        return [*before, fallback]
    return [*_FORMAT_EXCEPTIONS, _to_journal(_journal_at(path), last if in_json else readable, fallback)]


@cache
def _journal_at(path: Path) -> SystemdJournal:
    """The one socket of the process, even if the log is configured several times."""
    return SystemdJournal(path)


def _to_journal(journal: SystemdJournal, renderer: Processor, fallback: Processor) -> Processor:
    """A processor that sends the entry to the journal and drops the line; if that fails, it returns the line."""

    def send(logger: WrappedLogger, method: str, event: EventDict) -> str:
        fields = list(fields_of(event))
        priority = _PRIORITIES.get(str(event.get("level")), _PRIORITIES["info"])
        text = str(renderer(logger, method, dict(event)))
        try:
            journal.send(
                [("MESSAGE", text), ("PRIORITY", str(priority)), ("SYSLOG_IDENTIFIER", "controllerd"), *fields]
            )
        except OSError:
            return str(fallback(logger, method, event))
        raise structlog.DropEvent

    return send


def _with_priority(renderer: Processor) -> Processor:
    """A renderer that puts the priority before the text of the line."""

    def render(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = _PRIORITIES.get(str(event.get("level")), _PRIORITIES["info"])
        return f"<{priority}>{renderer(logger, method, event)!s}"

    return render


class _Handler(logging.StreamHandler[TextIO]):
    """Writes the lines that were not sent to the journal."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the line, unless it was sent to the journal."""
        with suppress(structlog.DropEvent):
            super().emit(record)


class _RepetitionFilter(logging.Filter):
    """Drops recent repetitions of a library's message: kazoo tries to connect several times a second."""

    def __init__(self) -> None:
        super().__init__()
        self._logged_at: dict[tuple[str, str], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the message is new or was not logged recently. A message with a traceback always passes."""
        words = (record.name, record.getMessage())
        if not record.exc_info and record.created - self._logged_at.get(words, 0.0) < _REPEAT_AFTER_S:
            return False
        if len(self._logged_at) >= _REMEMBERED:
            self._logged_at.clear()
        self._logged_at[words] = record.created
        return True


def _capture_libraries(out: TextIO, rendering: list[Processor], minimum: int) -> None:
    """Send the warnings and errors of kazoo and aiohttp, which log by the standard library, to the same log."""
    handler = _Handler(out)
    handler.addFilter(_RepetitionFilter())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_common(), structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(minimum, logging.WARNING))
