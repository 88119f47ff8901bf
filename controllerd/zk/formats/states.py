"""Partition states: the znodes that are read and written by the hundred thousand, so by one compiled decoder."""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec

from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controllerd.zk import paths
from controllerd.zk.formats.fields import (
    MAX_INT32,
    BrokerInt,
    EpochInt,
    VersionInt,
    check_version,
    decode_json,
    decode_object,
    encode_json,
    unknown_fields,
)


class _State(msgspec.Struct, gc=False):
    leader: Annotated[int, msgspec.Meta(ge=-1, le=MAX_INT32)]
    leader_epoch: EpochInt
    controller_epoch: EpochInt
    isr: tuple[BrokerInt, ...]
    version: VersionInt = 1
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


class _WrittenState(msgspec.Struct, gc=False, omit_defaults=True):
    version: int
    leader: int
    leader_epoch: int
    controller_epoch: int
    isr: tuple[BrokerId, ...]
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


_DECODER: Final = msgspec.json.Decoder(_State)
_ENCODER: Final = msgspec.json.Encoder()


def decode_state(tp: TopicPartition, data: bytes | None, version: int) -> LeaderAndIsr:
    """Decode a state znode; its data version is the partition epoch. ``BadZnode`` concerns this partition alone."""
    try:
        state = _DECODER.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        state = decode_json(paths.partition_state(tp), data, _DECODER)  # once more, for the precise reason
    if state.version != 1:
        check_version(paths.partition_state(tp), state.version, {1})
    return LeaderAndIsr(
        BrokerId(state.leader),
        state.leader_epoch,
        state.isr,  # type: ignore[arg-type]  # broker ids at run time; a copy per state would be paid 100,000 times
        state.controller_epoch,
        version,
        state.leader_recovery_state,
    )


def encode_state(leadership: LeaderAndIsr, extra: Mapping[str, object] | None = None) -> bytes:
    """Encode a state znode; the recovery state is written only while RECOVERING, as Kafka does."""
    data = _ENCODER.encode(
        _WrittenState(
            1,
            leadership.leader,
            leadership.leader_epoch,
            leadership.controller_epoch,
            leadership.isr,
            leadership.recovery_state,
        )
    )
    return encode_json(msgspec.json.decode(data) | dict(extra)) if extra else data


def state_extra(tp: TopicPartition, data: bytes) -> dict[str, object]:
    """The fields of a state znode that we do not know, to be given to ``encode_state``."""
    return unknown_fields(decode_object(paths.partition_state(tp), data), _State)
