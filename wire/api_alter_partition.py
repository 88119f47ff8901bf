"""Decode and encode AlterPartition (KIP-497) by hand: one request may name every partition that a broker leads."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState
from events.replicas import ProposedIsr
from wire.api_codec import Request
from wire.errors import MalformedMessage
from wire.framing import RequestHeader, decode_request_header, encode_response_header
from wire.primitives import FLEXIBLE, Cursor, topic_id_bytes, topic_id_text

FIRST_WITH_RECOVERY: Final = 1
FIRST_WITH_IDS: Final = 2
FIRST_WITH_EPOCHS: Final = 3

_BROKER: Final = struct.Struct(">iq")
_PARTITION: Final = struct.Struct(">ii")
_TWO_BYTE_VARINT: Final = 0x80
_RECOVERY: Final = {int(state): state for state in LeaderRecoveryState}
_REFUSED: Final = LeaderAndIsr(BrokerId(0), 0, (), 0, 0)
"""The other fields beside the error of a refused partition."""


@dataclass(frozen=True, slots=True)
class AlterPartitionQuery:
    """A decoded request: topics by name (before version 2) or by base64url id, each with its partitions."""

    broker: BrokerId
    broker_epoch: int
    topics: Sequence[tuple[str, Sequence[tuple[int, ProposedIsr]]]]


Outcome = LeaderAndIsr | KafkaError
"""The answer for a partition: the current state, or the error."""


class UnknownRecoveryState(MalformedMessage):
    """The request has an unknown leader recovery state, and is valid otherwise."""


def decode_alter_partition(request: Request) -> AlterPartitionQuery:
    """Read a request. :raises MalformedMessage: anything is wrong with its bytes; ``UnknownRecoveryState`` is one."""
    version = request.head.version
    cursor = Cursor(request.frame, decode_request_header(request.frame)[1], flexible=True)
    broker, epoch = _BROKER.unpack(cursor.take(_BROKER.size))
    topics = [_read_topic(cursor, version) for _ in range(cursor.count())]
    cursor.skip_tags()
    cursor.end()
    return AlterPartitionQuery(BrokerId(broker), epoch, topics)


def _read_topic(cursor: Cursor, version: int) -> tuple[str, list[tuple[int, ProposedIsr]]]:
    name = (topic_id_text(cursor.take(16)) or "") if version >= FIRST_WITH_IDS else cursor.string()
    partitions = [_read_partition(cursor, version) for _ in range(cursor.count())]
    cursor.skip_tags()
    return name, partitions


def _read_partition(cursor: Cursor, version: int) -> tuple[int, ProposedIsr]:
    plain = _read_plain_partition(cursor) if version >= FIRST_WITH_EPOCHS else None
    return plain or _read_any_partition(cursor, version)


def _read_plain_partition(cursor: Cursor) -> tuple[int, ProposedIsr] | None:
    """A partition of version 3 in one step, as every broker writes it; None for another form."""
    start = cursor.offset
    if not 0 < (count := cursor.take(_PARTITION.size + 1)[-1]) < _TWO_BYTE_VARINT:
        cursor.offset = start
        return None
    cursor.offset = start
    layout = _plain_partition(count - 1)
    index, leader_epoch, _, *members, recovery, partition_epoch, tags = layout.unpack(cursor.take(layout.size))
    if tags or any(members[2::3]) or recovery not in _RECOVERY:
        cursor.offset = start
        return None
    return index, ProposedIsr(leader_epoch, partition_epoch, tuple(members[::3]), _RECOVERY[recovery])


def _read_any_partition(cursor: Cursor, version: int) -> tuple[int, ProposedIsr]:
    index, leader_epoch = _PARTITION.unpack(cursor.take(_PARTITION.size))
    isr = _read_isr(cursor, version)
    (recovery,) = cursor.take(1) if version >= FIRST_WITH_RECOVERY else b"\0"
    partition_epoch = cursor.int32()
    cursor.skip_tags()
    try:
        return index, ProposedIsr(leader_epoch, partition_epoch, isr, LeaderRecoveryState(recovery))
    except ValueError as error:
        raise UnknownRecoveryState(str(error)) from error


def _read_isr(cursor: Cursor, version: int) -> tuple[BrokerId, ...]:
    length = cursor.count()
    if version < FIRST_WITH_EPOCHS:
        return struct.unpack(f">{length}i", cursor.take(4 * length))
    # The epoch of each member is -1 from ZooKeeper-mode brokers, and their controller ignores it as well.
    return tuple(_read_tagged_member(cursor) for _ in range(length))


def _read_tagged_member(cursor: Cursor) -> BrokerId:
    broker, _ = _BROKER.unpack(cursor.take(_BROKER.size))
    cursor.skip_tags()
    return BrokerId(broker)


@lru_cache(maxsize=256)
def _plain_partition(members: int) -> struct.Struct:
    """A partition of version 3 with so many ISR members and without tagged fields."""
    return struct.Struct(">iiB" + "iqB" * members + "biB")


def encode_alter_partition(
    head: RequestHeader, error: KafkaError, topics: Mapping[str, Sequence[tuple[int, Outcome]]]
) -> bytes:
    """Encode the response: ``topics`` by name or id, as in the request's version."""
    out = [
        encode_response_header(head.api_key, head.version, head.correlation_id),
        struct.pack(">ih", 0, error),
        FLEXIBLE.count(len(topics)),
    ]
    for name, partitions in topics.items():
        out.append(topic_id_bytes(name or None) if head.version >= FIRST_WITH_IDS else FLEXIBLE.string(name))
        out.append(FLEXIBLE.count(len(partitions)))
        out.extend(_partition(index, outcome, head.version) for index, outcome in partitions)
        out.append(FLEXIBLE.tags)
    out.append(FLEXIBLE.tags)
    return b"".join(out)


def _partition(index: int, outcome: Outcome, version: int) -> bytes:
    error, state = (outcome, _REFUSED) if isinstance(outcome, KafkaError) else (KafkaError.NONE, outcome)
    recovery = bytes((state.recovery_state,)) if version >= FIRST_WITH_RECOVERY else b""
    start = struct.pack(">ihii", index, error, state.leader, state.leader_epoch)
    isr = FLEXIBLE.count(len(state.isr)) + struct.pack(f">{len(state.isr)}i", *state.isr)
    return b"".join((start, isr, recovery, struct.pack(">i", state.partition_epoch), FLEXIBLE.tags))
