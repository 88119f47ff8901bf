"""The answers of brokers in the audit log."""

from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import ControlResponse, StopReplicaRequest
from controllerd.daemon.auditing import RecordedExchanges
from controllerd.record.records import ResponseRecord
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import NODE_ID


def test_an_answer_is_recorded_with_the_partitions_that_failed_only() -> None:
    audit, good, bad = RecordingAudit(), TopicPartition("t", 0), TopicPartition("t", 1)
    request = StopReplicaRequest(NODE_ID, 7, 42, {})
    errors = {good: KafkaError.NONE, bad: KafkaError.FENCED_LEADER_EPOCH}
    response = ControlResponse("StopReplica", KafkaError.NONE, errors)

    RecordedExchanges(audit).on_response(Exchange(BrokerId(1), request, response, 4, 9, 100, 2, 0.0125))

    (record,) = audit.of(ResponseRecord)
    assert record.errors == {"t-1": int(KafkaError.FENCED_LEADER_EPOCH)}
    assert (record.broker, record.broker_epoch, record.attempts, record.took_ms) == (1, 42, 2, 12.5)
