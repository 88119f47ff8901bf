"""Moments as people write and read them: always UTC unless they say otherwise."""

import re
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBER: Final = re.compile(r"\d{12,}")
_SECOND_US, _MINUTE_US, _HOUR_US = 10**6, 60 * 10**6, 3600 * 10**6


class BadMoment(ValueError):
    """The text is no moment; the message says what is."""


def parse_moment(text: str) -> int:
    """Milliseconds since 1970 of ``2026-01-31T03:14:00Z``, of another offset, or of the milliseconds themselves.

    Without an offset it is UTC.
    :raises BadMoment: it is none of these
    """
    try:
        if _NUMBER.fullmatch(text):
            return _ms(_EPOCH + timedelta(milliseconds=int(text)))
        moment = datetime.fromisoformat(text)
        return _ms(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise BadMoment(f"{text!r} is no moment: write 2026-01-31T03:14:00Z, or milliseconds since 1970") from None


def _ms(aware: datetime) -> int:
    """:raises OverflowError: no calendar has such a day in UTC"""
    return (aware.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)


def moment(ts_ms: int) -> str:
    """``2026-01-31T03:14:00.000Z``."""
    return (_EPOCH + timedelta(milliseconds=ts_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def duration(us: int) -> str:
    """``3 ms``, ``64.8 s``, ``4m12s``, ``2h05m``: of microseconds."""
    if us < _SECOND_US:
        return f"{us / 1000:.3g} ms"
    if us < 2 * _MINUTE_US:
        return f"{us / _SECOND_US:.1f} s"
    if us < _HOUR_US:
        return f"{us // _MINUTE_US}m{us % _MINUTE_US // _SECOND_US:02}s"
    return f"{us // _HOUR_US}h{us % _HOUR_US // _MINUTE_US:02}m"
