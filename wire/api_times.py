"""Durations of admin requests: whole milliseconds to us, time deltas to kio."""

from datetime import timedelta
from typing import Final

from kio.static.primitive import i32Timedelta

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """A duration of a request in whole milliseconds; clients may send negative ones."""
    return duration // _MILLISECOND


def throttle(throttle_ms: int) -> i32Timedelta:
    """The throttle time of a response. :raises TypeError: it does not fit into 32 bits."""
    return i32Timedelta.parse(throttle_ms * _MILLISECOND)
