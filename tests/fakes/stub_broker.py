"""A fake broker that keeps every control request, as kio decodes it, and answers by a script."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, get_args, get_type_hints

from kio.schema.api_versions.v3.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta
from kio.static.protocol import RequestPayload, ResponsePayload

from tests.fakes.listening import ListeningFake
from tests.fakes.settings_broker import encode_settings
from wire.framing import RequestHeader
from wire.kio_codec import decode_request, encode_response, response_type
from wire.versions import ApiKey

_HIGHEST_VERSIONS: Final = {ApiKey.LEADER_AND_ISR: 7, ApiKey.STOP_REPLICA: 4, ApiKey.UPDATE_METADATA: 8}


@dataclass(frozen=True, slots=True)
class ScriptedAnswer:
    """An answer: errors by name, top-level and per (topic, partition); or the connection is closed instead."""

    error: str = "NONE"
    partitions: Mapping[tuple[str, int], str] | None = None
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Got:
    """A control request that was received."""

    header: RequestHeader
    entity: RequestPayload


class StubBroker(ListeningFake):
    """A stub with two listening sockets, so that it can move from one to the other.

    ``script`` has the answers to the next requests, in order; all later requests are answered NONE.
    """

    def __init__(self, broker: int, changed: Callable[[], None]) -> None:
        """``changed`` is called after each request."""
        super().__init__(sockets=2)
        self.id = broker
        self.got: list[Got] = []
        self.script: list[ScriptedAnswer] = []
        self._changed = changed

    async def answer(self, frame: bytes) -> bytes:
        """Answer by the script."""
        header, entity = decode_request(frame)
        if header.api_key == ApiKey.API_VERSIONS:
            return encode_response(header.correlation_id, _versions())
        if header.api_key == ApiKey.DESCRIBE_CONFIGS:
            return encode_settings(frame)
        self.got.append(Got(header, entity))
        answer = self.script.pop(0) if self.script else ScriptedAnswer()
        self._changed()
        if answer.closes:
            raise ConnectionAbortedError("the script closes this connection")
        return encode_response(header.correlation_id, _response(header, entity, answer))


def _versions() -> ApiVersionsResponse:
    keys = tuple(
        ApiVersion(api_key=i16(key), min_version=i16(0), max_version=i16(highest))
        for key, highest in _HIGHEST_VERSIONS.items()
    )
    throttle = i32Timedelta.parse(timedelta(0))
    return ApiVersionsResponse(error_code=ErrorCode.none, api_keys=keys, throttle_time=throttle)


def _response(header: RequestHeader, entity: RequestPayload, answer: ScriptedAnswer) -> ResponsePayload:
    """The answer in the version of the request; partitions that the script does not name got NONE and are left out."""
    kind: Any = response_type(header.api_key, header.version)
    error = ErrorCode[answer.error.lower()]
    named = answer.partitions or {}
    if "topics" in kind.__dataclass_fields__:
        return kind(error_code=error, topics=_by_topic(header, entity, named))  # type: ignore[no-any-return]
    if "partition_errors" in kind.__dataclass_fields__:
        return kind(error_code=error, partition_errors=_flat(header, named))  # type: ignore[no-any-return]
    return kind(error_code=error)  # type: ignore[no-any-return]


def _flat(header: RequestHeader, named: Mapping[tuple[str, int], str]) -> tuple[Any, ...]:
    kind = _inner(response_type(header.api_key, header.version), "partition_errors")
    return tuple(
        kind(topic_name=topic, partition_index=partition, error_code=ErrorCode[code.lower()])
        for (topic, partition), code in named.items()
    )


def _by_topic(header: RequestHeader, entity: RequestPayload, named: Mapping[tuple[str, int], str]) -> tuple[Any, ...]:
    per_topic = _inner(response_type(header.api_key, header.version), "topics")
    per_partition = _inner(per_topic, "partition_errors")
    states: Any = entity
    return tuple(
        per_topic(
            topic_id=state.topic_id,
            partition_errors=tuple(
                per_partition(partition_index=partition, error_code=ErrorCode[code.lower()])
                for (topic, partition), code in named.items()
                if topic == state.topic_name
            ),
        )
        for state in states.topic_states
        if any(topic == state.topic_name for topic, _ in named)
    )


def _inner(kind: Any, name: str) -> Any:
    """The class of the elements of a repeated field."""
    return get_args(get_type_hints(kind)[name])[0]
