"""The API versions of each live broker, requested once per broker epoch, for our ApiVersions and for the relay."""

import asyncio
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, TypeAlias

import structlog

from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.snapshot import ClusterSnapshot
from wire.api_messages import decode_api_ranges
from wire.errors import WireError
from wire.framing import RequestHeader, encode_frame, encode_request_header, read_frame
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey, VersionRange

_QUESTION: Final = RequestHeader(ApiKey.API_VERSIONS, 0, 0, "controllerd")
_MAX_ANSWER_BYTES: Final = 2**16
_LOG = structlog.get_logger(__name__)

_BrokerRegistration: TypeAlias = tuple[BrokerId, int]
"""A broker and its epoch: after an upgrade the broker has other API versions, and another epoch."""


def plaintext_endpoint(broker: Broker, listener: str) -> Endpoint | None:
    """Return the endpoint to relay clients of this listener to: the same listener, so that FindCoordinator names it."""
    endpoint = broker.endpoint(listener)
    is_plain = endpoint is not None and endpoint.security_protocol is SecurityProtocol.PLAINTEXT
    return endpoint if is_plain else None


class BrokerVersions:
    """The versions of the live brokers. A broker that cannot be asked is left out, and asked again later."""

    Known: ClassVar[TypeAlias] = Mapping[BrokerId, Mapping[int, VersionRange]]

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        *,
        ask_s: float = 5.0,
        patience_s: float = 0.5,
        retry_s: float = 1.0,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``ask_s`` bounds one question, ``patience_s`` a caller's wait, ``retry_s`` separates two tries."""
        self._snapshot = snapshot
        self._ask_s = ask_s
        self._patience_s = patience_s
        self._retry_s = retry_s
        self._transport = transport
        self._known: dict[_BrokerRegistration, Mapping[int, VersionRange]] = {}
        self._retry_at: dict[_BrokerRegistration, float] = {}
        self._asking: dict[_BrokerRegistration, asyncio.Task[None]] = {}
        self._hanging: set[_BrokerRegistration] = set()
        """Brokers that did not answer in time: no caller waits for them again while another broker is known."""

    async def known(self, listener: str) -> Known:
        """Return the versions of the live brokers.

        Wait a short time for brokers that were not asked yet, and never for one that did not answer in time.
        """
        self._forget_dead()
        asked = {(each.id, each.epoch): self._question(each, listener) for each in self._snapshot.brokers.values()}
        passed_over = self._hanging if self._known else set()
        questions = {
            registration: task
            for registration, task in asked.items()
            if task is not None and registration not in passed_over
        }
        if questions:
            await asyncio.wait(questions.values(), timeout=self._patience_s)
            self._hanging |= questions.keys() & self._asking.keys()
        registrations = [(broker.id, broker.epoch) for broker in self._snapshot.brokers.values()]
        return MappingProxyType(
            {
                registration[0]: self._known[registration]
                for registration in registrations
                if registration in self._known
            }
        )

    async def close(self) -> None:
        """Cancel the requests in progress."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _forget_dead(self) -> None:
        registrations = {(broker.id, broker.epoch) for broker in self._snapshot.brokers.values()}
        for book in (self._known, self._retry_at):
            for registration in book.keys() - registrations:
                del book[registration]
        self._hanging &= registrations

    def _question(self, broker: Broker, listener: str) -> asyncio.Task[None] | None:
        """Return the request in progress to this broker, begun if it is due."""
        registration = (broker.id, broker.epoch)
        endpoint = plaintext_endpoint(broker, listener)
        if registration in self._known or endpoint is None:
            return None
        if registration not in self._asking:
            if asyncio.get_running_loop().time() < self._retry_at.get(registration, 0.0):
                return None
            self._asking[registration] = asyncio.create_task(
                self._ask(registration, endpoint), name=f"ask-versions-{broker.id}"
            )
        return self._asking[registration]

    async def _ask(self, registration: _BrokerRegistration, endpoint: Endpoint) -> None:
        try:
            async with asyncio.timeout(self._ask_s):
                self._known[registration] = await ask_versions(endpoint, self._transport)
        except (OSError, WireError, TimeoutError) as error:
            self._retry_at[registration] = asyncio.get_running_loop().time() + self._retry_s
            _LOG.info(
                "could not read API versions of broker",
                broker=registration[0],
                broker_epoch=registration[1],
                error=repr(error),
            )
        finally:
            self._asking.pop(registration, None)


async def ask_versions(endpoint: Endpoint, transport: Transport) -> Mapping[int, VersionRange]:
    """Ask a broker for its API versions. :raises OSError, WireError: there is no answer."""
    link = await transport.open(endpoint.host, endpoint.port)
    try:
        link.write(encode_frame(encode_request_header(_QUESTION)))
        await link.drain()
        answer = await read_frame(link, _MAX_ANSWER_BYTES)
    finally:
        link.abort()
    if answer is None:
        raise ConnectionResetError("the broker closed the connection")
    return decode_api_ranges(_QUESTION, answer)
