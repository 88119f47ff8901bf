"""Verify that every acknowledged record is in the log: read every partition, and compare."""

import itertools
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from controllerd.dev.load import LOG_CRITICAL, POLL_S, LoadRecord, require_librdkafka
from controllerd.dev.processes import DevError

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message, TopicPartition

_CONSUMER = {
    "group.id": "controllerd-verify",  # librdkafka requires it; assign() joins no group, and no offset is committed
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}


@dataclass(frozen=True, slots=True)
class Verification:
    """The comparison of the acknowledged records with the log."""

    acknowledged: int
    consumed: int
    lost: int
    duplicated: int
    out_of_order: int

    @property
    def ok(self) -> bool:
        """Whether the log has every acknowledged record once, and in order per partition."""
        return self.lost == self.duplicated == self.out_of_order == 0


def verify(acknowledged: Iterable[LoadRecord], consumed: Sequence[LoadRecord]) -> Verification:
    """Compare the acknowledged records with the consumed ones, which are in the order of the log per partition.

    A record that was never acknowledged may be in the log or not.
    """
    promised = {(record.partition, record.sequence) for record in acknowledged}
    by_partition: defaultdict[int, list[int]] = defaultdict(list)
    for record in consumed:
        by_partition[record.partition].append(record.sequence)
    first_seen = {partition: list(dict.fromkeys(sequences)) for partition, sequences in by_partition.items()}
    present = {(partition, sequence) for partition, sequences in first_seen.items() for sequence in sequences}
    return Verification(
        acknowledged=len(promised),
        consumed=len(consumed),
        lost=len(promised - present),
        duplicated=len(consumed) - len(present),
        out_of_order=sum(_steps_back(sequences) for sequences in first_seen.values()),
    )


def _steps_back(sequences: Sequence[int]) -> int:
    return sum(later < earlier for earlier, later in itertools.pairwise(sequences))


def consume_all(bootstrap: str, topic: str, *, timeout_s: float = 60.0) -> list[LoadRecord]:
    """Read every partition from its beginning to its high watermark of now, in the order of the log. It blocks.

    Raises:
        DevError: librdkafka is not installed, the topic is unknown, or `timeout_s` passed.
    """
    deadline = time.monotonic() + timeout_s
    consumer = _consumer(bootstrap)
    try:
        return _read(consumer, topic, deadline)
    finally:
        consumer.close()


def _read(consumer: "Consumer", topic: str, deadline: float) -> list[LoadRecord]:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    ends = _high_watermarks(consumer, topic, deadline)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
    open_partitions = {partition for partition, end in ends.items() if end > 0}
    records: list[LoadRecord] = []
    while open_partitions:
        if time.monotonic() >= deadline:
            raise DevError(f"partitions {sorted(open_partitions)} of {topic} could not be read to their end in time")
        for message in consumer.consume(500, POLL_S):
            if _is_place_in_log(message):
                open_partitions -= _take(message, records, ends)
    return records


def _is_place_in_log(message: "Message") -> bool:
    """Whether a message is a record or the end of a partition; other errors pass, or end in the timeout."""
    error = message.error()
    return error is None or error.name() == "_PARTITION_EOF"


def _take(message: "Message", records: list[LoadRecord], ends: dict[int, int]) -> set[int]:
    """Keep a record below the end of its partition; return the partition if its end is reached."""
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    end, is_record = ends[partition], message.error() is None
    if is_record and offset < end:
        records.append(LoadRecord(partition, int(message.value() or b""), offset))
    next_offset = offset + 1 if is_record else offset
    return {partition} if next_offset >= end else set()


def _high_watermarks(consumer: "Consumer", topic: str, deadline: float) -> dict[int, int]:
    from confluent_kafka import KafkaException, TopicPartition

    try:
        known = consumer.list_topics(topic, timeout=max(deadline - time.monotonic(), POLL_S)).topics[topic]
        if known.error is not None:
            raise DevError(f"topic {topic} cannot be read: {known.error}")
        places = [TopicPartition(topic, partition) for partition in sorted(known.partitions)]
        return {place.partition: high_watermark(consumer, place, deadline) for place in places}
    except KafkaException as error:
        raise DevError(f"topic {topic} cannot be read: {error}") from error


class Watermarks(Protocol):
    """The part of a consumer that knows the ends of a partition."""

    def get_watermark_offsets(self, partition: "TopicPartition", *, timeout: float) -> tuple[int, int]:
        """The first offset, and the one after the last record that can be read."""


def high_watermark(consumer: "Watermarks", place: "TopicPartition", deadline: float) -> int:
    """Return the current high watermark of a partition; retry until ``deadline`` by the monotonic clock.

    A new leader does not know it until its followers have fetched (KIP-207), and an earlier leader never knows it.

    Raises:
        KafkaException: the last error, when no time is left.
    """
    from confluent_kafka import KafkaException

    while True:
        left = deadline - time.monotonic()
        try:
            return consumer.get_watermark_offsets(place, timeout=max(left, POLL_S))[1]
        except KafkaException:
            if left <= POLL_S:
                raise
        time.sleep(POLL_S)


def _consumer(bootstrap: str) -> "Consumer":
    require_librdkafka()
    from confluent_kafka import Consumer

    return Consumer({**_CONSUMER, "bootstrap.servers": bootstrap, "log_level": LOG_CRITICAL})
