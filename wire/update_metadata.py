"""Encode UpdateMetadata by hand, versions 0 to 8: a head for each broker, and one body that all brokers share.

The encoded body is cached per version as long as the body object exists: a hundred brokers need one encoding.
"""

import struct
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.core.requests import ControlResponse, UpdateMetadataBody, UpdateMetadataRequest
from wire.control_bodies import ROWS_PER_STEP, Blocks, ByTopic, Templates, error_of
from wire.primitives import FORMATS, INT16, INT32, Cursor, Format, IdLists, topic_id_bytes
from wire.versions import ApiKey, is_flexible

_HEADS: Final = {0: struct.Struct(">ii"), 5: struct.Struct(">iiq"), 8: struct.Struct(">i?iq")}
_encoded: Final[WeakKeyDictionary[UpdateMetadataBody, dict[int, Blocks]]] = WeakKeyDictionary()
_FIRST_WITH_OFFLINE: Final = 4
_FIRST_GROUPED: Final = 5
_FIRST_WITH_TOPIC_IDS: Final = 7
_has_ids: Final[WeakKeyDictionary[UpdateMetadataBody, bool]] = WeakKeyDictionary()


def encode(request: UpdateMetadataRequest, version: int) -> tuple[bytes, ...]:
    """The body of the request in this version: the broker's own head, and the blocks shared by all brokers."""
    return (_head(request, version), *shared(request.body, version).complete())


async def encode_in_turns(request: UpdateMetadataRequest, version: int) -> tuple[bytes, ...]:
    """As ``encode``, with turns for the event loop in between."""
    return (_head(request, version), *await shared(request.body, version).complete_in_turns())


def _head(request: UpdateMetadataRequest, version: int) -> bytes:
    controller, epoch, broker_epoch = request.controller_id, request.controller_epoch, request.broker_epoch
    if version >= 8:
        return _HEADS[8].pack(controller, False, epoch, broker_epoch)
    if version >= 5:
        return _HEADS[5].pack(controller, epoch, broker_epoch)
    return _HEADS[0].pack(controller, epoch)


def shared(body: UpdateMetadataBody, version: int) -> Blocks:
    """Return the blocks that are equal for all brokers; one object and version always gets the same blocks."""
    versions = _encoded.setdefault(body, {})
    if version not in versions:
        versions[version] = Blocks(_pieces(replace(body), version))  # of a twin: what is kept must not keep its key
    return versions[version]


def has_topic_ids(body: UpdateMetadataBody) -> bool:
    """Return whether versions with topic ids may be used: any topic of the body has its id, or it names no topic.

    One topic with an id among others without is enough. Below version 7 the grouped forms carry a
    zero id for every topic, and a broker forgets the id of a topic with a zero id; from version 7
    on only topics without an id get a zero one.
    """
    known = _has_ids.get(body)
    if known is None:
        topics = {tp.topic for tp in body.partitions}
        known = _has_ids[body] = not topics or not topics.isdisjoint(body.topic_ids)
    return known


def _form(version: int) -> Format:
    return FORMATS[is_flexible(ApiKey.UPDATE_METADATA, version)]


def _pieces(body: UpdateMetadataBody, version: int) -> Iterator[bytes]:
    form, with_ids = _form(version), version >= _FIRST_WITH_TOPIC_IDS
    states = ByTopic(form, grouped=version >= _FIRST_GROUPED)
    yield from _pack(body, version, states)

    def head(topic: str) -> bytes:
        return form.string(topic) + (topic_id_bytes(body.topic_ids.get(topic)) if with_ids else b"")

    yield from states.array(head)
    yield _live_brokers(body, version) + form.tags


def _pack(body: UpdateMetadataBody, version: int, by_topic: ByTopic) -> Iterator[bytes]:
    """Every partition state, in the order of the body; an empty piece after each step. Each line runs 100,000 times."""
    templates = _templates(version)
    items = iter(body.partitions.items())
    while part := list(islice(items, ROWS_PER_STEP)):
        current, states = part[0][0].topic, list[bytes]()
        for (topic, partition), (state, replicas, offline) in part:
            if topic is not current:
                by_topic.add(current, states)
                current, states = topic, []
            leader, leader_epoch, isr, controller_epoch, partition_epoch, _ = state
            pack, isr_bytes, rest = templates[isr, replicas, offline]
            states.append(pack(partition, controller_epoch, leader, leader_epoch, isr_bytes, partition_epoch, rest))
        by_topic.add(current, states)
        yield b""


def _templates(
    version: int,
) -> Templates[tuple[tuple[BrokerId, ...], tuple[BrokerId, ...], tuple[BrokerId, ...]]]:
    """By ISR, replicas and offline replicas."""
    form, with_offline = _form(version), version >= _FIRST_WITH_OFFLINE
    lists = IdLists(form)
    return Templates(lambda key: (lists[key[0]], lists[key[1]] + (lists[key[2]] if with_offline else b"") + form.tags))


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
