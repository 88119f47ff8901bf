"""One task per broker: its requests leave in order, one at a time, and each is repeated until it is answered.

A broker that cannot be reached is normal: it registers seconds before its socket answers, and it dies without notice.
Nothing is given up until the broker is removed, and no other broker waits for it.

**The freeze guard.** A suspended process (SIGSTOP, a virtual machine that was paused) does not notice that its session
ended and another controller was elected. When it runs again, its senders would go on in the middle of a queue, before
the event task has learned of it. Brokers that know the new epoch refuse these requests; a broker that does not know it
yet would obey. So ``reactions.may_send`` is asked before every part of a request leaves, here and between the writes to
the socket (``wire/connection.py``). It looks at a clock that goes on while the process is suspended: if more time has
passed than the session can safely have survived, or ZooKeeper is not connected, nothing leaves. What was being sent is
cut off by closing the connection, and sent again from the beginning once ZooKeeper has confirmed that the role is still
ours (``daemon/bridges.py``). A write to ZooKeeper needs no such guard, because its transaction checks the epoch.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import structlog

from channel_manager.broker_queue import BrokerQueue, deletions_of
from channel_manager.coalesce import BodyMerger
from channel_manager.observer import ChannelObserver, Exchange, Reactions
from channel_manager.removals import PendingRemovals
from channel_manager.settings import ChannelSettings
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.core.releases import Release, release_of
from controllerd.core.requests import ControlRequest, ControlResponse, UpdateMetadataRequest, api_name
from wire import control_requests
from wire.connection import KafkaConnection
from wire.errors import PeerClosed, WireError
from wire.transport import Transport
from wire.versions import VersionRange, choose_control

log = structlog.get_logger(__name__)


class NoSuchListener(WireError):
    """The registration of the broker lacks the listener that we use; it must be corrected on the broker."""


class UnusableAddress(WireError):
    """The registration of the broker names an impossible host; it must be corrected on the broker."""


@dataclass(frozen=True, slots=True)
class SenderStats:
    """The state of one broker's channel. Ages in seconds; ``in_flight_s`` is None when nothing is under way."""

    broker: BrokerId
    address: str | None
    connected: bool
    depth: int
    queued_bytes: int
    oldest_age_s: float
    in_flight: str | None
    in_flight_s: float | None
    attempts: int
    failing: bool
    last_error: str | None
    behind: bool
    sent: int
    retries: int
    bytes_sent: int
    coalesced: int
    dropped: int
    last_sent_s: float | None = None
    """How long ago the last request left; None before the first."""
    last_answered_s: float | None = None


class QueuedRequest(NamedTuple):
    """A request that waits for the broker, or for its answer. ``age_s``: since it was queued, or taken to be sent."""

    api: str
    partitions: int
    age_s: float
    attempts: int
    in_flight: bool


class Delivery:
    """A request under way: its correlation id stays the same however often it is repeated."""

    __slots__ = ("attempts", "correlation_id", "request", "since")

    def __init__(self, request: ControlRequest, correlation_id: int, since: float) -> None:
        self.request: Final = request
        self.correlation_id: Final = correlation_id
        self.since: Final = since
        self.attempts = 0


