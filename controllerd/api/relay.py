"""The relay: a request that any broker can answer is forwarded to one unchanged, and so is its response.

Each client connection has a target of its own and keeps it, so the order and the correlation ids are preserved.
"""

import asyncio
from typing import Final

from controllerd.api.broker_versions import BrokerVersions, plaintext_endpoint
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.server_settings import ServerLimits
from controllerd.core.model import Broker, Endpoint
from controllerd.snapshot import ClusterSnapshot
from wire.api_codec import Request
from wire.errors import WireError
from wire.framing import encode_frame, read_frame
from wire.primitives import INT32
from wire.transport import PLAINTEXT, Link, Transport


class Target:
    """An open connection to one broker, for one request at a time."""

    def __init__(self, broker: Broker, link: Link) -> None:
        self.broker: Final = broker
        self._link = link

    @classmethod
    async def open(cls, broker: Broker, endpoint: Endpoint, transport: Transport, timeout_s: float) -> "Target":
        """Connect. :raises OSError: the connection is refused. :raises TimeoutError: there is no answer."""
        async with asyncio.timeout(timeout_s):
            return cls(broker, await transport.open(endpoint.host, endpoint.port))

    @property
    def is_open(self) -> bool:
        """False once the broker has closed its end."""
        return not self._link.ended()

    async def exchange(self, frame: bytes, timeout_s: float, max_bytes: int) -> bytes:
        """Send a request, and wait for its response.

        :raises OSError, WireError, TimeoutError: there is none; the connection cannot be used any more.
        """
        async with asyncio.timeout(timeout_s):
            self._link.write(encode_frame(frame))
            await self._link.drain()
            answer = await read_frame(self._link, max_bytes)
        if answer is None or answer[: INT32.size] != frame[4:8]:
            raise ConnectionAbortedError("the broker closed the connection or answered another request")
        return answer

    def close(self) -> None:
        """Drop the connection at once."""
        self._link.abort()


class Relay:
    """The relay of one client connection to the brokers."""

    def __init__(
        self,
        listener: str,
        snapshot: ClusterSnapshot,
        versions: BrokerVersions,
        limits: ServerLimits,
        turn: int,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``turn`` distributes connections over the brokers: each client connection has another value."""
        self._listener = listener
        self._snapshot = snapshot
        self._versions = versions
        self._limits = limits
        self._turn = turn
        self._transport = transport
        self._target: Target | None = None

    async def forward(self, request: Request) -> bytes:
        """Return a broker's response to this request.

        :raises HangUp: there is no target, or the target was lost and the outcome is not known.
        """
        target = await self._current(request)
        try:
            return await target.exchange(request.frame, self._limits.relay_s, self._limits.max_response_bytes)
        except (OSError, WireError, TimeoutError) as error:
            raise HangUp(Reason.TARGET_LOST, f"broker {target.broker.id}: {error!r}") from error

    def close(self) -> None:
        """Close the connection to the broker, after the client's connection."""
        if self._target is not None:
            self._target.close()

    async def _current(self, request: Request) -> Target:
        """Return the target of this connection, opened again if the broker only closed an idle connection."""
        target = self._target
        if target is None:
            self._target = await self._open_any(request)
            return self._target
        broker = self._snapshot.brokers.get(target.broker.id)
        if broker is None or broker.epoch != target.broker.epoch:
            raise HangUp(Reason.TARGET_LOST, f"broker {target.broker.id} is not live any more")
        if not self._supports(broker, request, await self._versions.known(self._listener)):
            raise HangUp(Reason.UNSUPPORTED_VERSION, f"broker {broker.id}, {request.head}")
        if not target.is_open:
            target.close()
            self._target = await self._open(broker)
            if self._target is None:
                raise HangUp(Reason.TARGET_LOST, f"broker {broker.id} accepts no connection")
            return self._target
        return target

    async def _open_any(self, request: Request) -> Target:
        """Open a connection to the first broker, from ``turn`` on, that supports this version and accepts one."""
        known = await self._versions.known(self._listener)
        able = [broker for broker in self._snapshot.brokers.values() if self._supports(broker, request, known)]
        if not able:
            raise HangUp(Reason.NO_TARGET, f"{len(known)} brokers known, none supports {request.head}")
        first = self._turn % len(able)
        for broker in able[first:] + able[:first]:
            if (target := await self._open(broker)) is not None:
                return target
        raise HangUp(Reason.NO_TARGET, f"none of {len(able)} brokers accepts a connection")

    async def _open(self, broker: Broker) -> Target | None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            return None
        try:
            return await Target.open(broker, endpoint, self._transport, self._limits.connect_s)
        except (OSError, TimeoutError):
            # A registration precedes the socket by a second or two (wire.md G-19): another broker is asked until then.
            return None

    @staticmethod
    def _supports(broker: Broker, request: Request, known: BrokerVersions.Known) -> bool:
        ranges = known.get(broker.id, {})
        return request.head.version in ranges.get(request.head.api_key, ())
