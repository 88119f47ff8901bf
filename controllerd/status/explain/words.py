"""Times, durations and lists as an operator reads them at night: short, and in UTC."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from controllerd.core.kafka_error import KafkaError

_DAY_MS: Final = 24 * 3_600_000
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_NAMED: Final = 12
_ERRORS: Final = frozenset(map(int, KafkaError))


def clock(at_ms: int, now_ms: int) -> str:
    """``10:02:11Z``; with the date when that is longer ago than a day."""
    shown = datetime.fromtimestamp(at_ms / 1000, UTC)
    return f"{shown:%H:%M:%SZ}" if abs(now_ms - at_ms) < _DAY_MS else f"{shown:%Y-%m-%d %H:%M:%SZ}"


def span(seconds: float) -> str:
    """``4m12s``: the two largest units."""
    left, parts = max(int(seconds), 0), list[str]()
    for unit, size in _UNITS:
        number, left = divmod(left, size)
        if number or parts or unit == "s":
            parts.append(f"{number}{unit}")
    return "".join(parts[:2])


def ids(brokers: Iterable[int]) -> str:
    """``3,5,6``, or ``none``."""
    return ",".join(map(str, brokers)) or "none"


def brokers_of(brokers: Sequence[int]) -> str:
    """``broker 5``, or ``brokers 5,6``."""
    return f"broker{'s' * (len(brokers) != 1)} {ids(brokers)}"


def count(number: int, what: str) -> str:
    """``1 partition``, ``2 partitions``."""
    return f"{number} {what}{'s' * (number != 1)}"


def error_name(code: int) -> str:
    """An error under Kafka's name, or by its number."""
    return KafkaError(code).name if code in _ERRORS else f"error {code}"


def sentence(text: str) -> str:
    """A reason that somebody else worded, as part of ours: on one line, without a full stop at its end."""
    return " ".join(text.split()).rstrip(".")


def some(names: Sequence[str], limit: int = _NAMED) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{', '.join(names[:limit])}{more}"
