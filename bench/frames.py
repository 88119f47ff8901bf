"""Decode control requests after a run: LeaderAndIsr 7, UpdateMetadata 8 and StopReplica 4, by offsets for speed.

This decoder shares no code with the encoders of the daemon, so that an error in one of them is found. The tests compare
it with kio. Lists of broker ids stay encoded, because they are only compared.
"""

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from wire.framing import decode_request_header
from wire.primitives import FLEXIBLE
from wire.versions import CONTROL_VERSIONS, ApiKey

_START: Final = struct.Struct(">iiii")
_INT: Final = struct.Struct(">i")
_EPOCHS: Final = struct.Struct(">i?iq")
_LEADER_AND_ISR_HEAD: Final = struct.Struct(">i?iqb")
_ROW: Final = struct.Struct(">ihb")
"""One partition of a response: its number, its error, no tags."""
_STOP: Final = struct.Struct(">ii?")


class State(NamedTuple):
    """The state of a partition in a request. ``isr`` is encoded as in the request: four bytes a broker."""

    leader: int
    leader_epoch: int
    isr: bytes
    partition_epoch: int


Entries = Mapping[str, Mapping[int, State | None]]
"""The state in a request by topic and partition; None: the broker has to stop this replica."""


class SentRequest(NamedTuple):
    """A control request."""

    api: str
    controller_epoch: int
    broker_epoch: int
    entries: Entries

    @property
    def named(self) -> int:
        """The number of partitions in the request."""
        return sum(map(len, self.entries.values()))


class UnknownFrame(Exception):
    """The frame is no control request, or is not of the version that the stubs offer."""


class FrameReader:
    """Decode frames. A body that several brokers received alike is decoded once."""

    def __init__(self) -> None:
        self._shared: dict[bytes, Entries] = {}

    def read(self, frame: bytes) -> SentRequest:
        """Decode the request in a frame. :raises UnknownFrame: it cannot be decoded here"""
        header, offset = decode_request_header(frame)
        api = ApiKey(header.api_key)
        if api not in CONTROL_VERSIONS or header.version != CONTROL_VERSIONS[api].highest:
            raise UnknownFrame(f"{api.name} version {header.version}")
        _, _, controller_epoch, broker_epoch = _EPOCHS.unpack_from(frame, offset)
        entries = self._entries(api, frame, offset)
        return SentRequest(api.name, controller_epoch, broker_epoch, entries)

    def _entries(self, api: ApiKey, frame: bytes, offset: int) -> Entries:
        match api:
            case ApiKey.LEADER_AND_ISR:
                return _topics(frame, offset + _LEADER_AND_ISR_HEAD.size, _leader_and_isr)
            case ApiKey.STOP_REPLICA:
                return _topics(frame, offset + _EPOCHS.size, _stop_replica, has_id=False)
            case _:
                shared = frame[offset + _EPOCHS.size :]
                if shared not in self._shared:
                    self._shared[shared] = _topics(shared, 0, _update_metadata)
                return self._shared[shared]


Reader = Callable[[bytes, int, int, dict[int, State | None]], int]
"""Read this many entries from an offset of a frame; return the offset behind them."""


def _topics(frame: bytes, at: int, read: Reader, *, has_id: bool = True) -> Entries:
    return {topic: entries for topic, _, entries in _walk(frame, at, read, has_id=has_id)}


def _walk(
    frame: bytes, at: int, read: Reader, *, has_id: bool = True
) -> Iterator[tuple[str, bytes, dict[int, State | None]]]:
    """Yield the name, the id and the partitions of each topic."""
    count, at = _count(frame, at)
    for _ in range(count):
        length, at = _count(frame, at)
        topic, at = frame[at : at + length].decode(), at + length
        topic_id, at = (frame[at : at + 16], at + 16) if has_id else (b"", at)
        number, at = _count(frame, at)
        entries: dict[int, State | None] = {}
        at = read(frame, at, number, entries) + 1  # the tags of the topic, none
        yield topic, topic_id, entries


def leader_and_isr_rows(frame: bytes) -> bytes:
    """Encode the partitions of a real broker's LeaderAndIsr response, by topic id, each without an error."""
    _, offset = decode_request_header(frame)
    topics = [
        topic_id + FLEXIBLE.count(len(entries)) + b"".join(_ROW.pack(p, 0, 0) for p in entries) + FLEXIBLE.tags
        for _, topic_id, entries in _walk(frame, offset + _LEADER_AND_ISR_HEAD.size, _leader_and_isr)
    ]
    return FLEXIBLE.count(len(topics)) + b"".join(topics)


def walk_leader_and_isr(frame: bytes, read: Reader) -> Iterator[tuple[str, bytes, dict[int, State | None]]]:
    """Yield the name, the id and the partitions, as read by ``read``, of each topic of a LeaderAndIsr."""
    _, offset = decode_request_header(frame)
    return _walk(frame, offset + _LEADER_AND_ISR_HEAD.size, read)


def stop_replica_rows(frame: bytes) -> bytes:
    """Encode the partitions of a real broker's StopReplica response, by name, each without an error."""
    _, offset = decode_request_header(frame)
    rows = [
        FLEXIBLE.string(topic) + _ROW.pack(partition, 0, 0)
        for topic, _, entries in _walk(frame, offset + _EPOCHS.size, _stop_replica, has_id=False)
        for partition in entries
    ]
    return FLEXIBLE.count(len(rows)) + b"".join(rows)


def _count(frame: bytes, at: int) -> tuple[int, int]:
    """Read a compact length; return it and the offset behind it. Null counts as empty."""
    value = shift = 0
    while True:
        byte = frame[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return max(value - 1, 0), at
        shift += 7


def skip_ids(frame: bytes, at: int) -> int:
    """Return the offset behind a list of broker ids."""
    length = frame[at]
    if 0 < length < 0x80:  # all but lists of 127 replicas and more
        return at + 4 * length - 3
    count, at = _count(frame, at)
    return at + 4 * count


def _leader_and_isr(frame: bytes, at: int, number: int, entries: dict[int, State | None]) -> int:
    for _ in range(number):
        at = state_at(frame, at, entries)
        at = skip_ids(frame, skip_ids(frame, at)) + 3  # adding, removing; is new, recovery state, tags
    return at


def _update_metadata(frame: bytes, at: int, number: int, entries: dict[int, State | None]) -> int:
    for _ in range(number):
        at = state_at(frame, at, entries)
        at = skip_ids(frame, at) + 1  # offline replicas; tags
    return at


def state_at(frame: bytes, at: int, entries: dict[int, State | None]) -> int:
    """Read the fields that both requests share, up to the replicas, into ``entries``; return the offset behind."""
    partition, _, leader, leader_epoch = _START.unpack_from(frame, at)
    start = at + _START.size
    end = skip_ids(frame, start)
    first = start + 1 if frame[start] < 0x80 else end - (end - start) // 4 * 4
    (partition_epoch,) = _INT.unpack_from(frame, end)
    entries[partition] = State(leader, leader_epoch, frame[first:end], partition_epoch)
    return skip_ids(frame, end + _INT.size)


def _stop_replica(frame: bytes, at: int, number: int, entries: dict[int, State | None]) -> int:
    for _ in range(number):
        (partition, _, _) = _STOP.unpack_from(frame, at)
        entries[partition] = None
        at += _STOP.size + 1
    return at
