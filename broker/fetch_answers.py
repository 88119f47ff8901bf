"""Answer Fetch without records: every log is empty, but the fetches tell a leader which followers are in sync."""

from collections.abc import Mapping
from typing import Any

from broker import decode
from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import TopicPartition
from wire.framing import RequestHeader

Rows = list[Mapping[str, object]]


async def fetch(state: BrokerState, head: RequestHeader, request: Any) -> Mapping[str, object]:
    """Answer Fetch: at once if a partition is refused, else after the maximum wait of the request."""
    topics = [_topic(state, head, request.replica_id, topic) for topic in request.topics]
    refused = any(row["error_code"] is not KafkaError.NONE for topic in topics for row in _partitions(topic))
    if not refused and request.min_bytes > 0:
        # No record can arrive; only a new role of this broker concerns the follower.
        await state.replicas.roles_changed.wait(request.max_wait.total_seconds())
    return {"error_code": KafkaError.NONE, "session_id": 0, "responses": topics}


def _partitions(topic: Mapping[str, Any]) -> Rows:
    rows: Rows = topic["partitions"]
    return rows


def _topic(state: BrokerState, head: RequestHeader, replica: int, topic: Any) -> Mapping[str, object]:
    """Return the response for a topic, which version 13 and later name by id (KIP-516)."""
    by_id = head.version >= 13
    name = state.cache.topic_name(decode.id_text(topic.topic_id) or "") if by_id else topic.topic
    rows = [_partition(state, replica, name, partition) for partition in topic.partitions]
    return {"topic": name or "", "topic_id": topic.topic_id if by_id else None, "partitions": rows}


def _partition(state: BrokerState, replica: int, topic: str | None, partition: Any) -> Mapping[str, object]:
    if topic is None:
        error = KafkaError.UNKNOWN_TOPIC_ID
    else:
        tp = TopicPartition(topic, partition.partition)
        error = state.replicas.fetched(replica, tp, partition.current_leader_epoch)
    if error is KafkaError.NONE and partition.fetch_offset != 0:
        error = KafkaError.OFFSET_OUT_OF_RANGE
    offset = 0 if error is KafkaError.NONE else -1
    return {
        "partition_index": partition.partition,
        "error_code": error,
        "high_watermark": offset,
        "last_stable_offset": offset,
        "log_start_offset": offset,
        "aborted_transactions": None,
        "records": None,
    }
