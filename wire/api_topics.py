"""CreateTopics (KIP-4, KIP-525) and DeleteTopics (KIP-4, KIP-516) from and to our own values; kio does the bytes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.topic_defaults import ConfigSource
from wire.api_codec import Request, entity_of, milliseconds, respond, throttle
from wire.api_messages import present
from wire.framing import RequestHeader
from wire.primitives import topic_id_bytes, topic_id_text

_FIRST_WITH_IDS: Final = 6
"""The first version of DeleteTopics that knows topic ids."""


class WantedAssignment(NamedTuple):
    """The replicas that a client chose for a partition, the preferred one first."""

    partition: int
    replicas: tuple[BrokerId, ...]


class CreatableTopic(NamedTuple):
    """One topic to create as it came, repeated partitions and configurations too; a count of -1 leaves it to us."""

    name: str
    partitions: int
    replication_factor: int
    assignments: tuple[WantedAssignment, ...]
    configs: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class CreateTopicsQuery:
    """The request as it came, repeated topics too."""

    topics: list[CreatableTopic]
    timeout_ms: int
    validate_only: bool


class TopicConfig(NamedTuple):
    """A configuration of a created topic; the value of a sensitive one must be None."""

    name: str
    value: str | None
    source: ConfigSource = ConfigSource.DEFAULT_CONFIG
    is_sensitive: bool = False
    is_read_only: bool = False


class CreatedTopic(NamedTuple):
    """The outcome of one topic.

    Counts and configurations leave from version 5 on, the id from version 7 on. Counts of -1 or a ``config_error`` say
    that the asker may not know them. Java's admin client reads the configurations without asking whether they are null:
    none are an empty sequence.
    """

    name: str
    error: KafkaError
    message: str | None = None
    topic_id: str | None = None
    partitions: int = -1
    replication_factor: int = -1
    configs: Sequence[TopicConfig] = ()
    config_error: KafkaError = KafkaError.NONE


class WantedDeletion(NamedTuple):
    """One topic to delete: by name, by id (version 6 and up), or wrongly by both or neither."""

    name: str | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class DeleteTopicsQuery:
    """The request as it came, repeated topics too."""

    topics: list[WantedDeletion]
    timeout_ms: int


class DeletedTopic(NamedTuple):
    """The outcome of one topic. Only version 6 and up may leave the name out and carry the id, 5 and up the message."""

    name: str | None
    topic_id: str | None
    error: KafkaError
    message: str | None = None


def decode_create_topics(request: Request) -> CreateTopicsQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    topics = [_wanted_topic(row) for row in present(entity.topics)]
    return CreateTopicsQuery(topics, milliseconds(entity.timeout), bool(getattr(entity, "validate_only", False)))


def _wanted_topic(row: Any) -> CreatableTopic:
    assignments = tuple(
        WantedAssignment(each.partition_index, tuple(map(BrokerId, present(each.broker_ids))))
        for each in present(row.assignments)
    )
    configs = tuple((each.name, each.value) for each in present(row.configs))
    return CreatableTopic(row.name, row.num_partitions, row.replication_factor, assignments, configs)


def encode_create_topics(head: RequestHeader, topics: Iterable[CreatedTopic], throttle_ms: int = 0) -> bytes:
    """The response: the outcome of each topic."""
    return respond(head, {"throttle_time": throttle(throttle_ms), "topics": [_created(topic) for topic in topics]})


def _created(topic: CreatedTopic) -> Mapping[str, object]:
    return {
        "name": topic.name,
        "topic_id": _uuid(topic.topic_id),
        "error_code": topic.error,
        "error_message": topic.message,
        "topic_config_error_code": topic.config_error,
        "num_partitions": topic.partitions,
        "replication_factor": topic.replication_factor,
        "configs": [
            {
                "name": config.name,
                "value": config.value,
                "read_only": config.is_read_only,
                "config_source": config.source,
                "is_sensitive": config.is_sensitive,
            }
            for config in topic.configs
        ],
    }


def decode_delete_topics(request: Request) -> DeleteTopicsQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    if request.head.version < _FIRST_WITH_IDS:
        topics = [WantedDeletion(name, None) for name in present(entity.topic_names)]
    else:
        topics = [WantedDeletion(row.name, _id_text(row.topic_id)) for row in present(entity.topics)]
    return DeleteTopicsQuery(topics, milliseconds(entity.timeout))


def encode_delete_topics(head: RequestHeader, topics: Iterable[DeletedTopic], throttle_ms: int = 0) -> bytes:
    """The response: what became of each topic. :raises TypeError: a name is missing where the version needs it."""
    rows = [
        {
            "name": topic.name,
            "topic_id": _uuid(topic.topic_id),
            "error_code": topic.error,
            "error_message": topic.message,
        }
        for topic in topics
    ]
    return respond(head, {"throttle_time": throttle(throttle_ms), "responses": rows})


def _uuid(topic_id: str | None) -> UUID | None:
    return None if topic_id is None else UUID(bytes=topic_id_bytes(topic_id))


def _id_text(topic_id: UUID | None) -> str | None:
    return None if topic_id is None else topic_id_text(topic_id.bytes)


class CreatePartitionsTopic(NamedTuple):
    """One topic to expand: ``total`` counts the old partitions too.

    ``assignments`` are the replicas of each new partition in order, None to leave them to us.
    """

    name: str
    total: int
    assignments: tuple[tuple[BrokerId, ...], ...] | None


@dataclass(frozen=True, slots=True)
class CreatePartitionsQuery:
    """The request as it came, repeated topics too."""

    topics: list[CreatePartitionsTopic]
    timeout_ms: int
    validate_only: bool


class ExpandedTopic(NamedTuple):
    """The outcome of one topic."""

    name: str
    error: KafkaError
    message: str | None = None


def decode_create_partitions(request: Request) -> CreatePartitionsQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    topics = [CreatePartitionsTopic(row.name, row.count, _assignments(row)) for row in present(entity.topics)]
    return CreatePartitionsQuery(topics, milliseconds(entity.timeout), bool(entity.validate_only))


def _assignments(row: Any) -> tuple[tuple[BrokerId, ...], ...] | None:
    if row.assignments is None:
        return None
    return tuple(tuple(map(BrokerId, present(each.broker_ids))) for each in row.assignments)


def encode_create_partitions(head: RequestHeader, topics: Iterable[ExpandedTopic], throttle_ms: int = 0) -> bytes:
    """The response: the outcome of each topic."""
    rows = [{"name": name, "error_code": error, "error_message": message} for name, error, message in topics]
    return respond(head, {"throttle_time": throttle(throttle_ms), "results": rows})
