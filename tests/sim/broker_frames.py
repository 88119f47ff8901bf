"""Control requests decoded as a broker reads them, and the broker's answers: an independent decoder, small and fast.

Written from the published schemas (``wire.md`` B.1) and from nothing in ``wire``: an error that encoder and decoder
shared would stay invisible. kio would be independent too, but takes fifty times as long; a test holds the two against
each other for every version here. It decodes only the versions that a 3.9 broker negotiates with controllerd:
LeaderAndIsr 4-7, UpdateMetadata 6-8, StopReplica 3-4.
"""

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from struct import Struct, unpack_from
from typing import Final, NamedTuple

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6
API_VERSIONS: Final = 18
DESCRIBE_CONFIGS: Final = 32
API_NAMES: Final[Mapping[int, str]] = {
    LEADER_AND_ISR: "LeaderAndIsr", STOP_REPLICA: "StopReplica", UPDATE_METADATA: "UpdateMetadata",
}  # fmt: skip
SPOKEN: Final[Mapping[int, tuple[int, int]]] = {LEADER_AND_ISR: (0, 7), STOP_REPLICA: (0, 4), UPDATE_METADATA: (0, 8)}
"""The version ranges that a 3.9 broker answers."""
ReleaseNumber = tuple[int, int]
RELEASES: Final[Sequence[ReleaseNumber]] = ((3, 3), (3, 4), (3, 5), (3, 6), (3, 7), (3, 8), (3, 9))
"""The releases that brokers of a story may run."""
RELEASE_2_8: Final[ReleaseNumber] = (2, 8)
"""A release whose brokers look the controller up under ``/brokers/ids`` before they stop."""
RELEASE_3_0: Final[ReleaseNumber] = (3, 0)
"""A release whose leaders freeze an ISR after most refusals, as every one before 3.1 does."""
_ADDED_IN: Final = {
    (2, 8): (60, 0), (3, 0): (67, 0), (3, 3): (56, 2), (3, 5): (56, 3), (3, 6): (24, 4), (3, 7): (60, 1),
    (3, 8): (22, 5), (3, 9): (18, 4),
}  # fmt: skip
"""API and version that no earlier release has, by release; 3.4 is recognised by its control requests."""
_BEFORE_34: Final = {LEADER_AND_ISR: (0, 6), STOP_REPLICA: (0, 3), UPDATE_METADATA: (0, 7)}
_BEFORE_32: Final = {**_BEFORE_34, LEADER_AND_ISR: (0, 5)}
_LOWEST: Final = {LEADER_AND_ISR: 4, STOP_REPLICA: 3, UPDATE_METADATA: 6}

_I16: Final = Struct(">h")
_I32: Final = Struct(">i")
_HEADER: Final = Struct(">hhi")
_STATE: Final = Struct(">iiii")
_EPOCHS: Final = Struct(">iq")
_STOP: Final = Struct(">ii?")
_LISTS: Final = tuple(Struct(f">{n}i") for n in range(32))
_NO_ID: Final = bytes(16)

Key = tuple[str, int]
"""A topic and a partition number."""


class Malformed(Exception):
    """The bytes do not follow the schema: the encoder is wrong."""


class PartitionRow(NamedTuple):
    """The row of a request about one partition; fields that the API does not carry have their defaults."""

    topic: str
    partition: int
    controller_epoch: int = -1
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    replicas: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    is_new: bool = False
    recovery_state: int = 0
    delete: bool = False


class LiveBroker(NamedTuple):
    """A broker as UpdateMetadata names it; endpoints are (listener, host, port, security protocol)."""

    id: int
    endpoints: tuple[tuple[str, str, int, int], ...]
    rack: str | None


@dataclass(frozen=True, slots=True)
class SimRequest:
    """A control request, decoded. ``live_leaders`` (LeaderAndIsr) are (id, host, port)."""

    api: int
    version: int
    correlation_id: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    is_kraft: bool
    rows: tuple[PartitionRow, ...]
    topic_ids: Mapping[str, str]
    """Base64url ids by topic; a topic is absent if the request has no id for it."""
    live_brokers: tuple[LiveBroker, ...] = ()
    live_leaders: tuple[tuple[int, str, int], ...] = ()

    @property
    def api_name(self) -> str:
        """Kafka's name of the API."""
        return API_NAMES[self.api]

    @property
    def carries_ids(self) -> bool:
        """Whether this version has a field for topic ids."""
        return (self.api == UPDATE_METADATA and self.version >= 7) or (self.api == LEADER_AND_ISR and self.version >= 5)


