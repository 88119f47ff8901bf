"""The rare messages of the Kafka-protocol server, from and to our own values; kio does the bytes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from wire.api_codec import Request, entity_of, respond
from wire.api_metadata import NodeRow
from wire.errors import MalformedMessage
from wire.framing import RequestHeader
from wire.kio_codec import decode_response
from wire.versions import VersionRange

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


# -- ApiVersions -------------------------------------------------------------------------------------------------------


def decode_api_versions(request: Request) -> bool:
    """Return whether the client's software name and version are acceptable (KIP-511).

    :raises MalformedMessage: bad bytes.
    """
    entity = entity_of(request)
    if request.head.version < 3:
        return True
    names = (entity.client_software_name, entity.client_software_version)
    return all(_SOFTWARE.fullmatch(name) is not None for name in names)


def encode_api_versions(head: RequestHeader, error: KafkaError, ranges: Mapping[int, VersionRange]) -> bytes:
    """The response. The refusal of an unknown version is always of version 0 (KIP-511)."""
    keys = [
        {"api_key": key, "min_version": versions.lowest, "max_version": versions.highest}
        for key, versions in sorted(ranges.items())
    ]
    version = 0 if error is KafkaError.UNSUPPORTED_VERSION else head.version
    return respond(head, {"error_code": error, "api_keys": keys}, version=version)


# -- requests of brokers to their controller ---------------------------------------------------------------------------


class BrokerQuery(NamedTuple):
    """A broker and its epoch as it knows it; -1: the request has none."""

    broker: BrokerId
    broker_epoch: int


def decode_broker_query(request: Request) -> BrokerQuery:
    """Read ControlledShutdown or AllocateProducerIds. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    return BrokerQuery(BrokerId(entity.broker_id), int(getattr(entity, "broker_epoch", -1)))


def encode_controlled_shutdown(head: RequestHeader, error: KafkaError, remaining: Iterable[TopicPartition]) -> bytes:
    """Encode the partitions that the broker still leads."""
    rows = [{"topic_name": tp.topic, "partition_index": tp.partition} for tp in sorted(remaining)]
    return respond(head, {"error_code": error, "remaining_partitions": rows})


def encode_allocate_producer_ids(head: RequestHeader, error: KafkaError, start: int = 0, length: int = 0) -> bytes:
    """Encode a block of producer ids, or the error."""
    return respond(head, {"error_code": error, "producer_id_start": start, "producer_id_len": length})


# -- requests of clients -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InitProducerIdQuery:
    """An InitProducerId request; id and epoch are -1 for a producer that has none yet."""

    transactional_id: str | None
    producer_id: int
    producer_epoch: int


def decode_init_producer_id(request: Request) -> InitProducerIdQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    return InitProducerIdQuery(
        entity.transactional_id, int(getattr(entity, "producer_id", -1)), int(getattr(entity, "producer_epoch", -1))
    )


def encode_init_producer_id(head: RequestHeader, error: KafkaError, producer_id: int = -1) -> bytes:
    """Encode a producer id of epoch 0, or the error."""
    epoch = 0 if error is KafkaError.NONE else -1
    return respond(head, {"error_code": error, "producer_id": producer_id, "producer_epoch": epoch})


class DescribeClusterQuery(NamedTuple):
    """A DescribeCluster request; endpoint type 1 means brokers."""

    wants_operations: bool
    endpoint_type: int


def decode_describe_cluster(request: Request) -> DescribeClusterQuery:
    """Read a request. :raises MalformedMessage: bad bytes."""
    entity = entity_of(request)
    wants = bool(entity.include_cluster_authorized_operations)
    return DescribeClusterQuery(wants, int(getattr(entity, "endpoint_type", 1)))


def encode_describe_cluster(
    head: RequestHeader, cluster_id: str, controller_id: int, nodes: Sequence[NodeRow], operations: int
) -> bytes:
    """Encode the cluster with the endpoints of one listener."""
    rows = [{"broker_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack} for node in nodes]
    return respond(
        head,
        {
            "error_code": KafkaError.NONE,
            "cluster_id": cluster_id,
            "controller_id": controller_id,
            "brokers": rows,
            "cluster_authorized_operations": operations,
        },
    )


def encode_describe_cluster_error(head: RequestHeader, error: KafkaError, message: str) -> bytes:
    """Encode an error."""
    values = {"error_code": error, "error_message": message, "cluster_id": "", "brokers": ()}
    return respond(head, values)


# -- configuration and listings of a node that has none ----------------------------------------------------------------


class ConfigResource(NamedTuple):
    """The kind of a resource (4: broker, 8: broker logger) and its name."""

    kind: int
    name: str


def decode_config_resources(request: Request) -> list[ConfigResource]:
    """Return the resources of DescribeConfigs, AlterConfigs or IncrementalAlterConfigs.

    :raises MalformedMessage: bad bytes.
    """
    return [ConfigResource(item.resource_type, item.resource_name) for item in present(entity_of(request).resources)]


def encode_config_results(head: RequestHeader, resources: Iterable[ConfigResource], error: KafkaError) -> bytes:
    """Encode every resource without configs, or with the same error."""
    rows = [
        {
            "error_code": error,
            "error_message": None,
            "resource_type": resource.kind,
            "resource_name": resource.name,
            "configs": (),
        }
        for resource in resources
    ]
    return respond(head, {"results": rows, "responses": rows})


def decode_api_ranges(head: RequestHeader, frame: bytes) -> Mapping[int, VersionRange]:
    """Return the API versions of a broker, from its ApiVersions answer. :raises MalformedMessage: bad bytes."""
    correlation_id, entity = decode_response(head.api_key, head.version, frame)
    if correlation_id != head.correlation_id:
        raise MalformedMessage(f"correlation id {correlation_id}, not {head.correlation_id}")
    answer: Any = entity
    return {row.api_key: VersionRange(row.min_version, row.max_version) for row in present(answer.api_keys)}


# Java's admin client takes a response without a directory as a refusal, and then fails for the other brokers too.
_NO_LOG_DIR: Final = {
    "error_code": KafkaError.NONE,
    "log_dir": "none",
    "topics": (),
    "total_bytes": -1,
    "usable_bytes": -1,
}


_TRANSACTION_STATES: Final = frozenset(
    {
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    }
)


def answer_nothing(request: Request) -> bytes:
    """Encode an empty response to ListGroups, ListTransactions or DescribeLogDirs, for a node without records.

    Unknown transaction states in the filter are listed in the response, as by brokers.

    :raises MalformedMessage: the request cannot be read.
    """
    wanted = present(getattr(entity_of(request), "state_filters", ()))
    unknown = [state for state in dict.fromkeys(wanted) if state not in _TRANSACTION_STATES]
    empty = {"groups": (), "unknown_state_filters": unknown, "transaction_states": (), "results": (_NO_LOG_DIR,)}
    return respond(request.head, {"error_code": KafkaError.NONE, **empty})


def present(items: Sequence[Any] | None) -> Sequence[Any]:
    """Return an array that must not be null. :raises MalformedMessage: it is null."""
    if items is None:
        raise MalformedMessage("an array is null that must not be")
    return items
