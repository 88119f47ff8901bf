"""Counts, names and commands as people read them. Nothing here is HTML or Markdown yet."""

import re
import shlex
from collections.abc import Sequence
from typing import Final

from controllerd.record.moments import moment

_BEFORE_UNIT: Final = re.compile(r"(?<=\d) (?=(?:µs|ms|s|min|h|d)\b)")


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
