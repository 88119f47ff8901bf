"""What a stub asks for when its new replicas catch up: read from bytes that kio wrote, and read back by kio."""

import uuid
from typing import Any

from bench.growing import Leader, Place, Wanted, alter_partition, wanted_by
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
    """A LeaderAndIsr: of each partition its number, leader, ISR, and what is being added."""
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


def test_a_leader_wants_in_sync_what_is_being_added() -> None:
    told = frame(
        (0, 1, (1, 2), (3,)), (1, 2, (2, 1), (3,)), (2, 1, (1, 3), (3,)), (3, 1, (1,), (2, 3)), (4, 1, (1,), ())
    )  # fmt: skip

    assert wanted_by(told, 1) == {
        Place(ID.bytes, 0): Wanted(5, 9, (1, 2, 3)),
        Place(ID.bytes, 3): Wanted(5, 9, (1, 2, 3)),
    }


def test_the_request_is_one_for_all_partitions_and_reads_as_kio_reads_it() -> None:
    wanted = {Place(ID.bytes, 0): Wanted(5, 9, (1, 2, 3)), Place(ID.bytes, 3): Wanted(6, 2, (1, 4))}

    read: Any = decode_entity(request_type(ApiKey.ALTER_PARTITION, 3), alter_partition(1, EPOCHS, wanted))

    assert (read.broker_id, read.broker_epoch, len(read.topics), read.topics[0].topic_id) == (1, 101, 1, ID)
    rows = read.topics[0].partitions
    assert [(p.partition_index, p.leader_epoch, p.partition_epoch) for p in rows] == [(0, 5, 9), (3, 6, 2)]
    members = [[(b.broker_id, b.broker_epoch) for b in p.new_isr_with_epochs] for p in rows]
    assert members == [[(1, 101), (2, 102), (3, 103)], [(1, 101), (4, 104)]]


def test_what_is_said_twice_is_asked_once() -> None:
    leader = Leader(1, "127.0.0.1", 0, EPOCHS)
    told = frame((0, 1, (1, 2), (3,)))

    leader.told(told)
    first = leader.take()
    leader.told(told)

    assert first == {Place(ID.bytes, 0): Wanted(5, 9, (1, 2, 3))}
    assert leader.take() == {}
