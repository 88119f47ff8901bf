"""The skew of clocks, from pairs of lines about the same leader, and the latencies of requests. Pure.

A controller writes that it elected a leader (S2) before the broker writes that it leads (B1). What lies between them
by their clocks is the time that it took, which is not negative, and the difference of the clocks. So the least of
many is close to the difference, and a negative one proves it.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator
from statistics import median
from typing import Final

from replay.ingest.kafka.scala_values import Fields

CLOCK_SKEW: Final = "clock_skew"
"""Kind of the fact: of ``broker``'s clock against ``node``'s, ``took_us`` being how far it is ahead at most."""
_Partition = tuple[object, object]


class Skews:
    """Collects pairs; of each partition only the newest line that waits for its other half is kept."""

    def __init__(self) -> None:
        self._elected: dict[_Partition, Fields] = {}
        self._leads: dict[_Partition, Fields] = {}
        self._between: dict[tuple[int, int], array[int]] = {}
        self._last: Fields = {}

    def elected(self, row: Fields) -> None:
        """S2, as its controller wrote it."""
        leads = self._leads.pop(_partition(row), None)
        if leads is not None and leads["leader_epoch"] == row["leader_epoch"]:
            self._pair(row, leads)
        else:
            self._elected[_partition(row)] = row

    def leads(self, row: Fields) -> None:
        """B1, as the new leader wrote it."""
        elected = self._elected.pop(_partition(row), None)
        if elected is not None and elected["leader_epoch"] == row["leader_epoch"]:
            self._pair(elected, row)
        else:
            self._leads[_partition(row)] = row

    def _pair(self, elected: Fields, leads: Fields) -> None:
        controller, broker = elected["node"], leads["node"]
        written, led = elected["ts_ms"], leads["ts_ms"]
        assert isinstance(controller, int)
        assert isinstance(broker, int)
        assert isinstance(written, int)
        assert isinstance(led, int)
        if controller != broker:
            self._between.setdefault((controller, broker), array("q")).append(led - written)
            self._last = elected

    def facts(self) -> Iterator[Fields]:
        """One for each controller and broker that there is a pair of."""
        for (controller, broker), between in sorted(self._between.items()):
            least, middle = min(between), int(median(between))
            yield {
                **{name: self._last[name] for name in ("ts_ms", "order_ms", "file", "line", "heard")},
                "kind": CLOCK_SKEW,
                "node": controller,
                "epoch": 0,
                "broker": broker,
                "took_us": 1000 * least,
                "reason": _sentence(controller, broker, least, middle, len(between)),
            }


def _sentence(controller: int, broker: int, least: int, middle: int, pairs: int) -> str:
    proof = f"is at least {-least} ms behind" if least < 0 else f"is at most {least} ms ahead of"
    return (
        f"the clock of broker {broker} {proof} that of controller {controller}: from an election to the line of the "
        f"leader it is {least} ms at least, {middle} ms in the middle, of {pairs} pairs"
    )


def _partition(row: Fields) -> _Partition:
    return row["topic"], row["partition"]


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
