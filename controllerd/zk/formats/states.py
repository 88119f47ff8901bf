"""Partition states. As 100,000 of them are read at once, one compiled decoder decodes them."""

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
    broker_ids,
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


class _PlainState(_State, gc=False, forbid_unknown_fields=True):
    """A state without unknown fields."""


_FORMAT: Final = 1
_DECODER: Final = msgspec.json.Decoder(_State)
_PLAIN_DECODER: Final = msgspec.json.Decoder(_PlainState)
_ENCODER: Final = msgspec.json.Encoder()


def decode_plain_state(data: bytes | None, version: int) -> LeaderAndIsr | None:
    """Decode a state without unknown fields, as nearly all are; None for a state that ``decode_state`` must decode."""
    try:
        state = _PLAIN_DECODER.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return _leadership(state, version) if state.version == _FORMAT else None


def decode_state(tp: TopicPartition, data: bytes | None, version: int) -> LeaderAndIsr:
    """Decode a state znode; its data version is the partition epoch. ``BadZnode`` concerns this partition alone."""
    path = paths.partition_state(tp)
    state = decode_json(path, data, _DECODER)
    check_version(path, state.version, {_FORMAT})
    return _leadership(state, version)


def _leadership(state: _State, version: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader,  # type: ignore[arg-type]  # a broker id at run time; BrokerId() would be called 100,000 times
        state.leader_epoch,
        broker_ids(state.isr),
        state.controller_epoch,
        version,
        state.leader_recovery_state,
    )


def encode_state(leadership: LeaderAndIsr, extra: Mapping[str, object] | None = None) -> bytes:
    """Encode a state znode; the recovery state is written only while RECOVERING, as Kafka does."""
    data = _ENCODER.encode(
        _WrittenState(
            _FORMAT,
            leadership.leader,
            leadership.leader_epoch,
            leadership.controller_epoch,
            leadership.isr,
            leadership.recovery_state,
        )
    )
    return encode_json(msgspec.json.decode(data) | dict(extra)) if extra else data


def state_extra(tp: TopicPartition, data: bytes) -> dict[str, object]:
    """Return the unknown fields of a state znode, for ``encode_state``."""
    return unknown_fields(decode_object(paths.partition_state(tp), data), _State)
