"""The daemon's own log: readable on a terminal, JSON lines elsewhere, with priorities under systemd."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final, Literal, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Level = Literal["debug", "info", "warning", "error"]
Format = Literal["auto", "console", "json"]

_PRIORITIES: Final = {"debug": 7, "info": 6, "warning": 4, "error": 3, "critical": 2}
"""Syslog priorities, as sd-daemon(3) reads them from the head of a line."""


def configure_logging(
    level: Level, log_format: Format = "auto", *, stream: TextIO | None = None, env: Mapping[str, str] | None = None
) -> None:
    """Send our log, and warnings of the libraries, to ``stream`` (standard error unless given)."""
    out = sys.stderr if stream is None else stream
    variables = os.environ if env is None else env
    console = log_format == "console" or (log_format == "auto" and out.isatty())
    rendering = _rendering(console=console, colors=out.isatty() and not variables.get("NO_COLOR"))
    if goes_to_journal(out, variables):
        rendering = [*rendering[:-1], _with_priority(rendering[-1])]
    minimum = logging.getLevelNamesMapping()[level.upper()]
    structlog.configure(
        processors=[*_common(), *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(minimum),
        logger_factory=structlog.WriteLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    _capture_libraries(out, rendering, minimum)


def goes_to_journal(stream: TextIO, env: Mapping[str, str]) -> bool:
    """Whether ``stream`` is the one that systemd connected to its journal (``JOURNAL_STREAM`` of systemd.exec(5))."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):  # a stream without a file is not the journal's
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
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


def _with_priority(renderer: Processor) -> Processor:
    """The renderer with the priority of the line before its text."""

    def render(logger: WrappedLogger, method: str, event: EventDict) -> str:
        priority = _PRIORITIES.get(str(event.get("level")), _PRIORITIES["info"])
        return f"<{priority}>{renderer(logger, method, event)!s}"

    return render


def _capture_libraries(out: TextIO, rendering: list[Processor], minimum: int) -> None:
    """kazoo and aiohttp log with the standard library: theirs goes the same way, from warnings up."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*_common(), structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(minimum, logging.WARNING))