def header(frame: bytes) -> tuple[int, int, int, int]:
    """Decode api key, version, correlation id and the offset of the body (request header 2)."""
    try:
        api, version, correlation_id = _HEADER.unpack_from(frame)
        (length,) = _I16.unpack_from(frame, 8)
    except struct.error as short:
        raise Malformed("a frame too short for a header") from short
    offset = 10 + max(length, 0)
    if api == DESCRIBE_CONFIGS:  # version 1 has the older header, without tags
        return api, version, correlation_id, offset
    if offset >= len(frame) or frame[offset] != 0:
        raise Malformed("a header without its empty tags")
    return api, version, correlation_id, offset + 1


def decode(frame: bytes) -> SimRequest:
    """Decode a control request. :raises Malformed: an unsupported api or version, or bytes that break its schema."""
    api, version, correlation_id, at = header(frame)
    if api not in SPOKEN or not _LOWEST[api] <= version <= SPOKEN[api][1]:
        raise Malformed(f"api {api} version {version}")
    try:
        (controller_id,) = _I32.unpack_from(frame, at)
        at += 4
        is_kraft = False
        if version >= {LEADER_AND_ISR: 7, STOP_REPLICA: 4, UPDATE_METADATA: 8}[api]:
            is_kraft = frame[at] != 0
            at += 1
        controller_epoch, broker_epoch = _EPOCHS.unpack_from(frame, at)
        content = _content(api, version, frame[at + 12 :])
    except (struct.error, IndexError, UnicodeDecodeError) as wrong:
        raise Malformed(f"{API_NAMES[api]} {version}: {wrong}") from wrong
    rows, ids, brokers, leaders = content
    return SimRequest(
        api,
        version,
        correlation_id,
        controller_id,
        controller_epoch,
        broker_epoch,
        is_kraft,
        rows,
        ids,
        brokers,
        leaders,
    )


_Content = tuple[tuple[PartitionRow, ...], Mapping[str, str], tuple[LiveBroker, ...], tuple[tuple[int, str, int], ...]]


@lru_cache(maxsize=64)
def _content(api: int, version: int, body: bytes) -> _Content:
    """Decode the body after the epochs.

    Brokers get the same UpdateMetadata one after the other, so it is decoded once.
    """
    if api == LEADER_AND_ISR:
        content, at = _leader_and_isr(version, body)
    elif api == UPDATE_METADATA:
        content, at = _update_metadata(version, body)
    else:
        content, at = _stop_replica(body)
    if body[at] != 0 or at + 1 != len(body):
        raise Malformed(f"{API_NAMES[api]} {version}: {len(body) - at - 1} bytes at its end")
    return content


def _leader_and_isr(version: int, body: bytes) -> tuple[_Content, int]:
    at = 1 if version >= 5 else 0
    if version >= 5 and body[0] != 0:
        raise Malformed(f"LeaderAndIsr of type {body[0]}")
    rows: list[PartitionRow] = []
    ids: dict[str, str] = {}
    topics, at = _count(body, at)
    for _ in range(topics):
        topic, at = _string(body, at)
        if version >= 5:
            at = _topic_id(body, at, topic, ids)
        states, at = _count(body, at)
        for _ in range(states):
            row, at = _leader_and_isr_row(version, body, at, topic)
            rows.append(row)
        at = _no_tags(body, at)
    leaders = []
    count, at = _count(body, at)
    for _ in range(count):
        (broker,) = _I32.unpack_from(body, at)
        host, at = _string(body, at + 4)
        leaders.append((broker, host, _I32.unpack_from(body, at)[0]))
        at = _no_tags(body, at + 4)
    return (tuple(rows), ids, (), tuple(leaders)), at


def _leader_and_isr_row(version: int, body: bytes, at: int, topic: str) -> tuple[PartitionRow, int]:
    partition, controller_epoch, leader, leader_epoch = _STATE.unpack_from(body, at)
    isr, at = _ids(body, at + 16)
    (partition_epoch,) = _I32.unpack_from(body, at)
    replicas, at = _ids(body, at + 4)
    adding, at = _ids(body, at)
    removing, at = _ids(body, at)
    is_new = body[at] != 0
    recovery = body[at + 1] if version >= 6 else 0
    at = _no_tags(body, at + (2 if version >= 6 else 1))
    row = PartitionRow(
        topic, partition, controller_epoch, leader, leader_epoch, isr, partition_epoch, replicas, adding, removing,
        (), is_new, recovery,
    )  # fmt: skip
    return row, at


