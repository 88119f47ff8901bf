"""Sizes, durations and moments as the page writes them."""

from typing import Final

from controllerd.clock import iso
from controllerd.explain.answers import span

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024.0


def size(number: float | None) -> str:
    """``512 B``, ``1.5 KiB``, ``20 GiB``; a dash where it is not known."""
    if number is None:
        return "-"
    value, unit = float(number), 0
    while value >= _STEP and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 or value >= 10 else f"{value:.1f} {_UNITS[unit]}"


def rate(bytes_per_s: float | None) -> str:
    """``1.5 MiB/s``; a dash where it is not known."""
    return "-" if bytes_per_s is None else f"{size(bytes_per_s)}/s"


def lasting(seconds: float | None) -> str:
    """``4m12s``, ``0.3s`` below a second, a dash where it is not known."""
    if seconds is None:
        return "-"
    return f"{max(seconds, 0):.1f}s" if 0 < seconds < 1 else span(seconds)


def time_of_day(text: str, now_ms: int) -> str:
    """``10:02:11`` of a time in ISO 8601, with ``11-21`` before it on another day than today's."""
    is_today = text[:10] == iso(now_ms)[:10]
    return text[11:19] if is_today else f"{text[5:10]} {text[11:19]}"


def moment(epoch_ms: int) -> str:
    """A wall clock time in ISO 8601."""
    return iso(epoch_ms)


def number(value: float) -> str:
    """``100,000``."""
    return f"{value:,}"


def numbered(value: int, what: str) -> str:
    """``100,000 partitions``, ``1 partition``."""
    return f"{number(value)} {what}{'s' * (value != 1)}"
