"""Parses and formats moments and durations. Times are UTC unless they have another offset. Pure."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"\d{12,}")
_EARLIEST_MS: Final = -62_135_596_800_000
_LATEST_MS: Final = 253_402_300_799_999
STILL_LASTS: Final = "still lasts"
NOTHING: Final = "–"  # noqa: RUF001  (a dash is meant)


class BadMoment(ValueError):
    """The text is no timestamp; the message gives the accepted formats."""


def parse_moment(text: str) -> int:
    """Parse a timestamp (``2026-01-31T03:14:00Z``, or another offset) or a number of milliseconds since 1970.

    Without an offset the time is UTC.
    :raises BadMoment: the text is none of these
    """
    try:
        if _NUMBER.fullmatch(text):
            return _ms(_EPOCH + timedelta(milliseconds=int(text)))
        moment = datetime.fromisoformat(text)
        return _ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise BadMoment(f"{text!r} is no moment: write 2026-01-31T03:14:00Z, or milliseconds since 1970") from None


def _ms(aware: datetime) -> int:
    """Milliseconds since 1970. :raises OverflowError: the day in UTC is outside of the calendar"""
    return (aware.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def moment(ms: int | None) -> str:
    """Format as ``2026-01-31T03:14:07.123Z``; a value outside of the calendar stays a number."""
    if ms is None:
        return NOTHING
    if not _EARLIEST_MS <= ms <= _LATEST_MS:
        return f"{ms} ms"
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def second(ms: int) -> str:
    """Format as ``2026-01-31T03:14:07Z``, without milliseconds."""
    text = moment(ms)
    return f"{text[:-5]}Z" if text.endswith("Z") else text


def duration(us: int | None) -> str:
    """Format in suitable units: ``850 µs``, ``250 ms``, ``63.2 s``, ``4 min 12 s``, ``3 h 05 min``, ``2 d 4 h``."""
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
    """Format with three significant digits, without trailing zeros."""
    text = f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _long(seconds: int) -> str:
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days >= 2:
        return f"{days} d {h} h"
    return f"{hours} h {m:02d} min" if hours >= 2 else f"{minutes} min {s:02d} s"
