"""The Kafka-protocol server: sockets, frames and limits. No client connection can disturb another one."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from itertools import count

import structlog

from controllerd.api.admin_calls import AdminCalls
from controllerd.api.broker_calls import BrokerCalls
from controllerd.api.broker_versions import BrokerVersions
from controllerd.api.client_calls import ClientCalls
from controllerd.api.dispatch import Dispatcher
from controllerd.api.envelopes import Envelopes
from controllerd.api.event_calls import EffectWaiter, EventCaller
from controllerd.api.hang_up import HangUp, Reason, ServerCounters, ServerStats
from controllerd.api.producer_ids import OwnProducerIds
from controllerd.api.relay import Relay
from controllerd.api.scram_calls import ScramCalls
from controllerd.api.server_settings import ServerLimits, ServerListener
from controllerd.api.sessions import AllowAll, Authorizer, Session, principal_of
from controllerd.api.shared_versions import SharedVersions
from controllerd.api.topic_calls import TopicCalls
from controllerd.core.model import Endpoint
from controllerd.core.settings_book import SettingsBook, fixed_settings
from controllerd.ports.audit import AuditLog
from controllerd.snapshot import ClusterSnapshot
from events.queue import EventQueue
from wire.api_codec import Request
from wire.errors import WireError
from wire.framing import encode_frame, peek_request, read_frame
from wire.transport import PLAINTEXT, PLAINTEXT_SERVER, Acceptor, Link, Transport, TransportPeer

_LOG = structlog.get_logger(__name__)


class KafkaServer:
    """The Kafka-protocol server of one instance. All methods must be called in the event loop's thread."""

    def __init__(
        self,
        listeners: Sequence[ServerListener],
        queue: EventQueue,
        snapshot: ClusterSnapshot,
        node_id: int,
        *,
        audit: AuditLog,
        limits: ServerLimits | None = None,
        authorizer: Authorizer | None = None,
        settings: SettingsBook | None = None,
        now: Callable[[], float] = time.monotonic,
        acceptor: Acceptor = PLAINTEXT_SERVER,
        transport: Transport = PLAINTEXT,
        shared: SharedVersions | None = None,
        between_brokers: Collection[str] | None = None,
    ) -> None:
        """``snapshot`` is read at each request; ``queue`` receives the events of requests.

        ``now`` is the clock, in seconds, by which the controller counts quotas. ``acceptor`` authenticates
        clients, and ``transport`` connects to the brokers that answer relayed requests. ``shared``
        keeps the versions that they serve. ``between_brokers`` names the listeners that brokers use
        among themselves; None: any.
        """
        self._listeners = tuple(listeners)
        self._acceptor = acceptor
        self._transport = transport
        self._snapshot = snapshot
        self._limits = limits or ServerLimits()
        self._authorizer = authorizer or AllowAll()
        self._versions = BrokerVersions(snapshot, ask_s=self._limits.connect_s, transport=transport)
        self._shared = shared or SharedVersions()
        self._ids = OwnProducerIds(queue, node_id)
        asker, awaiter = EventCaller(queue, snapshot, self._limits.call_s), EffectWaiter(snapshot, self._limits)
        families = (
            BrokerCalls(asker, snapshot),
            ClientCalls(snapshot, self._ids),
            AdminCalls(asker, snapshot, awaiter),
            TopicCalls(asker, snapshot, awaiter, settings or fixed_settings(), now, transport),
            ScramCalls(asker),
        )
        envelopes = Envelopes(snapshot, between_brokers)
        self._dispatcher = Dispatcher(families, envelopes, self._versions, self._shared)
        self._counters = ServerCounters(audit)
        self._servers: list[asyncio.Server] = []
        self._endpoints: list[Endpoint] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._idle: dict[Link, TransportPeer] = {}
        """Connections whose clients send nothing, the longest idle first."""
        self._turns = count()

    @property
    def advertised(self) -> tuple[Endpoint, ...]:
        """Return the advertised endpoint of each listener, in their order; known once started."""
        return tuple(self._endpoints)

    @property
    def bound(self) -> tuple[tuple[str, int], ...]:
        """Return host and port of each bound socket, one per listener in their order; known once started."""
        return tuple(server.sockets[0].getsockname()[:2] for server in self._servers)

    def stats(self) -> ServerStats:
        """Return the current counters."""
        return self._counters.copy(len(self._connections))

    async def start(self) -> None:
        """Bind every listener. :raises OSError: a listener cannot be bound; none stays open then.

        The cluster id must be in the snapshot.
        """
        await self._shared.recall(self._snapshot.cluster_id)
        try:
            for listener in self._listeners:
                await self._bind(listener)
        except OSError:
            await self.close()
            raise
        for (host, port), own in zip(self.bound, self._endpoints, strict=True):
            advertised = f"{own.host}:{own.port}"
            _LOG.info("opened listener", listener=own.listener, bound=f"{host}:{port}", advertised=advertised)

    async def close(self) -> None:
        """Close all sockets and wait until every connection's task has ended."""
        for server in self._servers:
            server.close()
        while self._connections:
            for task in self._connections:
                task.cancel()
            await asyncio.gather(*self._connections, return_exceptions=True)
        await self._versions.close()
        await self._shared.close()
        await self._ids.close()
        for server in self._servers:
            await server.wait_closed()
        self._servers.clear()

    async def _bind(self, listener: ServerListener) -> None:
        # Clients are served when the real port is known: the first client may request our endpoint.
        server = await self._acceptor.listen(
            listener.host, listener.port, lambda link, peer: self._accept(own, link, peer)
        )
        self._servers.append(server)
        port = server.sockets[0].getsockname()[1]
        own = Endpoint(listener.name, listener.advertised_host or listener.host, listener.advertised_port or port)
        self._endpoints.append(own)
        await server.start_serving()

    def _accept(self, own: Endpoint, link: Link, peer: TransportPeer) -> None:
        self._counters.accepted += 1
        if len(self._connections) >= self._limits.max_connections and not self._make_room():
            self._hang_up_for_room(link, peer)
            return
        task = asyncio.create_task(self._serve(own, link, peer), name=f"client-{peer.address}")
        self._connections.add(task)
        task.add_done_callback(lambda done: self._ended(done, link, peer))

    def _make_room(self) -> bool:
        """Close the connection that was idle for the longest time, if there is one.

        Clients may keep connections for minutes; brokers that must send an ISR change to their controller must not
        wait.
        """
        for link, peer in self._idle.items():
            del self._idle[link]
            self._hang_up_for_room(link, peer)
            return True
        return False

    def _hang_up_for_room(self, link: Link, peer: TransportPeer) -> None:
        self._counters.hung_up(HangUp(Reason.TOO_MANY, f"{len(self._connections)} open"), peer.address)
        link.abort()

    def _ended(self, task: asyncio.Task[None], link: Link, peer: TransportPeer) -> None:
        """Note the end of a connection. A defect closes it without a response: a wrong one could end a broker."""
        self._connections.discard(task)
        link.abort()  # needed if the task was cancelled before it ran
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("client connection failed", peer=peer.address, exc_info=error)
            self._counters.hung_up(HangUp(Reason.DEFECT, repr(error)), peer.address)

    async def _serve(self, own: Endpoint, link: Link, peer: TransportPeer) -> None:
        turn = next(self._turns)
        relay = Relay(own.listener, self._snapshot, self._versions, self._limits, turn, self._transport)
        session = Session(peer.address, principal_of(peer.identity), own, relay, self._authorizer)
        try:
            await self._serve_requests(session, _FrameReader(link, peer, self._limits, self._idle), link)
        except HangUp as hang_up:
            self._counters.hung_up(hang_up, peer.address)
        except WireError as error:
            self._counters.hung_up(HangUp(Reason.MALFORMED, repr(error)), peer.address)
        except OSError as error:
            _LOG.debug("lost client connection", peer=peer.address, error=repr(error))
        finally:
            relay.close()
            link.abort()  # unread bytes would keep the socket open, so they are dropped
            await link.wait_closed()

    async def _serve_requests(self, session: Session, reader: "_FrameReader", link: Link) -> None:
        """Serve one request at a time, as a broker does: responses have the order of the requests."""
        limit = self._limits.max_first_frame_bytes
        while (frame := await reader.next_frame(limit)) is not None:
            request = Request(peek_request(frame), frame)
            answered = await self._dispatcher.answer(request, session)
            await self._write(link, answered.pieces)
            self._counters.requests[request.head.api_key] += 1
            limit = self._limits.max_frame_bytes
            if answered.mute_ms > 0:  # enforce the throttle time, which the client may ignore (KIP-219)
                await asyncio.sleep(min(answered.mute_ms / 1000, self._limits.idle_s))

    async def _write(self, link: Link, pieces: list[bytes]) -> None:
        link.write(encode_frame(*pieces))
        try:
            async with asyncio.timeout(self._limits.write_s):
                await link.drain()
        except TimeoutError as error:
            raise HangUp(Reason.SLOW, f"an answer was not read for {self._limits.write_s} s") from error


