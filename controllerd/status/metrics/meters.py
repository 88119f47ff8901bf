"""The metrics that are counted all the time. A count takes a microsecond or two, and none has a label per partition."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from prometheus_client import Counter, Histogram, Metric

from channel_manager.observer import Exchange
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlRequest, api_name
from controllerd.record.description import RecordCounter, RecordKind
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import Record
from controllerd.status.metrics.reservoir import DecayingReservoir

Seconds = Callable[[], float]
"""A clock of monotonic seconds."""

IDLE_S: Final = 300.0
"""After this time without an event, Kafka's controller resets the waiting times (KAFKA-12327)."""
_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OPERATIONS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500)


class Timer:
    """A count of operations, and a sample of their durations in milliseconds."""

    def __init__(self, clock: Seconds) -> None:
        self.count = 0
        self.sample: Final = DecayingReservoir(clock)

    def observe(self, took_s: float) -> None:
        """Count one operation with this duration."""
        self.count += 1
        self.sample.update(took_s * 1000)


class EventMeters:
    """The events of the controller: by state, as in Kafka's controller, and by name."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._handled_at = clock()
        self._waited = Timer(clock)
        self._by_state: Final = defaultdict[int, Timer](lambda: Timer(clock))
        self.all: Final = Timer(clock)
        """The handling times of all events."""
        self.unclean_elections = 0
        self._seconds = Histogram(
            "controllerd_event_seconds", "How long handling an event took.", ["event"], registry=None, buckets=_LONG
        )
        self._queue_seconds = Histogram(
            "controllerd_event_queue_seconds", "How long events waited in the queue.", registry=None, buckets=_LONG
        )

    @property
    def waited(self) -> Timer:
        """The waiting times of events; reset after five minutes without events, as in Kafka's controller."""
        if self._waited.count and self._clock() - self._handled_at > IDLE_S:
            self._waited = Timer(self._clock)
        return self._waited

    def observe(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """Count one event that was handled."""
        self.waited.observe(queue_s)
        self._handled_at = self._clock()
        self.timer(state).observe(processing_s)
        self.all.observe(processing_s)
        self._seconds.labels(event).observe(processing_s)
        self._queue_seconds.observe(queue_s)

    def timer(self, state: int) -> Timer:
        """The handling times of events of this state."""
        return self._by_state[state]

    def collect(self) -> Iterator[Metric]:
        """The metrics with names of our own."""
        for meter in (self._seconds, self._queue_seconds):
            yield from meter.collect()


class RecordMeters:
    """The counters that the descriptions of record kinds declare (``record.kinds``)."""

    def __init__(self, kinds: Iterable[RecordKind[Any]] = DESCRIPTIONS.values()) -> None:
        self._counters: Final[dict[type[Record], tuple[RecordCounter[Any], Counter]]] = {
            kind.record: (kind.counter, _counter_of(kind.counter)) for kind in kinds if kind.counter is not None
        }

    def count(self, record: Record) -> None:
        """Count the record, if its kind has a counter that counts this record."""
        found = self._counters.get(type(record))
        if found is None:
            return
        declared, counter = found
        value = declared.value_of(record)
        if value is not None:
            counter.labels(value).inc(declared.amount_of(record))

    def collect(self) -> Iterator[Metric]:
        """The metrics with names of our own."""
        for _, counter in self._counters.values():
            yield from counter.collect()


def _counter_of(declared: RecordCounter[Any]) -> Counter:
    counter = Counter(declared.name, declared.text, [declared.label], registry=None)
    for value in declared.known:
        counter.labels(value)
    return counter


class ChannelMeters:
    """The control requests to brokers; an observer of the channel manager."""

    def __init__(self, clock: Seconds) -> None:
        self.queued: Final = defaultdict[BrokerId, Timer](lambda: Timer(clock))
        """The times that requests waited until the sender took them, by broker."""
        self._bytes = Counter(
            "controllerd_request_bytes",
            "Bytes of control requests that were sent, repeated ones each time, headers not included.",
            ["api", "broker_id"],
            registry=None,
        )
        self._seconds = Histogram(
            "controllerd_request_seconds",
            "From the first attempt of a control request to its answer.",
            ["api"],
            registry=None,
            buckets=_LONG,
        )

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Count the waiting time of a request that the sender takes."""
        self.queued[broker].observe(waited_s)

    def on_request(
        self,
        broker: BrokerId,
        request: ControlRequest,
        version: int,  # noqa: ARG002  # for other observers
        correlation_id: int,  # noqa: ARG002
        bytes_sent: int,
    ) -> None:
        """Count the bytes of a request before it is sent."""
        self._bytes.labels(api_name(request), broker).inc(bytes_sent)

    def on_response(self, exchange: Exchange) -> None:
        """Count the time until the response."""
        self._seconds.labels(exchange.response.api).observe(exchange.took_s)

    def collect(self) -> Iterator[Metric]:
        """The metrics with names of our own."""
        yield from self._bytes.collect()
        yield from self._seconds.collect()


class ZooKeeperMeters:
    """The requests to ZooKeeper; an observer of the session."""

    def __init__(self) -> None:
        self._seconds = Histogram(
            "controllerd_zk_request_seconds",
            "How long ZooKeeper took to answer a request.",
            ["op"],
            registry=None,
            buckets=_SHORT,
        )
        self._operations = Histogram(
            "controllerd_zk_multi_ops", "Operations in a transaction.", registry=None, buckets=_OPERATIONS
        )

    def on_answer(self, op: str, took_s: float) -> None:
        """Count the time of a request that was answered or has failed."""
        self._seconds.labels(op).observe(took_s)

    def on_commit(self, operations: int) -> None:
        """Count the operations of a transaction before it is sent."""
        self._operations.observe(operations)

    def collect(self) -> Iterator[Metric]:
        """The metrics with names of our own."""
        yield from self._seconds.collect()
        yield from self._operations.collect()


class OfflineTime:
    """The time that partitions had no leader, added up over all partitions, from their number at each publication."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._offline = 0
        self._since = clock()
        self._seconds = 0.0

    def note(self, offline: int) -> None:
        """Set the number of offline partitions from now on."""
        self._seconds, self._since = self.seconds, self._clock()
        self._offline = offline

    @property
    def seconds(self) -> float:
        """The total up to now, in seconds."""
        return self._seconds + self._offline * (self._clock() - self._since)


class HttpMeters:
    """The requests to the status endpoint."""

    def __init__(self) -> None:
        self._requests = Counter(
            "controllerd_http_requests",
            "Requests that the status endpoint answered; 499: the client had disconnected.",
            ["method", "route", "code"],
            registry=None,
        )
        self._seconds = Histogram(
            "controllerd_http_request_seconds",
            "How long answering took, event streams not included.",
            registry=None,
            buckets=_SHORT,
        )

    def count(self, method: str, route: str, code: int, took_s: float | None) -> None:
        """Count one request; ``took_s`` is None for a stream."""
        self._requests.labels(method, route, code).inc()
        if took_s is not None:
            self._seconds.observe(took_s)

    def collect(self) -> Iterator[Metric]:
        """The metrics with names of our own."""
        yield from self._requests.collect()
        yield from self._seconds.collect()


class Meters:
    """All counted metrics of one instance."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self.clock: Final = clock
        self.events: Final = EventMeters(clock)
        self.records: Final = RecordMeters()
        self.channels: Final = ChannelMeters(clock)
        self.zookeeper: Final = ZooKeeperMeters()
        self.unavailable: Final = OfflineTime(clock)
        self.http: Final = HttpMeters()
        self.lag: Final = Histogram(
            "controllerd_loop_lag_seconds",
            "Delay of timers in the event loop, measured several times a second.",
            registry=None,
            buckets=_SHORT,
        )
        self.failover_phases: Final[dict[str, float]] = {}
        """Seconds of each phase of the last election that this instance won."""

    def collect(self) -> Iterator[Metric]:
        """All counted metrics with names of our own."""
        for part in (self.events, self.records, self.channels, self.zookeeper, self.http, self.lag):
            for metric in part.collect():
                # The creation times would be one more series for each counter, without any use.
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
                yield metric
