"""Derive the skew of clocks from pairs of lines about the same leader, and the latencies of requests. Pure.

A controller logs that it elected a leader (S2) before the broker logs that it leads (B1). The time between the two
lines is the sum of the real time, which is not negative, and of the difference of the clocks. The smallest of many such
times is close to the difference of the clocks, and a negative one proves it.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Iterator
from statistics import median
from typing import Final

from replay.ingest.kafka.scala_values import Fields

CLOCK_SKEW: Final = "clock_skew"
"""The kind of the fact. ``took_us`` is the most by which ``broker``'s clock is ahead of ``node``'s."""
_Partition = tuple[object, object]


class Skews:
    """Collect pairs of lines; of each partition only the newest line without its counterpart is kept."""

    def __init__(self) -> None:
        self._elected: dict[_Partition, Fields] = {}
        self._leads: dict[_Partition, Fields] = {}
        self._between: dict[tuple[int, int], array[int]] = {}
        self._last: Fields = {}

    def elected(self, row: Fields) -> None:
        """Note S2, the line of the controller."""
        leads = self._leads.pop(_partition(row), None)
        if leads is not None and leads["leader_epoch"] == row["leader_epoch"]:
            self._pair(row, leads)
        else:
            self._elected[_partition(row)] = row

    def leads(self, row: Fields) -> None:
        """Note B1, the line of the new leader."""
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
        """Return a fact for each controller and broker with a pair of lines."""
        for (controller, broker), between in sorted(self._between.items()):
            least, middle = min(between), int(median(between))
            yield {
                **{name: self._last[name] for name in ("ts_ms", "order_ms", "file", "line", "newest_epoch")},
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
"""The most requests that are kept for one broker: the log has their answers at level TRACE only."""
_Key = tuple[object, object, object, object]


class Latencies:
    """Match requests with answers: a controller waits for an answer before it sends a broker the next request."""

    def __init__(self) -> None:
        self._sent: dict[_Key, deque[int]] = defaultdict(lambda: deque(maxlen=_WAITING))

    def sent(self, row: Fields) -> Iterator[Fields]:
        """Note a request that was queued for a broker."""
        self._sent[_key(row)].append(_moment(row))
        return iter(())

    def answered(self, row: Fields) -> Iterator[Fields]:
        """Return the time of the oldest request of this kind, which the broker answered, since it was queued."""
        waiting = self._sent[_key(row)]
        took = 1000 * (_moment(row) - waiting.popleft()) if waiting else None
        yield {**row, "took_us": took}


def _key(row: Fields) -> _Key:
    return row["node"], row["epoch"], row["broker"], row["name"]


def _moment(row: Fields) -> int:
    moment = row["order_ms"]
    assert isinstance(moment, int)
    return moment