@dataclass(frozen=True, slots=True)
class SenderDependencies:
    """The collaborators that all senders of a manager share."""

    client_id: str
    listener: str
    clock: Callable[[], float]
    settings: ChannelSettings
    merger: BodyMerger
    observer: ChannelObserver
    reactions: Reactions
    transport: Transport
    encoding: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a body is encoded: one body after the other, so that the first leaves sooner."""


class BrokerSender:
    """The queue, the connection and the task of one broker."""

    def __init__(self, broker: Broker, shared: SenderDependencies) -> None:
        self.broker = broker
        self._refused_removals = PendingRemovals()
        """Removals from the broker's metadata that it refused with STALE_BROKER_EPOCH.

        The channel to its next registration sends them again.
        """
        self._shared = shared
        self._settings = shared.settings
        self._queue = BrokerQueue(shared.clock, shared.settings, shared.merger)
        self._arrived = asyncio.Event()
        self.idle: Final = asyncio.Event()
        """Set while nothing waits and nothing is under way."""
        self.idle.set()
        self.is_defect = False
        """Set for good once the task ended by an error that must not happen."""
        self._connection: KafkaConnection | None = None
        self._versions: Mapping[int, VersionRange] = {}
        self._release: Release | None = None
        self._under_way: list[Delivery] = []
        self._correlation_id = 0
        self._behind = False
        self._failing = False
        self._last_error: str | None = None
        self._sent_at: float | None = None
        self._answered_at: float | None = None
        self._sent = self._retries = self._bytes_sent = self._dropped = 0

    @property
    def endpoint(self) -> Endpoint | None:
        """Where the broker is reached; None when it has no such listener."""
        return self.broker.endpoint(self._shared.listener)

    def send(self, request: ControlRequest) -> None:
        """Append to the queue, unless the broker is so far behind that it will be brought up to date as a whole."""
        wanted = deletions_of(request) if self._behind else request
        if wanted is None:
            self._dropped += 1
            return
        self._queue.append(wanted)
        self.idle.clear()
        self._arrived.set()
        if not self._behind and self._under_way and self._queue.is_beyond_limits():
            self._fall_behind()

    def pending_removals(self) -> PendingRemovals:
        """Return what the broker has not confirmed to have removed from its metadata."""
        pending = PendingRemovals()
        pending.add_all(self._refused_removals)
        for request in (*(delivery.request for delivery in self._under_way), *self._queue):
            pending.add(request)
        return pending

    def _fall_behind(self) -> None:
        log.error("dropped queue", broker=self.broker.id, bytes=self._queue.bytes, age_s=self._queue.oldest_age_s)
        self._dropped += self._queue.drop_all_but_deletions()
        self._behind = True

    def move(self, broker: Broker) -> None:
        """Take a changed registration; if the address changed, the request under way is repeated at the new one."""
        before, self.broker = self.endpoint, broker
        if self.endpoint != before:
            self.disconnect()

    def disconnect(self) -> None:
        """Close the connection at once; what is buffered is never sent."""
        if self._connection is not None:
            self._connection.abort()

    def stop(self) -> None:
        """Stop sending at once, because the task is being cancelled; the broker counts as idle from now on."""
        self.disconnect()
        self.idle.set()

    def stats(self) -> SenderStats:
        """The state of the channel at this moment."""
        endpoint, current = self.endpoint, self._under_way[0] if self._under_way else None
        return SenderStats(
            broker=self.broker.id,
            address=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
            connected=self._connection is not None and self._connection.is_open,
            depth=len(self._queue) + len(self._under_way),
            queued_bytes=self._queue.bytes,
            oldest_age_s=self._queue.oldest_age_s,
            in_flight=None if current is None else api_name(current.request),
            in_flight_s=None if current is None else self._shared.clock() - current.since,
            attempts=0 if current is None else current.attempts,
            failing=self._failing,
            last_error=self._last_error,
            behind=self._behind,
            sent=self._sent,
            retries=self._retries,
            bytes_sent=self._bytes_sent,
            coalesced=self._queue.coalesced,
            dropped=self._dropped,
            last_sent_s=self._since(self._sent_at),
            last_answered_s=self._since(self._answered_at),
        )

    def _since(self, then: float | None) -> float | None:
        return None if then is None else self._shared.clock() - then

    def first_requests(self, limit: int) -> list[QueuedRequest]:
        """The first ``limit`` requests that are under way or wait, in order."""
        now = self._shared.clock()
        begun = [
            _queued_request(delivery.request, now - delivery.since, delivery.attempts, in_flight=at == 0)
            for at, delivery in enumerate(self._under_way[:limit])
        ]
        waiting = self._queue.first(limit - len(begun))
        return begun + [_queued_request(request, age_s, 0, in_flight=False) for request, age_s in waiting]

    async def run(self) -> None:
        """Send requests until cancelled. A defect ends this sender alone, is logged, and ends the controller's term."""
        try:
            while True:
                await self._deliver_next()
        except Exception as defect:
            log.exception("sender failed", broker=self.broker.id)
            self.is_defect = self._failing = True
            self._last_error = repr(defect)
            self._shared.reactions.defect(self.broker.id, defect)
        finally:
            if self._connection is not None:
                await self._connection.close()

    async def _deliver_next(self) -> None:
        while not self._queue:
            self._arrived.clear()
            await self._arrived.wait()
        taken = self._queue.pop()
        self._shared.observer.on_taken(self.broker.id, self._shared.clock() - taken.since)
        self._under_way = [self._begin(taken.request)]
        while self._under_way:
            if await self._attempt():
                del self._under_way[0]
                self._note_answer()
        if not self._queue:
            self.idle.set()

    def _begin(self, request: ControlRequest) -> Delivery:
        self._correlation_id += 1
        return Delivery(request, self._correlation_id, self._shared.clock())

    def _note_answer(self) -> None:
        if self._failing:
            log.info("broker answers again", broker=self.broker.id)
        self._failing = False
        if self._behind:
            self._behind = False
            self._queue.restart_age_limit()
            self._shared.reactions.caught_up(self.broker.id)

    async def _attempt(self) -> bool:
        """Take one step towards an answer to the first request under way; returns whether it is answered now."""
        if not self._shared.reactions.may_send():
            await asyncio.sleep(self._settings.backoff_s)
            return False
        try:
            if self._connection is None or not self._connection.is_open:
                await self._connect()
                return False
            return await self._exchange(self._connection)
        except (OSError, WireError) as error:
            self._note_failure(error)
            await asyncio.sleep(self._settings.backoff_s)
            return False

    async def _connect(self) -> None:
        endpoint = self.endpoint
        if endpoint is None:
            raise NoSuchListener(f"broker {self.broker.id} has no listener {self._shared.listener}")
        if self._connection is not None:
            await self._connection.close()
        self._connection = await self._open(endpoint)
        self._versions = await self._connection.api_versions()
        if self.endpoint != endpoint:
            self.disconnect()
            return
        self._describe(release_of(self._versions))

    def _describe(self, release: Release | None) -> None:
        """Report the broker's ApiVersions answer once; a connection that is opened again has the same answer."""
        if release is not None and release != self._release:
            self._release = release
            self._shared.reactions.described(self.broker, release)

    async def _open(self, endpoint: Endpoint) -> KafkaConnection:
        try:
            return await KafkaConnection.connect(
                endpoint.host,
                endpoint.port,
                self._shared.client_id,
                connect_timeout_s=self._settings.connect_timeout_s,
                request_timeout_s=self._settings.request_timeout_s,
                transport=self._shared.transport,
                may_send=self._shared.reactions.may_send,
            )
        except UnicodeError as error:  # no OSError: the resolver was never asked
            raise UnusableAddress(f"{endpoint.host} cannot be the name of a host: {error}") from error

    def _note_failure(self, error: Exception) -> None:
        """Count a failure, and log it if it is a new one: a dead broker would write ten lines a second."""
        text = str(error) or type(error).__name__
        if not self._failing or text != self._last_error:
            log.warning("request not delivered", broker=self.broker.id, error=text, kind=type(error).__name__)
        self._failing, self._last_error = True, text
        self._retries += 1
        self.disconnect()

    async def _exchange(self, connection: KafkaConnection) -> bool:
        version, delivery = self._split_for_version()
        async with self._shared.encoding:
            body = await control_requests.encode_in_turns(delivery.request, version)
        # While the body was encoded the connection may have ended, or the role may be in doubt.
        if not connection.is_open:
            raise PeerClosed("the connection ended while the request was made")
        if not self._shared.reactions.may_send():
            return False
        size = sum(map(len, body))
        delivery.attempts += 1
        self._sent_at = self._shared.clock()
        self._bytes_sent += size
        api_key, correlation_id = control_requests.api_key(delivery.request), delivery.correlation_id
        self._shared.observer.on_request(self.broker.id, delivery.request, version, correlation_id, size)
        answer = await connection.request(api_key, version, *body, correlation_id=correlation_id)
        response = await control_requests.decode_in_turns(delivery.request, version, answer)
        return await self._react(delivery, response, version, size)

    def _split_for_version(self) -> tuple[int, Delivery]:
        """Choose the version of the first request; return it with the delivery to send.

        If that version cannot carry the request in one message, its parts replace it among those under way, and the
        first part is to be sent.
        """
        first = self._under_way[0]
        api_key, topic_ids = control_requests.api_key(first.request), control_requests.has_topic_ids(first.request)
        version = choose_control(api_key, self._versions, topic_ids=topic_ids)
        parts = control_requests.split(first.request, version)
        if len(parts) > 1:
            self._under_way[0:1] = [self._begin(part) for part in parts]
        return version, self._under_way[0]

    async def _react(self, delivery: Delivery, response: ControlResponse, version: int, size: int) -> bool:
        exchange = Exchange(
            broker=self.broker.id,
            request=delivery.request,
            response=response,
            version=version,
            correlation_id=delivery.correlation_id,
            bytes_sent=size,
            attempts=delivery.attempts,
            took_s=self._shared.clock() - delivery.since,
        )
        self._answered_at = self._shared.clock()
        self._shared.observer.on_response(exchange)
        if response.error is KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            await self._hold()
            return False
        self._sent += 1
        if response.error is KafkaError.STALE_BROKER_EPOCH:
            self._refused_removals.add(delivery.request)
        if response.error is KafkaError.STALE_CONTROLLER_EPOCH:
            log.error("broker knows a higher controller epoch", broker=self.broker.id)
            self._shared.reactions.stale_epoch(self.broker.id, delivery.request.controller_epoch)
        self._shared.reactions.answered(exchange)
        return True

    async def _hold(self) -> None:
        log.error(
            "broker refuses us: grant ClusterAction to this principal, or make it a super user", broker=self.broker.id
        )
        self._failing, self._last_error = True, KafkaError.CLUSTER_AUTHORIZATION_FAILED.name
        self._retries += 1
        await asyncio.sleep(self._settings.authorization_backoff_s)


def _queued_request(request: ControlRequest, age_s: float, attempts: int, *, in_flight: bool) -> QueuedRequest:
    partitions = request.body.partitions if isinstance(request, UpdateMetadataRequest) else request.partitions
    return QueuedRequest(api_name(request), len(partitions), age_s, attempts, in_flight)
