"""The counters of a working controller. Each count costs a microsecond or two, and none is of a partition."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from prometheus_client import Counter, Histogram, Metric

from channel_manager.observer import Exchange
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlRequest, api_name
from controllerd.record.description import RecordCounter
from controllerd.record.kinds import DESCRIPTIONS
from controllerd.record.records import Record
from controllerd.status.metrics.reservoir import DecayingReservoir

Seconds = Callable[[], float]
"""Gives monotonic seconds."""

IDLE_S: Final = 300.0
"""After so long without an event the peer forgets how long events waited (KAFKA-12327)."""
_SHORT: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_LONG: Final = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OPERATIONS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500)


class Timer:
    """How often something took place, and a sample of how long it took, in milliseconds."""

    def __init__(self, clock: Seconds) -> None:
        self.count = 0
        self.sample: Final = DecayingReservoir(clock)

    def observe(self, took_s: float) -> None:
        """It took so long."""
        self.count += 1
        self.sample.update(took_s * 1000)


class EventMeters:
    """The events of the controller, by state as the peer counts them, and by their own names."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._handled_at = clock()
        self._waited = Timer(clock)
        self.by_state: Final[dict[int, Timer]] = {}
        self.all: Final = Timer(clock)
        """How long handling took, whatever the event."""
        self.unclean_elections = 0
        self._seconds = Histogram(
            "controllerd_event_seconds", "How long handling an event took.", ["event"], registry=None, buckets=_LONG
        )
        self._queue_seconds = Histogram(
            "controllerd_event_queue_seconds", "How long events waited in the queue.", registry=None, buckets=_LONG
        )

    @property
    def waited(self) -> Timer:
        """How long events waited; nothing after five minutes without any, as the peer has it."""
        if self._waited.count and self._clock() - self._handled_at > IDLE_S:
            self._waited = Timer(self._clock)
        return self._waited

    def observe(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """An event was handled."""
        self.waited.observe(queue_s)
        self._handled_at = self._clock()
        self.timer(state).observe(processing_s)
        self.all.observe(processing_s)
        self._seconds.labels(event).observe(processing_s)
        self._queue_seconds.observe(queue_s)

    def timer(self, state: int) -> Timer:
        """How long events of this state took."""
        timer = self.by_state.get(state)
        if timer is None:
            timer = self.by_state[state] = Timer(self._clock)
        return timer

    def collect(self) -> Iterator[Metric]:
        """Our own metrics."""
        for meter in (self._seconds, self._queue_seconds):
            yield from meter.collect()


class RecordMeters:
    """The counters that the descriptions of record kinds declare (``record.kinds``)."""

    def __init__(self) -> None:
        self._counters: Final[dict[type[Record], tuple[RecordCounter[Any], Counter]]] = {
            record: (kind.counter, _counter_of(kind.counter))
            for record, kind in DESCRIPTIONS.items()
            if kind.counter is not None
        }

    def count(self, record: Record) -> None:
        """Count the record, if its kind has a counter and this record is one that it counts."""
        declared, counter = self._counters.get(type(record), (None, None))
        value = declared.value_of(record) if declared is not None else None
        if counter is not None and value is not None:
            counter.labels(value).inc()

    def collect(self) -> Iterator[Metric]:
        """Our own metrics."""
        for _, counter in self._counters.values():
            yield from counter.collect()


def _counter_of(declared: RecordCounter[Any]) -> Counter:
    counter = Counter(declared.name, declared.text, [declared.label], registry=None)
    for value in declared.known:
        counter.labels(value)
    return counter


class ChannelMeters:
    """The control requests to brokers. Observes the channel manager."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self.queued: Final[dict[BrokerId, Timer]] = {}
        """How long requests waited until the sender took them."""
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
        """The sender takes the next request."""
        timer = self.queued.get(broker)
        if timer is None:
            timer = self.queued[broker] = Timer(self._clock)
        timer.observe(waited_s)

    def on_request(
        self,
        broker: BrokerId,
        request: ControlRequest,
        version: int,  # noqa: ARG002  # others want to know it
        correlation_id: int,  # noqa: ARG002
        bytes_sent: int,
    ) -> None:
        """A request is about to leave."""
        self._bytes.labels(api_name(request), broker).inc(bytes_sent)

    def on_response(self, exchange: Exchange) -> None:
        """A request was answered."""
        self._seconds.labels(exchange.response.api).observe(exchange.took_s)

    def collect(self) -> Iterator[Metric]:
        """Our own metrics."""
        yield from self._bytes.collect()
        yield from self._seconds.collect()


class ZooKeeperMeters:
    """The requests to ZooKeeper. Observes the session."""

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
        """A request was answered, or will not be."""
        self._seconds.labels(op).observe(took_s)

    def on_commit(self, operations: int) -> None:
        """A transaction is about to be sent."""
        self._operations.observe(operations)

    def collect(self) -> Iterator[Metric]:
        """Our own metrics."""
        yield from self._seconds.collect()
        yield from self._operations.collect()


class Unavailable:
    """How long partitions had no leader, added up: derived from how many there are at each publication."""

    def __init__(self, clock: Seconds) -> None:
        self._clock = clock
        self._offline = 0
        self._since = clock()
        self._seconds = 0.0

    def note(self, offline: int) -> None:
        """So many partitions are offline from now on."""
        self._seconds, self._since = self.seconds, self._clock()
        self._offline = offline

    @property
    def seconds(self) -> float:
        """Up to now."""
        return self._seconds + self._offline * (self._clock() - self._since)


class HttpMeters:
    """The requests that the status endpoint served."""

    def __init__(self) -> None:
        self._requests = Counter(
            "controllerd_http_requests",
            "Requests that the status endpoint answered; 499: the client had left.",
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
        """A request was answered; ``took_s`` is None for a stream."""
        self._requests.labels(method, route, code).inc()
        if took_s is not None:
            self._seconds.observe(took_s)

    def collect(self) -> Iterator[Metric]:
        """Our own metrics."""
        yield from self._requests.collect()
        yield from self._seconds.collect()


class Meters:
    """All of them, for one instance."""

    def __init__(self, clock: Seconds = time.monotonic) -> None:
        self.clock: Final = clock
        self.events: Final = EventMeters(clock)
        self.records: Final = RecordMeters()
        self.channels: Final = ChannelMeters(clock)
        self.zookeeper: Final = ZooKeeperMeters()
        self.unavailable: Final = Unavailable(clock)
        self.http: Final = HttpMeters()
        self.lag: Final = Histogram(
            "controllerd_loop_lag_seconds",
            "How much later than asked for the event loop woke somebody up, tried several times a second.",
            registry=None,
            buckets=_SHORT,
        )
        self.failover_phases: Final[dict[str, float]] = {}
        """Seconds of each phase of the newest election that was won."""

    def collect(self) -> Iterator[Metric]:
        """Our own metrics among them."""
        for part in (self.events, self.records, self.channels, self.zookeeper, self.http, self.lag):
            for metric in part.collect():
                # Since when each is counted would be one more series for every one of them, which nobody asks for.
                metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
                yield metric