def _update_metadata(version: int, body: bytes) -> tuple[_Content, int]:
    rows: list[PartitionRow] = []
    ids: dict[str, str] = {}
    topics, at = _count(body, 0)
    for _ in range(topics):
        topic, at = _string(body, at)
        if version >= 7:
            at = _topic_id(body, at, topic, ids)
        states, at = _count(body, at)
        for _ in range(states):
            partition, controller_epoch, leader, leader_epoch = _STATE.unpack_from(body, at)
            isr, at = _ids(body, at + 16)
            (epoch,) = _I32.unpack_from(body, at)
            replicas, at = _ids(body, at + 4)
            offline, at = _ids(body, at)
            at = _no_tags(body, at)
            rows.append(
                PartitionRow(
                    topic, partition, controller_epoch, leader, leader_epoch, isr, epoch, replicas, (), (), offline
                )
            )
        at = _no_tags(body, at)
    brokers = []
    count, at = _count(body, at)
    for _ in range(count):
        broker, at = _live_broker(body, at)
        brokers.append(broker)
    return (tuple(rows), ids, tuple(brokers), ()), at


def _live_broker(body: bytes, at: int) -> tuple[LiveBroker, int]:
    (broker,) = _I32.unpack_from(body, at)
    count, at = _count(body, at + 4)
    endpoints = []
    for _ in range(count):
        (port,) = _I32.unpack_from(body, at)
        host, at = _string(body, at + 4)
        listener, at = _string(body, at)
        endpoints.append((listener, host, port, _I16.unpack_from(body, at)[0]))
        at = _no_tags(body, at + 2)
    rack: str | None = None
    if body[at] == 0:
        at += 1
    else:
        rack, at = _string(body, at)
    return LiveBroker(broker, tuple(endpoints), rack), _no_tags(body, at)


def _stop_replica(body: bytes) -> tuple[_Content, int]:
    rows = []
    topics, at = _count(body, 0)
    for _ in range(topics):
        topic, at = _string(body, at)
        states, at = _count(body, at)
        for _ in range(states):
            partition, leader_epoch, delete = _STOP.unpack_from(body, at)
            at = _no_tags(body, at + 9)
            rows.append(PartitionRow(topic, partition, leader_epoch=leader_epoch, delete=delete))
        at = _no_tags(body, at)
    return (tuple(rows), {}, (), ()), at


def _count(body: bytes, at: int) -> tuple[int, int]:
    """Decode the length of a compact array or string."""
    length, shift = 0, 0
    while body[at] >= 0x80:
        length |= (body[at] & 0x7F) << shift
        shift += 7
        at += 1
    length |= body[at] << shift
    if length == 0:
        raise Malformed(f"null at {at}")
    return length - 1, at + 1


def _string(body: bytes, at: int) -> tuple[str, int]:
    length, at = _count(body, at)
    raw = body[at : at + length]
    if len(raw) != length:
        raise Malformed(f"a string of {length} bytes at {at} is cut off")
    return raw.decode(), at + length


def _ids(body: bytes, at: int) -> tuple[tuple[int, ...], int]:
    length, at = _count(body, at)
    ids = _LISTS[length].unpack_from(body, at) if length < len(_LISTS) else unpack_from(f">{length}i", body, at)
    return ids, at + 4 * length


def _topic_id(body: bytes, at: int, topic: str, ids: dict[str, str]) -> int:
    raw = body[at : at + 16]
    if raw != _NO_ID:
        ids[topic] = id_text(raw)
    return at + 16


def _no_tags(body: bytes, at: int) -> int:
    if body[at] != 0:
        raise Malformed(f"tagged fields at {at}")
    return at + 1


@lru_cache(maxsize=4096)
def id_text(raw: bytes) -> str:
    """Encode 16 bytes as base64url without padding."""
    return urlsafe_b64encode(raw).decode().rstrip("=")


@lru_cache(maxsize=4096)
def raw_id(text: str | None) -> bytes:
    """Decode the 16 bytes of an id; zeros for None."""
    return _NO_ID if text is None else urlsafe_b64decode(text + "==")


# -- answers -----------------------------------------------------------------------------------------------------------


def framed(content: bytes) -> bytes:
    """Prefix a frame with its size."""
    return _I32.pack(len(content)) + content


