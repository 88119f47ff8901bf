"""The connection of a broker to the active controller. As in stock brokers, an address is kept until it fails."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

import structlog
from kio.static.protocol import RequestPayload

from broker.background import Signal
from broker.metadata_cache import MetadataCache
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Endpoint
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.kio_codec import decode_entity, encode_entity, response_type
from wire.versions import ApiKey, VersionRange

log = structlog.get_logger(__name__)

_RETRY_S: Final = 0.05
_CONNECT_TIMEOUT_S: Final = 10.0

Build = Callable[[VersionRange | None], RequestPayload | None]
"""Build the request for a peer that supports these versions of its API; None if no version fits."""


class _NotController(Exception):  # ends one attempt
    """The peer is not the controller, or does not support the request."""


class ControllerChannel:
    """One connection to the controller, with one request in flight. Two tasks must not use it at once.

    The controller is the one of the last UpdateMetadata; its address is that of the live broker with this id in the
    same request. The address is looked up again only when the connection breaks, or when a response contains
    NOT_CONTROLLER.
    """

    def __init__(self, cache: MetadataCache, metadata_changed: Signal, listener: str, client_id: str) -> None:
        self._cache = cache
        self._metadata_changed = metadata_changed
        self._listener = listener
        self._client_id = client_id
        self._connection: KafkaConnection | None = None
        self._versions: dict[int, VersionRange] = {}

    async def ask(self, api: ApiKey, build: Build) -> Any:
        """Return the controller's response, decoded by kio. Retry, with the current controller, until there is one."""
        before = ""
        while True:
            try:
                return await self._ask_once(await self._connected(), api, build)
            except (OSError, WireError, _NotController) as error:  # TimeoutError is an OSError
                if repr(error) != before:
                    log.info("could not reach controller", api=api.name, error=repr(error))
                before = repr(error)
                self.close()
            await asyncio.sleep(_RETRY_S)

    def close(self) -> None:
        """Close the connection and forget the address."""
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    async def _connected(self) -> KafkaConnection:
        if self._connection is None or not self._connection.is_open:
            endpoint = await self._find()
            self._connection = await KafkaConnection.connect(
                endpoint.host, endpoint.port, self._client_id, connect_timeout_s=_CONNECT_TIMEOUT_S
            )
            self._versions = dict(await self._connection.api_versions())
        return self._connection

    async def _find(self) -> Endpoint:
        while (endpoint := controller_endpoint(self._cache, self._listener)) is None:
            await self._metadata_changed.wait()
        return endpoint

    async def _ask_once(self, connection: KafkaConnection, api: ApiKey, build: Build) -> Any:
        request = build(self._versions.get(api))
        if request is None:
            raise _NotController(f"{api.name}: the controller supports {self._versions.get(api)}")
        version = request.__version__
        body = await connection.request(api, version, encode_entity(request))
        answer = decode_entity(response_type(api, version), body)
        if _has_not_controller(answer):
            raise _NotController("NOT_CONTROLLER")
        return answer


def controller_endpoint(cache: MetadataCache, listener: str) -> Endpoint | None:
    """Return the endpoint of the controller of the last UpdateMetadata; None if it is not among the live brokers."""
    return cache.endpoint(cache.controller_id, listener)


def _has_not_controller(answer: Any) -> bool:
    """Whether NOT_CONTROLLER is the error of the response or of any partition in it."""
    partitions = [partition for topic in getattr(answer, "topics", ()) for partition in topic.partitions]
    return any(item.error_code.value == KafkaError.NOT_CONTROLLER for item in (answer, *partitions))
