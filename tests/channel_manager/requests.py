"""Small control requests for the tests of senders and the manager."""

from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)

CONTROLLER = 2_000_000_000
ONE = (BrokerId(1),)
T_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
NEW_ID = "AAAAAAAAAAAAAAAAAAAAAg"
"""The id of the same topic, created anew."""


def state(leader: int = 1, leader_epoch: int = 0) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), leader_epoch, ONE, 5, 0)


def leader_and_isr(epoch: int = 0, partition: int = 0) -> LeaderAndIsrRequest:
    entry = LeaderAndIsrPartition(state(leader_epoch=epoch), ReplicaAssignment(ONE), is_new=True)
    leaders = ((BrokerId(1), Endpoint("PLAINTEXT", "localhost", 9092)),)
    return LeaderAndIsrRequest(CONTROLLER, 5, 1, {TopicPartition("t", partition): entry}, {"t": T_ID}, leaders)


def update_metadata(
    *partitions: int, leader: int = 1, live: int = 1, topic: str = "t", topic_id: str | None = T_ID
) -> UpdateMetadataRequest:
    entries = {TopicPartition(topic, p): UpdateMetadataPartition(state(leader), ONE, ()) for p in partitions}
    brokers = tuple(Broker(BrokerId(number), 1, (Endpoint("PLAINTEXT", "localhost", 9092),)) for number in range(live))
    body = UpdateMetadataBody(entries, {} if topic_id is None else {topic: topic_id}, brokers)
    return UpdateMetadataRequest(CONTROLLER, 5, 1, body)


def stop_replica(*, delete: bool, partition: int = 0) -> StopReplicaRequest:
    return StopReplicaRequest(CONTROLLER, 5, 1, {TopicPartition("t", partition): StopReplicaPartition(0, delete)})
