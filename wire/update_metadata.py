"""UpdateMetadata by hand, versions 0 to 8: a head for each broker, and one body that all of them share.

The encoded body is kept per version beside the body object and goes with it: a hundred brokers cost one encoding.
"""

import struct
from typing import Final
from weakref import WeakKeyDictionary

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, Endpoint, SecurityProtocol
from controllerd.core.requests import ControlResponse, UpdateMetadataBody, UpdateMetadataRequest
from wire.partition_errors import error_of
from wire.primitives import FORMATS, INT16, INT32, STATE_START, Cursor, Format, IdLists, topic_id_bytes
from wire.versions import ApiKey, is_flexible

_HEADS: Final = {0: struct.Struct(">ii"), 5: struct.Struct(">iiq"), 8: struct.Struct(">i?iq")}
_encoded: Final[WeakKeyDictionary[UpdateMetadataBody, dict[int, bytes]]] = WeakKeyDictionary()
_has_ids: Final[WeakKeyDictionary[UpdateMetadataBody, bool]] = WeakKeyDictionary()


def encode(request: UpdateMetadataRequest, version: int) -> tuple[bytes, ...]:
    """The body of the request in this version: the broker's own head, and the part shared by all brokers."""
    controller, epoch, broker_epoch = request.controller_id, request.controller_epoch, request.broker_epoch
    if version >= 8:
        head = _HEADS[8].pack(controller, False, epoch, broker_epoch)
    elif version >= 5:
        head = _HEADS[5].pack(controller, epoch, broker_epoch)
    else:
        head = _HEADS[0].pack(controller, epoch)
    return (head, encode_shared(request.body, version))


def encode_shared(body: UpdateMetadataBody, version: int) -> bytes:
    """What is the same for every broker, encoded at the first call for this object and version."""
    versions = _encoded.setdefault(body, {})
    if version not in versions:
        topics = _grouped(body, version) if version >= 5 else _ungrouped(body, version)
        versions[version] = topics + _live_brokers(body, version) + _form(version).tags
    return versions[version]


def has_topic_ids(body: UpdateMetadataBody) -> bool:
    """Whether every topic of the body comes with its id."""
    known = _has_ids.get(body)
    if known is None:
        known = _has_ids[body] = all(tp.topic in body.topic_ids for tp in body.partitions)
    return known


def _form(version: int) -> Format:
    return FORMATS[is_flexible(ApiKey.UPDATE_METADATA, version)]


def _states(body: UpdateMetadataBody, version: int) -> dict[str, list[bytes]]:
    """Every partition state by topic, in the order of the body. The hot loop: names are local, lists are remembered."""
    form = _form(version)
    lists, start, epoch, tags, with_offline = IdLists(form), STATE_START.pack, INT32.pack, form.tags, version >= 4
    by_topic: dict[str, list[bytes]] = {}
    current, states = None, list[bytes]()
    for (topic, partition), (state, replicas, offline) in body.partitions.items():
        if topic is not current:
            current, states = topic, by_topic.setdefault(topic, [])
        leader, leader_epoch, isr, controller_epoch, partition_epoch, _ = state
        states.append(
            b"%b%b%b%b%b%b"
            % (
                start(partition, controller_epoch, leader, leader_epoch),
                lists[isr],
                epoch(partition_epoch),
                lists[replicas],
                lists[offline] if with_offline else b"",
                tags,
            )
        )
    return by_topic


def _ungrouped(body: UpdateMetadataBody, version: int) -> bytes:
    form = _form(version)
    named = [form.string(topic) + state for topic, states in _states(body, version).items() for state in states]
    return form.count(len(named)) + b"".join(named)


def _grouped(body: UpdateMetadataBody, version: int) -> bytes:
    form = _form(version)
    by_topic = _states(body, version)
    parts = [form.count(len(by_topic))]
    for topic, states in by_topic.items():
        topic_id = topic_id_bytes(body.topic_ids.get(topic)) if version >= 7 else b""
        parts += (form.string(topic), topic_id, form.count(len(states)), *states, form.tags)
    return b"".join(parts)


def _live_brokers(body: UpdateMetadataBody, version: int) -> bytes:
    form = _form(version)
    return form.count(len(body.live_brokers)) + b"".join(_broker(broker, version) for broker in body.live_brokers)


def _broker(broker: Broker, version: int) -> bytes:
    form = _form(version)
    if version == 0:
        endpoint = _plaintext_endpoint(broker)
        return INT32.pack(broker.id) + form.string(endpoint.host) + INT32.pack(endpoint.port)
    endpoints = b"".join(_endpoint(endpoint, version) for endpoint in broker.endpoints)
    rack = form.nullable_string(broker.rack) if version >= 2 else b""
    return INT32.pack(broker.id) + form.count(len(broker.endpoints)) + endpoints + rack + form.tags


def _plaintext_endpoint(broker: Broker) -> Endpoint:
    """Version 0 has room for one plain endpoint; a broker without one gets the empty one that Kafka sends."""
    plain = (each for each in broker.endpoints if each.security_protocol is SecurityProtocol.PLAINTEXT)
    return next(plain, Endpoint("", "", -1))


def _endpoint(endpoint: Endpoint, version: int) -> bytes:
    form = _form(version)
    listener = form.string(endpoint.listener) if version >= 3 else b""
    return (
        INT32.pack(endpoint.port) + form.string(endpoint.host) + listener
        + INT16.pack(endpoint.security_protocol) + form.tags
    )  # fmt: skip


def decode_response(version: int, body: bytes) -> ControlResponse:
    """The broker's answer. :raises MalformedMessage: the bytes do not follow the schema."""
    cursor = Cursor(body, flexible=_form(version).flexible)
    error: KafkaError = error_of(cursor.int16())
    cursor.skip_tags()
    cursor.end()
    return ControlResponse("UpdateMetadata", error, {})
