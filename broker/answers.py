"""Pass each request to its handler, and encode the response in exactly the version of the request."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from broker import config_answers, control_answers, fetch_answers, metadata_answers
from broker.state import BrokerState
from controllerd.core.kafka_error import KafkaError
from wire.api_codec import Request, respond
from wire.api_metadata import decode_metadata
from wire.errors import UnknownApi
from wire.framing import RequestHeader, peek_request
from wire.kio_codec import decode_request
from wire.versions import ApiKey, VersionRange

Values = Mapping[str, object]
Handler = Callable[[BrokerState, RequestHeader, Any], Awaitable[Values]]

SERVED: Final[Mapping[int, VersionRange]] = {
    ApiKey.FETCH: VersionRange(12, 13),
    ApiKey.METADATA: VersionRange(0, 12),
    ApiKey.LEADER_AND_ISR: VersionRange(0, 7),
    ApiKey.STOP_REPLICA: VersionRange(0, 4),
    ApiKey.UPDATE_METADATA: VersionRange(0, 8),
    ApiKey.API_VERSIONS: VersionRange(0, 4),
    ApiKey.INIT_PRODUCER_ID: VersionRange(0, 4),
    ApiKey.DESCRIBE_CONFIGS: VersionRange(1, 4),
    ApiKey.DESCRIBE_CLUSTER: VersionRange(0, 1),
}


async def api_versions(_: BrokerState, _head: RequestHeader, _request: Any) -> Values:
    """Answer ApiVersions: the served APIs."""
    return {"error_code": KafkaError.NONE, "api_keys": _rows(SERVED)}


async def init_producer_id(state: BrokerState, _: RequestHeader, request: Any) -> Values:
    """Answer InitProducerId with an id of the block that the controller allocated. Transactions are not supported."""
    if request.transactional_id is not None:
        error, producer_id = KafkaError.COORDINATOR_NOT_AVAILABLE, None
    else:
        error, producer_id = KafkaError.COORDINATOR_LOAD_IN_PROGRESS, state.producer_ids.take()
    if producer_id is None:
        return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": KafkaError.NONE, "producer_id": producer_id, "producer_epoch": 0}


_HANDLERS: Final[Mapping[int, Handler]] = {
    ApiKey.FETCH: fetch_answers.fetch,
    ApiKey.METADATA: metadata_answers.metadata,
    ApiKey.LEADER_AND_ISR: control_answers.leader_and_isr,
    ApiKey.STOP_REPLICA: control_answers.stop_replica,
    ApiKey.UPDATE_METADATA: control_answers.update_metadata,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
    ApiKey.DESCRIBE_CONFIGS: config_answers.describe_configs,
    ApiKey.DESCRIBE_CLUSTER: metadata_answers.describe_cluster,
}


async def answer(state: BrokerState, frame: bytes) -> bytes:
    """Return the response to one frame.

    :raises WireError: it is malformed, or of an API that is not served; the connection has to be closed
    """
    head = peek_request(frame)
    versions = SERVED.get(head.api_key)
    if versions is None:
        raise UnknownApi(f"API {head.api_key} is not served")
    if head.version in versions:
        return respond(head, await _HANDLERS[head.api_key](state, head, _decode(head, frame)))
    if head.api_key != ApiKey.API_VERSIONS:
        raise UnknownApi(f"version {head.version} of API {head.api_key} is not served")
    # A client with too high a version learns the supported ones from a version 0 answer (KIP-511).
    only: dict[int, VersionRange] = {ApiKey.API_VERSIONS: versions}
    return respond(head, {"error_code": KafkaError.UNSUPPORTED_VERSION, "api_keys": _rows(only)}, version=0)


def _decode(head: RequestHeader, frame: bytes) -> Any:
    """Decode a request with kio, which refuses bytes behind it.

    Metadata is decoded by our own codec, because clients may pad that request.
    """
    return decode_metadata(Request(head, frame)) if head.api_key == ApiKey.METADATA else decode_request(frame).entity


def _rows(served: Mapping[int, VersionRange]) -> list[Values]:
    return [
        {"api_key": int(key), "min_version": versions.lowest, "max_version": versions.highest}
        for key, versions in sorted(served.items())
    ]
