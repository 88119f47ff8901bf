"""CreatePartitions (KIP-195) from and to our own values; kio does the bytes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from wire.api_codec import Request, entity_of, respond
from wire.api_messages import present
from wire.api_times import milliseconds, throttle
from wire.framing import RequestHeader


class WantedPartitions(NamedTuple):
    """One topic to expand: ``total`` counts the old partitions too.

    ``assignments`` are the replicas of each new partition in order, None to leave them to us.
    """

    name: str
    total: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None


@dataclass(frozen=True, slots=True)
class CreatePartitionsQuery:
    """The request as it came, repeated topics too."""

    topics: list[WantedPartitions]
    timeout_ms: int
    validate_only: bool


class ExpandedTopic(NamedTuple):
    """What became of one topic."""

    name: str
    error: KafkaError
    message: str | None = None


def decode_create_partitions(request: Request) -> CreatePartitionsQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    topics = [WantedPartitions(row.name, row.count, _assignments(row)) for row in present(entity.topics)]
    return CreatePartitionsQuery(topics, milliseconds(entity.timeout), bool(entity.validate_only))


def _assignments(row: Any) -> tuple[tuple[BrokerId, ...], ...] | None:
    if row.assignments is None:
        return None
    return tuple(tuple(map(BrokerId, present(each.broker_ids))) for each in row.assignments)


def encode_create_partitions(head: RequestHeader, topics: Iterable[ExpandedTopic], throttle_ms: int = 0) -> bytes:
    """The response: what became of each topic."""
    rows = [{"name": name, "error_code": error, "error_message": message} for name, error, message in topics]
    return respond(head, {"throttle_time": throttle(throttle_ms), "results": rows})