class _FrameReader:
    """Read frames from a client, which may be idle between two frames, but not inside one."""

    def __init__(self, link: Link, peer: TransportPeer, limits: ServerLimits, idle: dict[Link, TransportPeer]) -> None:
        """``idle`` holds the link while its client sends nothing."""
        self._link = link
        self._peer = peer
        self._limits = limits
        self._idle = idle
        self._is_between_frames = True

    async def next_frame(self, limit: int) -> bytes | None:
        """Return the next frame; None at the end. :raises HangUp: the client is too slow, or sends no frame."""
        self._is_between_frames = True
        try:
            return await read_frame(self, limit)
        except WireError as error:
            raise HangUp(Reason.FRAME, str(error)) from error

    async def readexactly(self, n: int, /) -> bytes:
        """Return exactly ``n`` bytes. :raises asyncio.IncompleteReadError: the stream ended before.

        The first read of a frame is that of its size, during which the client may be idle.
        """
        starts_frame, self._is_between_frames = self._is_between_frames, False
        patience = self._limits.idle_s if starts_frame else self._limits.frame_s
        if starts_frame:
            self._idle[self._link] = self._peer
        try:
            async with asyncio.timeout(patience):
                return await self._link.readexactly(n)
        except TimeoutError as error:
            reason = Reason.IDLE if starts_frame else Reason.SLOW
            raise HangUp(reason, f"nothing for {patience} s") from error
        finally:
            self._idle.pop(self._link, None)
