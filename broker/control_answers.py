"""Answer LeaderAndIsr, UpdateMetadata and StopReplica: check the epochs, apply the change, return the results."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import structlog

from broker import decode
from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from controllerd.core.requests import ControlRequest, LeaderAndIsrRequest
from wire.framing import RequestHeader
from wire.versions import TOPIC_IDS_FROM, ApiKey

log = structlog.get_logger(__name__)

_UPDATE_METADATA_IDS: Final = TOPIC_IDS_FROM[ApiKey.UPDATE_METADATA]


async def leader_and_isr(state: BrokerState, _: RequestHeader, entity: Any) -> Mapping[str, object]:
    """Answer LeaderAndIsr: lead or follow each partition. A refused request is refused for each partition too."""
    request = decode.leader_and_isr(entity)
    error = _admit(state, request, entity)
    if error is KafkaError.NONE:
        results = state.replicas.become(request.partitions, request.topic_ids)
    else:
        results = dict.fromkeys(request.partitions, error)
    return {"error_code": error, "partition_errors": _rows(results), "topics": _by_topic(request, results)}


async def update_metadata(state: BrokerState, head: RequestHeader, entity: Any) -> Mapping[str, object]:
    """Answer UpdateMetadata: replace the metadata that clients receive."""
    request = decode.update_metadata(entity)
    error = _admit(state, request, entity)
    if error is KafkaError.NONE:
        listed = decode.listed_topics(entity)
        state.cache.update(request, listed, carries_ids=head.version >= _UPDATE_METADATA_IDS)
        state.metadata_changed.notify()
    return {"error_code": error}


async def stop_replica(state: BrokerState, _: RequestHeader, entity: Any) -> Mapping[str, object]:
    """Answer StopReplica: stop fetching, and remove the replicas that are to be deleted."""
    request = decode.stop_replica(entity)
    error = _admit(state, request, entity)
    results = state.replicas.stop(request.partitions) if error is KafkaError.NONE else {}
    return {"error_code": error, "partition_errors": _rows(results)}


def _admit(state: BrokerState, request: ControlRequest, entity: Any) -> KafkaError:
    kraft: bool = getattr(entity, "is_k_raft_controller", False)
    error = state.gate.admit(request.broker_epoch, request.controller_epoch, is_kraft_controller=kraft)
    if error is not KafkaError.NONE:
        log.warning(
            "refused control request",
            api=type(request).__name__,
            error=error.name,
            broker_epoch=request.broker_epoch,
            controller_epoch=request.controller_epoch,
        )
    return error


def _rows(results: Mapping[TopicPartition, KafkaError]) -> list[Mapping[str, object]]:
    return [{"topic_name": tp.topic, **row} for tp, row in _indexed(results.items())]


def _by_topic(request: LeaderAndIsrRequest, results: Mapping[TopicPartition, KafkaError]) -> list[Mapping[str, object]]:
    """Group results by topic id, as versions 5 and later do; the zero id stands for a topic without one."""
    grouped: dict[str, list[Mapping[str, object]]] = {}
    for tp, row in _indexed(results.items()):
        grouped.setdefault(tp.topic, []).append(row)
    ids = request.topic_ids
    return [{"topic_id": decode.id_value(ids.get(topic)), "partition_errors": rows} for topic, rows in grouped.items()]


def _indexed(
    results: Iterable[tuple[TopicPartition, KafkaError]],
) -> list[tuple[TopicPartition, Mapping[str, object]]]:
    return [(tp, {"partition_index": tp.partition, "error_code": error}) for tp, error in results]
