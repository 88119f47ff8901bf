"""The AlterPartition of a stub whose new replicas have caught up: from bytes of kio, and read back by kio."""

import uuid
from typing import Any

from bench.growing import Leader, PartitionKey, WantedIsr, alter_partition, wanted_by
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, LeaderAndIsrRequest
from tests.wire import kio_mirror
from wire.framing import RequestHeader, encode_request_header
from wire.kio_codec import decode_entity, encode_entity, request_type
from wire.primitives import topic_id_text
from wire.versions import ApiKey

ID = uuid.UUID(int=7)
EPOCHS = {1: 101, 2: 102, 3: 103, 4: 104}


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in brokers)


def frame(*rows: tuple[int, int, tuple[int, ...], tuple[int, ...]]) -> bytes:
    """A LeaderAndIsr: of each partition its number, leader, ISR, and adding replicas."""
    partitions = {
        TopicPartition("t", partition): LeaderAndIsrPartition(
            LeaderAndIsr(BrokerId(leader), 5, ids(*isr), 1, 9),
            ReplicaAssignment(ids(*adding, *isr), ids(*adding), ids()),
            is_new=False,
        )
        for partition, leader, isr, adding in rows
    }
    request = LeaderAndIsrRequest(9, 1, 101, partitions, {"t": topic_id_text(ID.bytes) or ""}, ())
    header = encode_request_header(RequestHeader(ApiKey.LEADER_AND_ISR, 7, 7, "controller"))
    return header + encode_entity(kio_mirror.leader_and_isr(request, 7))


def test_a_leader_asks_for_the_replicas_being_added() -> None:
    request = frame(
        (0, 1, (1, 2), (3,)), (1, 2, (2, 1), (3,)), (2, 1, (1, 3), (3,)), (3, 1, (1,), (2, 3)), (4, 1, (1,), ())
    )  # fmt: skip

    assert wanted_by(request, 1) == {
        PartitionKey(ID.bytes, 0): WantedIsr(5, 9, (1, 2, 3)),
        PartitionKey(ID.bytes, 3): WantedIsr(5, 9, (1, 2, 3)),
    }


def test_the_request_is_one_for_all_partitions_and_reads_as_kio_reads_it() -> None:
    wanted = {PartitionKey(ID.bytes, 0): WantedIsr(5, 9, (1, 2, 3)), PartitionKey(ID.bytes, 3): WantedIsr(6, 2, (1, 4))}

    read: Any = decode_entity(request_type(ApiKey.ALTER_PARTITION, 3), alter_partition(1, EPOCHS, wanted))

    assert (read.broker_id, read.broker_epoch, len(read.topics), read.topics[0].topic_id) == (1, 101, 1, ID)
    rows = read.topics[0].partitions
    assert [(p.partition_index, p.leader_epoch, p.partition_epoch) for p in rows] == [(0, 5, 9), (3, 6, 2)]
    members = [[(b.broker_id, b.broker_epoch) for b in p.new_isr_with_epochs] for p in rows]
    assert members == [[(1, 101), (2, 102), (3, 103)], [(1, 101), (4, 104)]]


def test_a_repeated_request_is_asked_for_once() -> None:
    leader = Leader(1, "127.0.0.1", 0, EPOCHS)
    request = frame((0, 1, (1, 2), (3,)))

    leader.on_leader_and_isr(request)
    first = leader.take()
    leader.on_leader_and_isr(request)

    assert first == {PartitionKey(ID.bytes, 0): WantedIsr(5, 9, (1, 2, 3))}
    assert leader.take() == {}
