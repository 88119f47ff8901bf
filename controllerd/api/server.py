"""Sockets, frames and limits: one client connection after the other is served, and none can disturb the rest."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Final

import structlog

from controllerd.api.admin_calls import AdminCalls
from controllerd.api.asking import Asker
from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.calls import BrokerCalls
from controllerd.api.dispatch import Dispatcher, Session
from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.limits import Limits
from controllerd.api.listener import Listener
from controllerd.api.producer_ids import OwnProducerIds
from controllerd.api.relay import Relay
from controllerd.api.security import ANONYMOUS, AllowAll, Authorizer
from controllerd.api.stats import Ledger, ServerStats
from controllerd.core.model import Endpoint
from controllerd.ports import AuditLog
from controllerd.snapshot import ClusterSnapshot
from events.queue import EventQueue
from wire.api_codec import Request
from wire.errors import WireError
from wire.framing import frame_size, peek_request, read_frame

_SIZE_BYTES: Final = 4
_LOG = structlog.get_logger(__name__)


class KafkaServer:
    """The Kafka-protocol server of one instance. All methods belong to the event loop's thread."""

    def __init__(
        self,
        listeners: Sequence[Listener],
        queue: EventQueue,
        snapshot: ClusterSnapshot,
        node_id: int,
        *,
        audit: AuditLog,
        limits: Limits | None = None,
        authorizer: Authorizer | None = None,
    ) -> None:
        """``snapshot`` is read at each request; ``queue`` gets what brokers ask of their controller."""
        self._listeners = tuple(listeners)
        self._snapshot = snapshot
        self._limits = limits or Limits()
        self._versions = BrokerVersions(snapshot, ask_s=self._limits.connect_s)
        self._ids = OwnProducerIds(queue, node_id)
        asker = Asker(queue, snapshot, self._limits.call_s)
        calls, admin = BrokerCalls(asker, snapshot), AdminCalls(asker, snapshot)
        self._dispatcher = Dispatcher(snapshot, calls, admin, self._ids, self._versions, authorizer or AllowAll())
        self._ledger = Ledger(audit)
        self._servers: list[asyncio.Server] = []
        self._endpoints: list[Endpoint] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._turns = count()

    @property
    def advertised(self) -> tuple[Endpoint, ...]:
        """What others connect to, one per listener in their order; known once started."""
        return tuple(self._endpoints)

    def stats(self) -> ServerStats:
        """The counters now."""
        return self._ledger.copy(len(self._connections))

    async def start(self) -> None:
        """Bind every listener. :raises OSError: one of them cannot be bound; none stays open then."""
        try:
            for listener in self._listeners:
                await self._bind(listener)
        except OSError:
            await self.close()
            raise

    async def close(self) -> None:
        """Close all sockets and wait until every connection's task has ended."""
        for server in self._servers:
            server.close()
        while self._connections:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
        await self._versions.close()
        await self._ids.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    async def _bind(self, listener: Listener) -> None:
        # Served only once the real port is known: the first client could already ask for our endpoint.
        server = await asyncio.start_server(
            lambda reader, writer: self._accept(own, reader, writer), listener.host, listener.port, start_serving=False
        )
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        own = Endpoint(listener.name, listener.advertised_host or listener.host, port)
        self._endpoints.append(own)
        await server.start_serving()

    def _accept(self, own: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = _peer_name(writer)
        self._ledger.accepted += 1
        if len(self._connections) >= self._limits.max_connections:
            self._ledger.hung_up(HangUp(Reason.TOO_MANY, f"{len(self._connections)} open"), peer)
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(own, peer, reader, writer), name=f"client-{peer}")
        self._connections.add(task)
        task.add_done_callback(lambda done: self._ended(done, writer, peer))

    def _ended(self, task: asyncio.Task[None], writer: asyncio.StreamWriter, peer: str) -> None:
        """A connection is over. A defect ended only this one, and in silence: a guessed answer could end a broker."""
        self._connections.discard(task)
        writer.transport.abort()  # for a task that was cancelled before it ran; closed already for any other
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("client connection failed", peer=peer, exc_info=error)
            self._ledger.hung_up(HangUp(Reason.DEFECT, repr(error)), peer)

    async def _serve(
        self, own: Endpoint, peer: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        relay = Relay(own.listener, self._snapshot, self._versions, self._limits, next(self._turns))
        session = Session(peer, ANONYMOUS, own, relay)
        try:
            await self._converse(session, _PacedReader(reader, self._limits), writer)
        except HangUp as hang_up:
            self._ledger.hung_up(hang_up, peer)
        except WireError as error:
            self._ledger.hung_up(HangUp(Reason.MALFORMED, repr(error)), peer)
        except OSError as error:
            _LOG.debug("client connection lost", peer=peer, error=repr(error))
        finally:
            relay.close()
            await _close(writer)

    async def _converse(self, session: Session, reader: "_PacedReader", writer: asyncio.StreamWriter) -> None:
        """One request at a time, as in a broker: answers leave in the order of the requests."""
        limit = self._limits.max_first_frame_bytes
        while (frame := await reader.next_frame(limit)) is not None:
            request = Request(peek_request(frame), frame)
            pieces = await self._dispatcher.answer(request, session)
            await self._write(writer, pieces)
            self._ledger.requests[request.head.api_key] += 1
            limit = self._limits.max_frame_bytes

    async def _write(self, writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
        writer.writelines([frame_size(*pieces), *pieces])
        try:
            async with asyncio.timeout(self._limits.write_s):
                await writer.drain()
        except TimeoutError as error:
            raise HangUp(Reason.SLOW, f"an answer was not read for {self._limits.write_s} s") from error


class _PacedReader:
    """Frames from a client that may be idle between two of them, but not inside one."""

    def __init__(self, reader: asyncio.StreamReader, limits: Limits) -> None:
        self._reader = reader
        self._limits = limits

    async def next_frame(self, limit: int) -> bytes | None:
        """The next frame; None when the client is done. :raises HangUp: it keeps us waiting, or sends no frame."""
        try:
            return await read_frame(self, limit)
        except WireError as error:
            raise HangUp(Reason.FRAME, str(error)) from error

    async def readexactly(self, n: int, /) -> bytes:
        """Exactly ``n`` bytes. :raises asyncio.IncompleteReadError: the stream ended before."""
        starts_frame = n == _SIZE_BYTES
        patience = self._limits.idle_s if starts_frame else self._limits.frame_s
        try:
            async with asyncio.timeout(patience):
                return await self._reader.readexactly(n)
        except TimeoutError as error:
            reason = Reason.IDLE if starts_frame else Reason.SLOW
            raise HangUp(reason, f"nothing for {patience} s") from error


def _peer_name(writer: asyncio.StreamWriter) -> str:
    address = writer.get_extra_info("peername")
    return f"{address[0]}:{address[1]}" if address else "unknown:0"


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close; what the client has not read by now would keep the socket, so it is dropped with it."""
    if writer.transport.get_write_buffer_size():
        writer.transport.abort()
    writer.close()
    with suppress(OSError):  # how it ended was told already, if it is worth telling
        await writer.wait_closed()
