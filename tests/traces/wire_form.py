"""Messages decoded by kio in the traces' normal form, and the requests of stubs from that form.

kio is used because our own encoders are under test.
"""

import base64
import dataclasses
import datetime as dt
import uuid
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from kio.static.protocol import Payload, RequestPayload, ResponsePayload

from tests.traces.format import Json
from wire.kio_codec import request_type
from wire.versions import ApiKey

_NAMES: Final = {
    ApiKey.LEADER_AND_ISR: "LeaderAndIsr",
    ApiKey.UPDATE_METADATA: "UpdateMetadata",
    ApiKey.STOP_REPLICA: "StopReplica",
    ApiKey.ALTER_PARTITION: "AlterPartition",
    ApiKey.CONTROLLED_SHUTDOWN: "ControlledShutdown",
    ApiKey.ALLOCATE_PRODUCER_IDS: "AllocateProducerIds",
    ApiKey.ELECT_LEADERS: "ElectLeaders",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "AlterPartitionReassignments",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "ListPartitionReassignments",
}
_KEYS: Final = {name: key for key, name in _NAMES.items()}
_ZERO: Final = uuid.UUID(int=0)
E = TypeVar("E", bound=Payload)


def api_name(api_key: int) -> str:
    """Kafka's name of an API."""
    return _NAMES[ApiKey(api_key)]


def body_of_request(entity: RequestPayload) -> Json:
    """The body of a control request: topics flattened, everything without order sorted."""
    body = _plain(entity)
    topics = body.pop("topic_states")
    body["partitions"] = {
        f"{topic['topic_name']}-{partition.pop('partition_index')}": partition
        for topic in topics
        for partition in topic["partition_states"]
    }
    if ApiKey(entity.__api_key__) is not ApiKey.STOP_REPLICA:
        body["topic_ids"] = {topic["topic_name"]: topic["topic_id"] for topic in topics}
    for name, key in (("live_leaders", "broker_id"), ("live_brokers", "id")):
        if name in body:
            body[name].sort(key=lambda entry, key=key: entry[key])
    return body


def body_of_reply(entity: ResponsePayload) -> Json:
    """The body of a reply, without throttle time."""
    body = _plain(entity)
    body.pop("throttle_time", None)
    return body


def question(api: str, version: int, body: Json) -> RequestPayload:
    """The request of a stub, from the normal form with symbols resolved."""
    return _entity(request_type(_KEYS[api], version), body)


def _plain(value: object) -> Json:
    if dataclasses.is_dataclass(value):
        fields = dataclasses.fields(value)
        return {
            field.name.rstrip("_"): _plain_id(getattr(value, field.name))
            if field.name == "topic_id"
            else _plain(getattr(value, field.name))
            for field in fields
        }
    if isinstance(value, Enum):
        return value.name.upper()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _plain_id(topic_id: uuid.UUID | None) -> str:
    return base64.urlsafe_b64encode((topic_id or _ZERO).bytes).rstrip(b"=").decode()


def _entity(kind: type[E], form: Json) -> E:
    hints = get_type_hints(kind)
    fields: Iterable[dataclasses.Field[Any]] = dataclasses.fields(kind)
    given = {field.name: form[field.name.rstrip("_")] for field in fields if field.name.rstrip("_") in form}
    return kind(**{name: _typed(hints[name], name, value) for name, value in given.items()})


def _typed(hint: Any, name: str, value: Json) -> Any:
    if name == "topic_id":
        return uuid.UUID(bytes=base64.urlsafe_b64decode(value + "=="))
    if name == "timeout":
        return dt.timedelta(milliseconds=value)
    if isinstance(value, list):
        tuples = [each for each in (hint, *get_args(hint)) if get_origin(each) is tuple]  # it may be optional
        inner = get_args(tuples[0])[0]
        return tuple(_entity(inner, item) if isinstance(item, dict) else item for item in value)
    return value
