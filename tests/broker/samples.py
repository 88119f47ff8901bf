"""Small values for tests of single parts."""

from collections.abc import Iterable

from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import (
    LeaderAndIsrPartition,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)

T0 = TopicPartition("t", 0)
T_ID = "AAAAAAAAQACAAAAAAAAAAQ"
OTHER_ID = "AAAAAAAAQACAAAAAAAAAAg"


def ids(numbers: Iterable[int]) -> tuple[BrokerId, ...]:
    """Broker ids."""
    return tuple(BrokerId(number) for number in numbers)


def live(*numbers: int) -> tuple[Broker, ...]:
    """Live brokers, each with one listener."""
    return tuple(Broker(broker, 1, (Endpoint("PLAINTEXT", "host", 9000 + broker),)) for broker in ids(numbers))


def leadership(leader: int, epoch: int, isr: Iterable[int] = (1, 2, 3), partition_epoch: int = 0) -> LeaderAndIsr:
    """A partition state of controller epoch 1."""
    return LeaderAndIsr(BrokerId(leader), epoch, ids(isr), 1, partition_epoch)


def partition_state(
    leader: int,
    epoch: int = 0,
    isr: Iterable[int] = (1, 2, 3),
    partition_epoch: int = 0,
    replicas: Iterable[int] = (1, 2, 3),
) -> LeaderAndIsrPartition:
    """One partition of a LeaderAndIsr."""
    return LeaderAndIsrPartition(
        leadership(leader, epoch, isr, partition_epoch), ReplicaAssignment(ids(replicas)), False
    )


def metadata(
    *brokers: int,
    controller: int = 1,
    partitions: Iterable[tuple[TopicPartition, int]] = (),
    topic_id: str | None = None,
) -> UpdateMetadataRequest:
    """An UpdateMetadata with these live brokers and the leaders of some partitions."""
    states = {tp: UpdateMetadataPartition(leadership(leader, 0), ids((1, 2, 3)), ()) for tp, leader in partitions}
    known = {} if topic_id is None else {tp.topic: topic_id for tp in states}
    return UpdateMetadataRequest(controller, 1, -1, UpdateMetadataBody(states, known, live(*brokers)))
