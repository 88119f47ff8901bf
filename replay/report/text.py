"""Moments, durations, counts, names and commands as people read them. Nothing here is HTML or Markdown yet."""

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:µs|ms|s|min|h|d)\b)")
STILL_LASTS: Final = "still lasts"
NOTHING: Final = "–"  # noqa: RUF001  (a dash is meant)


def moment(ms: int | None) -> str:
    """As ``2026-01-31T03:14:07.123Z``; what no calendar has stays a number."""
    if ms is None:
        return NOTHING
    if not _EARLIEST_MS <= ms <= _LATEST_MS:
        return f"{ms} ms"
    seconds, rest = divmod(ms, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"


def duration(us: int | None) -> str:
    """In the units that matter: ``850 µs``, ``250 ms``, ``63.2 s``, ``4 min 12 s``, ``3 h 05 min``, ``2 d 4 h``."""
    if us is None:
        return STILL_LASTS
    if us < 0:
        return f"-{duration(-us)}"
    if us < 1000:
        return f"{us} µs"
    if us < 1_000_000:
        return f"{_short(us / 1000)} ms"
    seconds = us / 1_000_000
    return f"{_short(seconds)} s" if seconds < 120 else _long(round(seconds))


def _short(value: float) -> str:
    """Three digits that matter, no zeros after the point."""
    text = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _long(seconds: int) -> str:
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days >= 2:
        return f"{days} d {h} h"
    return f"{hours} h {m:02d} min" if hours >= 2 else f"{minutes} min {s:02d} s"


def unbroken(sentence: str) -> str:
    """The same with no line break between a number and its unit."""
    return _BEFORE_UNIT.sub("\u00a0", sentence)


def count(number: int, noun: str, plural: str | None = None) -> str:
    """``1 partition``, ``1,234 partitions``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def sign(start_bound: object, end_bound: object) -> str:
    """What a duration between two bounds is worth: ``≥``, ``≤``, ``≈``, or empty where both ends are exact."""
    longer = start_bound == "not after" or end_bound == "not before"
    shorter = start_bound == "not before" or end_bound == "not after"
    return "≈" if longer and shorter else "≥" if longer else "≤" if shorter else ""


def at_command(ms: int, logs: Sequence[str]) -> str:
    """The command that shows the cluster as it was at a moment; empty without logs that it can read."""
    if not logs:
        return ""
    return shlex.join(["controllerctl", "replay", "at", "--time", moment(ms), *logs])


def joined(parts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]])) if parts else ""
