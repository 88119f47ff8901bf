"""Parse the moments of log lines: from a date in the time zone of its writer to milliseconds since 1970. Pure.

log4j writes local time without a zone. A change to winter time repeats an hour. A line belongs to the second pass of
that hour if the time of the lines has gone back; the first line of a file in such an hour counts as of the first pass.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from replay.facts.engine import ReplayError

_MONTHS: Final = {
    name: number
    for number, name in enumerate("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), 1)  # noqa: SIM905
}
_NAMED: Final = {
    "": "yyyy-MM-dd HH:mm:ss,SSS",
    "DEFAULT": "yyyy-MM-dd HH:mm:ss,SSS",
    "ISO8601": "yyyy-MM-dd HH:mm:ss,SSS",
    "DATE": "dd MMM yyyy HH:mm:ss,SSS",
    "ABSOLUTE": "HH:mm:ss,SSS",
}
_PARTS: Final = {
    "yyyy": r"(?P<year>\d{4})",
    "MMM": r"(?P<name>[A-Z][a-z]{2})",
    "MM": r"(?P<month>\d\d)",
    "dd": r"(?P<day>\d\d)",
    "HH": r"(?P<hour>\d\d)",
    "mm": r"(?P<minute>\d\d)",
    "ss": r"(?P<second>\d\d)",
    "SSS": r"(?P<fraction>\d{3})",
    **dict.fromkeys(("Z", *("X" * times for times in (1, 2, 3))), r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?)"),
}
_TOKEN: Final = re.compile(r"'(?P<quoted>[^']*)'|(?P<letters>([a-zA-Z])\3*)|(?P<other>[^a-zA-Z']+)")
_ISO: Final = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{3}"
_UNIX_MS: Final = r"\d{13}"
_BACK_MS: Final = 60_000
"""Lines of several threads are out of order by less than this; a change to winter time is more."""
_DAY_MS: Final = 86_400_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class DateFormat(NamedTuple):
    """The format of a date."""

    expression: str
    """Without named groups."""
    parts: re.Pattern[str] | None
    """None: digits at fixed places, as in ISO 8601, or milliseconds since 1970."""
    zone: str | None
    """The zone in the pattern, which has priority over the option."""


def date_format(pattern: str = "", zone: str | None = None) -> DateFormat:
    """Return the format of ``%d{pattern}{zone}``.

    :raises ReplayError: it has no day, or unknown letters
    """
    if pattern == "UNIX_MILLIS":
        return DateFormat(_UNIX_MS, None, zone)
    spelled = _NAMED.get(pattern, pattern)
    if spelled == _NAMED[""]:
        return DateFormat(_ISO, None, zone)
    grouped = "".join(_part(token, pattern) for token in _TOKEN.finditer(spelled))
    parts = re.compile(grouped + "$")
    if not {"year", "day", "hour", "minute", "second"} <= parts.groupindex.keys():
        raise ReplayError(
            f"date format {pattern!r} of the log pattern has no day or no time of day: such lines cannot be placed"
        )
    return DateFormat(re.sub(r"\?P<\w+>", "?:", grouped), parts, zone)


def _part(token: re.Match[str], pattern: str) -> str:
    if token["letters"] is None:
        return re.escape(token["quoted"] if token["quoted"] is not None else token["other"])
    part = _PARTS.get(token["letters"])
    if part is None:
        raise ReplayError(
            f"date format {pattern!r} has {token['letters']!r}, which is not known: known are {' '.join(_PARTS)}"
        )
    return part


@lru_cache(maxsize=32)
def time_zone(name: str) -> tzinfo:
    """Return the time zone of this name. :raises ReplayError: there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ReplayError(
            f"time zone {name!r} is not known: give one of the tz database, such as UTC or Europe/Berlin"
        ) from None


class LogClock:
    """Parse the moments of one file, in the order of its lines."""

    def __init__(self, date: DateFormat, zone: str) -> None:
        """:raises ReplayError: there is no such zone"""
        self._zone = time_zone(date.zone or zone)
        self._parts = date.parts
        self._minute = ""
        self._base = 0
        self._ambiguous = False
        self._last = 0
        self.milliseconds: Callable[[str], int] = self._slowly if date.parts else self._fast

    def _fast(self, text: str) -> int:
        """Parse digits at fixed places; the part that is the same for a whole minute is computed once."""
        if len(text) == 13:
            return int(text)
        if text[:16] != self._minute:
            self._enter(text[:16])
        moment = self._base + 1000 * int(text[17:19]) + int(text[20:23])
        return self._settled(moment) if self._ambiguous else self._noted(moment)

    def _enter(self, minute: str) -> None:
        year, month, day, hour, minutes = map(int, (minute[:4], minute[5:7], minute[8:10], minute[11:13], minute[14:]))
        local = datetime(year, month, day, hour, minutes, tzinfo=self._zone)
        self._minute, self._base = minute, _since_1970(local)
        self._ambiguous = local.utcoffset() != local.replace(fold=1).utcoffset()

    def _settled(self, moment: int) -> int:
        """Return the moment in an hour that exists twice (or not at all): of the second pass after a step back."""
        if moment < self._last - _BACK_MS:
            second = datetime.fromtimestamp(moment / 1000, self._zone).replace(fold=1)
            later = _since_1970(second)
            if moment < later <= moment + _DAY_MS:
                return self._noted(later)
        return self._noted(moment)

    def _noted(self, moment: int) -> int:
        """Return the moment, and keep it as the one of the latest line."""
        self._last = moment
        return moment

    def _slowly(self, text: str) -> int:
        """Parse any other format."""
        assert self._parts is not None
        match = self._parts.match(text)
        assert match is not None, text
        found = match.groupdict()
        month = _MONTHS.get(found["name"], 1) if "name" in found else int(found.get("month") or 1)
        moment = datetime(  # noqa: DTZ001 - the zone is added below
            int(found["year"]), month, int(found["day"]), int(found["hour"]), int(found["minute"]), int(found["second"])
        ) + timedelta(milliseconds=int(found.get("fraction") or 0))
        if offset := found.get("offset"):
            return self._noted(_since_1970(moment.replace(tzinfo=UTC)) - _offset_ms(offset))
        return self._settled(_since_1970(moment.replace(tzinfo=self._zone)))


def _offset_ms(text: str) -> int:
    if text == "Z":
        return 0
    digits = text[1:].replace(":", "").ljust(4, "0")
    minutes = 60 * int(digits[:2]) + int(digits[2:])
    return (-1 if text[0] == "-" else 1) * minutes * 60_000


def _since_1970(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