def spoken_on(release: ReleaseNumber) -> dict[int, tuple[int, int]]:
    """The ApiVersions of a broker of this release, as far as the controller's choices depend on it."""
    added = dict(api for since, api in _ADDED_IN.items() if since <= release)
    control = SPOKEN if release >= (3, 4) else _BEFORE_34 if release >= (3, 2) else _BEFORE_32
    return {**control, **{api: (0, version) for api, version in added.items()}}


def api_versions_answer(correlation_id: int, version: int, spoken: Mapping[int, tuple[int, int]]) -> bytes:
    """The response frame of ApiVersions 3 (or 0)."""
    flexible = version >= 3
    tags = b"\0" if flexible else b""
    entries = b"".join(Struct(">hhh").pack(api, *spoken[api]) + tags for api in sorted(spoken))
    count = bytes((len(spoken) + 1,)) if flexible else _I32.pack(len(spoken))
    return framed(_I32.pack(correlation_id) + bytes(2) + count + entries + (bytes(5) if flexible else b""))


def settings_answer(
    frame: bytes, settings: Mapping[str, str], default: Mapping[str, str], own: Mapping[str, str]
) -> bytes:
    """The response frame of DescribeConfigs 1 about one broker; ``default`` and ``own`` are dynamic.

    :raises Malformed: the request asks for something else.
    """
    _, version, correlation_id, at = header(frame)
    resources, kind = Struct(">ib").unpack_from(frame, at)
    broker, at = _short_text(frame, at + 5)
    (count,) = _I32.unpack_from(frame, at)
    at += 4
    if (version, resources, kind) != (1, 1, 4) or count < 0:
        raise Malformed(f"DescribeConfigs {version} about {resources} resources, the first of kind {kind}")
    rows = []
    for _ in range(count):
        name, at = _short_text(frame, at)
        if name in own:
            rows.append(_short(name) + _short(own[name]) + b"\1\2\0" + _I32.pack(0))
        elif name in default:
            synonyms = _short(name) + _short(default[name]) + b"\3" + _short(name) + _short(settings.get(name)) + b"\4"
            rows.append(_short(name) + _short(default[name]) + b"\1\3\0" + _I32.pack(2) + synonyms)
        elif name in settings:
            rows.append(_short(name) + _short(settings[name]) + b"\1\4\0" + _I32.pack(0))
    head = _I32.pack(correlation_id) + _I32.pack(0) + _I32.pack(1) + _I16.pack(0) + _I16.pack(-1) + b"\4"
    return framed(head + _short(broker) + _I32.pack(len(rows)) + b"".join(rows))


def _short_text(frame: bytes, at: int) -> tuple[str, int]:
    (length,) = _I16.unpack_from(frame, at)
    return frame[at + 2 : at + 2 + length].decode(), at + 2 + length


def _short(text: str | None) -> bytes:
    return _I16.pack(-1) if text is None else _I16.pack(len(text)) + text.encode()


def answer(request: SimRequest, error: int, errors: Sequence[tuple[Key, int]]) -> bytes:
    """The response frame of a control request."""
    head = _I32.pack(request.correlation_id) + b"\0" + _I16.pack(error)
    if request.api == UPDATE_METADATA:
        return framed(head + b"\0")
    if request.api == LEADER_AND_ISR and request.version >= 5:
        return framed(head + _by_topic_id(request.topic_ids, errors) + b"\0")
    rows = b"".join(
        _text(topic) + _I32.pack(partition) + _I16.pack(code) + b"\0" for (topic, partition), code in errors
    )
    return framed(head + _length(len(errors)) + rows + b"\0")


def _by_topic_id(ids: Mapping[str, str], errors: Sequence[tuple[Key, int]]) -> bytes:
    topics: dict[str, list[bytes]] = {}
    for (topic, partition), code in errors:
        topics.setdefault(topic, []).append(_I32.pack(partition) + _I16.pack(code) + b"\0")
    parts = [raw_id(ids.get(topic)) + _length(len(rows)) + b"".join(rows) + b"\0" for topic, rows in topics.items()]
    return _length(len(parts)) + b"".join(parts)


def _text(text: str) -> bytes:
    raw = text.encode()
    return _length(len(raw)) + raw


def _length(length: int) -> bytes:
    out, length = bytearray(), length + 1
    while length > 0x7F:
        out.append(length & 0x7F | 0x80)
        length >>= 7
    out.append(length)
    return bytes(out)
