"""The formats of the page: sizes, durations, times, commands to copy, and severities."""

import shlex
from enum import Enum
from typing import Final

from controllerd.clock import iso
from controllerd.explain.answers import span

PROGRAM: Final = "controllerctl"
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024.0


class Severity(Enum):
    """A severity as the page shows it, from the lowest to the highest: CSS class, sign and word."""

    UNKNOWN = ("unknown", "○", "Unknown")
    OK = ("ok", "✓", "OK")
    INFO = ("info", "•", "Info")
    WARNING = ("warning", "!", "Warning")
    CRITICAL = ("critical", "✕", "Critical")

    def __init__(self, css: str, sign: str, word: str) -> None:
        self.css = css
        self.sign = sign
        self.word = word

    @property
    def rank(self) -> int:
        """The highest severity has the largest rank."""
        return list(Severity).index(self)


def command(*words: object) -> str:
    """Return a command of controllerctl, quoted for a shell: names may contain any character."""
    return shlex.join([PROGRAM, *map(str, words)])


def is_command(step: str) -> bool:
    """Whether a step of an explanation is a command."""
    return step.startswith(f"{PROGRAM} ")


def size(number: float | None) -> str:
    """Return ``512 B``, ``1.5 KiB``, ``20 GiB``; a dash for None."""
    if number is None:
        return "-"
    value, unit = float(number), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 10 else f"{value:.1f} {_UNITS[unit]}"


def rate(bytes_per_s: float | None) -> str:
    """Return ``1.5 MiB/s``; a dash for None."""
    return "-" if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def duration(seconds: float | None) -> str:
    """Return ``4m12s``, ``0.3s`` below a second, a dash for None."""
    if seconds is None:
        return "-"
    return f"{max(seconds, 0):.1f}s" if 0 < seconds < 1 else span(seconds)


def time_of_day(text: str, now_ms: int) -> str:
    """Return ``10:02:11`` of a time in ISO 8601, with ``11-21`` before it unless it is today."""
    is_today = text[:10] == iso(now_ms)[:10]
    return text[11:19] if is_today else f"{text[5:10]} {text[11:19]}"


def number(value: float) -> str:
    """Return ``100,000``."""
    return f"{value:,}"


def numbered(value: int, what: str) -> str:
    """Return ``100,000 partitions``, ``1 partition``."""
    return f"{number(value)} {what}{'s' * (value != 1)}"
