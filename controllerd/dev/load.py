"""A producer load that retries for as long as a fault lasts, and reports which acknowledgements are missing.

It uses librdkafka, which is no Java client, so that a second implementation of the protocol is tested. librdkafka comes
with the extra `dev` and is imported when a load starts.
"""

import importlib.util
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from controllerd.dev.processes import DevError

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

UNKNOWN_OFFSET = -1
_FLUSH_TIMEOUT_S = 60.0
_MAX_CATCH_UP_S = 1.0
POLL_S = 0.2
LOG_CRITICAL = 2  # syslog's scale: librdkafka writes only critical messages to stderr


# Acknowledgements may take as long as a fault lasts (message.timeout.ms = 0). The connection to a frozen broker is
# closed after seconds instead of librdkafka's minute, so that its requests are sent to the next leader.
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": True,
    "message.timeout.ms": 0,
    "request.timeout.ms": 5_000,
    "socket.timeout.ms": 6_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 500,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 5_000,
    "statistics.interval.ms": 2_000,
}
# With one request in flight, records stay in order however often they are sent again.
_PLAIN: Mapping[str, bool | int] = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}


class LoadRecord(NamedTuple):
    """One record of the load: the partition, its number within the partition (from 0), and its offset in the log.

    The offset of an acknowledged record may be UNKNOWN_OFFSET: if the response to the first attempt was lost with a
    broker, the response to the second confirms the record without its offset.
    """

    partition: int
    sequence: int
    offset: int


@dataclass(slots=True)
class LoadResult:
    """The acknowledgements of a producer load: every record, with its time by the monotonic clock in seconds."""

    sent: int = 0
    acknowledged: list[LoadRecord] = field(default_factory=list)
    acknowledged_at_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    fatal_error: str | None = None

    def worst_gap_s(self, *, since_s: float = float("-inf"), until_s: float = float("inf")) -> float:
        """Return the longest time without an acknowledgement of one partition; 0 if there are none.

        Each partition counts by itself, so that acknowledgements of the others do not hide one that waits for a leader.
        A partition that never had an acknowledgement does not count. A gap counts in full if it ends between
        ``since_s`` and ``until_s``. A gap that is still open ends with the last acknowledgement of any partition.
        """
        gaps = _gaps(self._acknowledgements(until_s))
        return max((end - begin for begin, end in gaps if end >= since_s), default=0.0)

    def _acknowledgements(self, until_s: float) -> list[tuple[int, float]]:
        """Return partition and time of each acknowledgement.

        The producer appends the time before the record, so that during the load one time may have no record yet.
        """
        pairs = zip(self.acknowledged, self.acknowledged_at_s, strict=False)
        return [(record.partition, at_s) for record, at_s in pairs if at_s <= until_s]


def _gaps(acknowledgements: Sequence[tuple[int, float]]) -> Iterator[tuple[float, float]]:
    """Yield the gaps of each partition; the last one ends with the last acknowledgement of any partition."""
    before: dict[int, float] = {}
    for partition, at_s in acknowledgements:
        yield before.get(partition, at_s), at_s
        before[partition] = at_s
    for at_s in before.values():
        yield at_s, acknowledgements[-1][1]


