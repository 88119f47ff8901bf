"""Znodes of controllerd: the pauses of operators, and the throttle that is removed after reassignments."""

from typing import Annotated, Final

import msgspec

from controllerd.core.intents import PausesRead, PauseView
from controllerd.core.model import NO_EPOCH, TopicPartition
from controllerd.core.throttles import Bound, Throttle, ThrottleView
from controllerd.zk import paths
from controllerd.zk.formats.fields import MAX_INT32, VersionInt, decode_format, encode_json

_PartitionInt = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT32)]
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Pause(msgspec.Struct, forbid_unknown_fields=True):
    until_ms: _Natural
    reason: str
    by: str
    broker_epoch: int = NO_EPOCH


class _Pauses(msgspec.Struct, forbid_unknown_fields=True):
    version: VersionInt
    pauses: dict[str, _Pause]
    begun: list[str] = []


class _Bound(msgspec.Struct, forbid_unknown_fields=True):
    mark: str
    before: str | None


class _Throttle(msgspec.Struct, forbid_unknown_fields=True):
    version: VersionInt
    rate: _Natural
    by: str
    set_ms: _Natural
    partitions: dict[str, list[_PartitionInt]]
    bounds: dict[str, dict[str, _Bound]]


_PAUSES: Final = msgspec.json.Decoder(_Pauses)
_THROTTLE: Final = msgspec.json.Decoder(_Throttle)


def decode_pauses(data: bytes | None) -> PausesRead:
    """Decode ``/controllerd/pauses``."""
    found = decode_format(paths.PAUSES, data, _PAUSES, (1,))
    pauses = {w: PauseView(p.until_ms, p.reason, p.by, p.broker_epoch) for w, p in found.pauses.items()}
    return PausesRead(pauses, frozenset(found.begun))


def encode_pauses(read: PausesRead) -> bytes:
    """Encode the pauses, and the topics whose deletion had begun when deletions were paused."""
    pauses = {what: pause._asdict() for what, pause in sorted(read.pauses.items())}
    return encode_json({"version": 1, "pauses": pauses, "begun": sorted(read.begun)})


def decode_throttle(data: bytes | None) -> Throttle:
    """Decode ``/controllerd/throttle``."""
    found = decode_format(paths.THROTTLE, data, _THROTTLE, (1,))
    partitions = frozenset(TopicPartition(t, number) for t, numbers in found.partitions.items() for number in numbers)
    bounds = {
        entity: {name: Bound(bound.mark, bound.before) for name, bound in values.items()}
        for entity, values in found.bounds.items()
    }
    return Throttle(ThrottleView(found.rate, found.by, found.set_ms, partitions), bounds)


def encode_throttle(throttle: Throttle) -> bytes:
    """Encode the values of a throttle that are needed to remove it."""
    view, partitions = throttle.view, dict[str, list[int]]()
    for topic, partition in sorted(view.partitions):
        partitions.setdefault(topic, []).append(partition)
    bounds = {entity: {n: b._asdict() for n, b in values.items()} for entity, values in throttle.bounds.items()}
    return encode_json({
        "version": 1,
        "rate": view.rate,
        "by": view.by,
        "set_ms": view.set_ms,
        "partitions": partitions,
        "bounds": bounds,
    })  # fmt: skip
