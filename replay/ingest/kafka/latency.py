"""How long brokers took to answer, where the log is at level TRACE and has the answers. Pure."""

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import Final

from replay.ingest.kafka.values import Fields

_WAITING: Final = 10_000
"""Requests that wait for one broker, at most; below level TRACE nothing ever answers them."""
_Key = tuple[object, object, object, object]


class Latencies:
    """Pairs requests with answers: a controller waits for an answer before it sends a broker the next request."""

    def __init__(self) -> None:
        self._sent: dict[_Key, deque[int]] = defaultdict(lambda: deque(maxlen=_WAITING))

    def sent(self, row: Fields) -> Iterator[Fields]:
        """A request was queued for a broker."""
        self._sent[_key(row)].append(_moment(row))
        return iter(())

    def answered(self, row: Fields) -> Iterator[Fields]:
        """The broker answered the oldest request of this kind. Its time counts from when the request was queued."""
        waiting = self._sent[_key(row)]
        took = 1000 * (_moment(row) - waiting.popleft()) if waiting else None
        yield {**row, "took_us": took}


def _key(row: Fields) -> _Key:
    return row["node"], row["epoch"], row["broker"], row["name"]


def _moment(row: Fields) -> int:
    moment = row["order_ms"]
    assert isinstance(moment, int)
    return moment