class ProducerLoad:
    """A producer with acks=all on a thread of its own, at a steady rate, over the partitions in turn.

    A record is sent again for as long as a fault lasts: neither a timeout nor a number of attempts ends it.
    The load ends at `max_records`, after `max_seconds`, or when stopped, whichever comes first; it then waits until
    everything that was sent is acknowledged. As a context manager it runs on entry and is stopped on exit.

    Args:
        bootstrap: the brokers' addresses.
        topic: an existing topic.
        partitions: the number of its partitions to write to.
        records_per_s: the rate, over all partitions.
        idempotent: without it a record whose acknowledgement was lost may be in the log twice; the order still holds.
        max_records: an upper limit, for the memory that the acknowledgements take.
        max_seconds: an upper limit on the time, in seconds.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        partitions: int,
        *,
        records_per_s: float = 250.0,
        idempotent: bool = True,
        max_records: int = 500_000,
        max_seconds: float = 1_800.0,
    ) -> None:
        self.result = LoadResult()
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._interval_s = 1.0 / records_per_s
        self._settings = {} if idempotent else _PLAIN
        self._max_records = max_records
        self._max_seconds = max_seconds
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"load of {topic}", daemon=True)
        self._producer: Producer | None = None
        self._statistics = ""

    def start(self) -> None:
        """Start the load.

        Raises:
            DevError: librdkafka is not installed.
        """
        self._producer = _producer(self._bootstrap, self._note_client_error, self._note_statistics, self._settings)
        self._thread.start()

    def stop(self) -> LoadResult:
        """Stop sending, wait at most 60 s until every record is acknowledged, and return the result. It blocks.

        Raises:
            DevError: some records are neither acknowledged nor failed after that time.
        """
        self._stopping.set()
        self._thread.join()
        pending = self.result.sent - len(self.result.acknowledged) - len(self.result.failures)
        if pending > 0:
            raise DevError(f"{pending} records to {self._topic} were not acknowledged within {_FLUSH_TIMEOUT_S:g} s")
        return self.result

    @property
    def acknowledged(self) -> int:
        """The number of records acknowledged so far; safe from any thread."""
        return len(self.result.acknowledged)

    def missing_after(self, before: int, *, records: float) -> str | None:
        """Return a text on missing acknowledgements, or None if there are enough.

        More than ``records`` have to follow the first ``before``, with at least one of every partition.
        """
        acknowledged = self.result.acknowledged[before:]
        waiting = sorted(set(range(self._partitions)) - {record.partition for record in acknowledged})
        if waiting:
            return (
                f"partitions {waiting} of {self._topic} have no acknowledgement ({describe_waiting(self._statistics)})"
            )
        return None if len(acknowledged) > records else f"the producer to {self._topic} is still waiting"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        producer = self._producer
        assert producer is not None
        end = time.monotonic() + self._max_seconds
        due = time.monotonic()
        for partition, sequence in self._records():
            self._send(producer, partition, sequence)
            # After a stall it makes up for one second at most, so that no burst follows a fault.
            due = max(due + self._interval_s, time.monotonic() - _MAX_CATCH_UP_S)
            self._serve_until(producer, due)
            if self._stopping.is_set() or time.monotonic() >= end:
                break
        producer.flush(_FLUSH_TIMEOUT_S)
        # A producer that still exists would request the topic's metadata, which creates the topic again.
        self._producer = None

    def _records(self) -> Iterator[tuple[int, int]]:
        for number in range(self._max_records):
            sequence, partition = divmod(number, self._partitions)
            yield partition, sequence

    def _send(self, producer: "Producer", partition: int, sequence: int) -> None:
        def acknowledged(error: "KafkaError | None", message: "Message") -> None:
            self._note(error, partition, sequence, message.offset())

        key, value = str(partition), str(sequence)
        while not self._stopping.is_set():
            try:
                producer.produce(self._topic, value, key, partition=partition, on_delivery=acknowledged)
            except BufferError:  # a long fault fills the local queue: wait for room
                producer.poll(POLL_S)
            else:
                self.result.sent += 1
                return

    def _serve_until(self, producer: "Producer", due: float) -> None:
        producer.poll(0)
        while (left := due - time.monotonic()) > 0 and not self._stopping.is_set():
            producer.poll(min(left, POLL_S))

    def _note(self, error: "KafkaError | None", partition: int, sequence: int, offset: int | None) -> None:
        if error is not None:
            self.result.failures.append(f"partition {partition} sequence {sequence}: {error}")
            return
        # The time is appended first, because other threads count `acknowledged`.
        self.result.acknowledged_at_s.append(time.monotonic())
        self.result.acknowledged.append(LoadRecord(partition, sequence, UNKNOWN_OFFSET if offset is None else offset))

    def _note_client_error(self, error: "KafkaError") -> None:
        """Keep an error that ends the producer. Other errors, as broken connections, are expected during a fault."""
        if error.fatal():
            self.result.fatal_error = str(error)

    def _note_statistics(self, statistics: str) -> None:
        self._statistics = statistics


def _producer(
    bootstrap: str,
    on_error: "Callable[[KafkaError], None]",
    on_statistics: Callable[[str], None],
    settings: Mapping[str, bool | int],
) -> "Producer":
    require_librdkafka()
    from confluent_kafka import Producer

    ours = {
        "bootstrap.servers": bootstrap,
        "error_cb": on_error,
        "stats_cb": on_statistics,
        "log_level": LOG_CRITICAL,
    }
    return Producer({**_PRODUCER, **settings, **ours})


def require_librdkafka() -> None:
    """Check that librdkafka is installed. :raises DevError: it is not."""
    if importlib.util.find_spec("confluent_kafka") is None:
        raise DevError("the load needs librdkafka: run `make setup`, which installs it")


def describe_waiting(statistics: str) -> str:
    """Describe in one line the idempotent producer, each partition with records to send, and each broker.

    Args:
        statistics: the newest JSON of librdkafka's ``stats_cb``; empty as long as there is none.
    """
    if not statistics:
        return "no statistics yet"
    parsed: Mapping[str, Any] = json.loads(statistics)
    return "; ".join(
        [f"producer id {parsed.get('eos', {}).get('idemp_state', 'none')}", *_waiting(parsed), *_brokers(parsed)]
    )


def _waiting(parsed: Mapping[str, Any]) -> Iterator[str]:
    for topic, partitions in parsed["topics"].items():
        for number, row in partitions["partitions"].items():
            queued, sending, sent = row["msgq_cnt"], row["xmit_msgq_cnt"], row["msgs_inflight"]
            if queued + sending + sent > 0:
                yield f"{topic}-{number} on broker {row['broker']} has {queued} + {sending} waiting, {sent} sent"


def _brokers(parsed: Mapping[str, Any]) -> Iterator[str]:
    for row in parsed["brokers"].values():
        if row["nodeid"] >= 0:
            yield f"broker {row['nodeid']} is {row['state']}, requests under way: {row['waitresp_cnt']}"
