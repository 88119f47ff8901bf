"""The fixtures of the server's tests: a small cluster in a snapshot, stub brokers, a controller task, and a client."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, get_type_hints
from uuid import UUID

from kio.static.primitive import i32Timedelta

from controllerd.api.server import KafkaServer
from controllerd.api.server_settings import ServerLimits, ServerListener
from controllerd.api.sessions import AllowAll, Authorizer
from controllerd.api.shared_versions import SharedVersions
from controllerd.core.cluster_settings import KAFKAS_DEFAULTS, Policy
from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
)
from controllerd.core.settings_book import fixed_settings
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import PartitionView, Role, TopicView
from events.base import Event
from events.queue import EventQueue
from tests.fakes.audit import RecordingAudit
from tests.fakes.listening import HOST, ListeningFake
from wire.api_codec import fill
from wire.framing import RequestHeader, encode_frame, peek_request, read_frame
from wire.kio_codec import decode_response, encode_request, encode_response, request_type, response_type
from wire.primitives import topic_id_text
from wire.transport import PLAINTEXT, PLAINTEXT_SERVER, Acceptor, Transport

NODE_ID = 2_000_000_000
TOPIC_UUID = UUID("12345678-1234-5678-1234-567812345678")
TOPIC_ID = topic_id_text(TOPIC_UUID.bytes) or ""
PATIENCE_S = 10.0
LISTENER = ServerListener("PLAINTEXT", "127.0.0.1", 0)

BROKER_RANGES: Mapping[int, tuple[int, int]] = {
    0: (0, 11),
    3: (0, 12),
    4: (0, 7),
    10: (0, 6),
    18: (0, 4),
    19: (0, 7),
    22: (0, 5),
    32: (1, 4),
    33: (0, 2),
    44: (0, 1),
    56: (0, 3),
    60: (0, 1),
}


def replicas(*ids: int) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(i) for i in ids)


def partition(number: int, leader: int, *members: int, offline: tuple[int, ...] = ()) -> PartitionView:
    state = LeaderAndIsr(BrokerId(leader), 5, replicas(*members), 3, 9)
    assignment = ReplicaAssignment(replicas(*members))
    return PartitionView(number, PartitionState.ONLINE, assignment, state, replicas(*offline))


def put_topic(snapshot: ClusterSnapshot, name: str, topic_id: str | None, *partitions: PartitionView) -> None:
    snapshot.topics[name] = TopicView(name, topic_id, partitions)
    if topic_id is not None:
        snapshot.names_by_id[topic_id] = name


def new_snapshot(role: Role = Role.ACTIVE) -> ClusterSnapshot:
    snapshot = ClusterSnapshot(NODE_ID, cluster_id="the-cluster", role=role)
    put_topic(snapshot, "orders", TOPIC_ID, partition(0, 1, 1), partition(1, 2, 2))
    return snapshot


class ApiStubBroker(ListeningFake):
    """A broker's socket that answers ApiVersions, and any other request with its own id and the request itself."""

    def __init__(self, broker: int, ranges: Mapping[int, tuple[int, int]] = BROKER_RANGES) -> None:
        super().__init__()
        self.id = broker
        self.ranges = ranges
        self.frames: list[bytes] = []
        self.is_silent = False
        """Whether the broker leaves relayed requests unanswered."""
        self.settings: Mapping[str, tuple[str | None, int]] = {}
        """Its settings, values with sources; without any, it answers DescribeConfigs like a relayed request."""
        self.is_hanging = False
        """Whether the broker leaves ApiVersions unanswered too."""
        self.endpoint = Endpoint("PLAINTEXT", HOST, 0)

    async def start(self) -> None:
        await super().start()
        self.endpoint = self.endpoint._replace(port=self.port)

    async def answer(self, frame: bytes) -> bytes | None:
        """Answer ApiVersions and DescribeConfigs; the answer to any other request names this broker."""
        head = peek_request(frame)
        if head.api_key == 18 and self.is_hanging:
            return None
        if head.api_key == 18:
            rows = [{"api_key": k, "min_version": a, "max_version": b} for k, (a, b) in self.ranges.items()]
            entity = fill(response_type(18, head.version), {"error_code": 0, "api_keys": rows})
            return encode_response(head.correlation_id, entity)
        self.frames.append(frame)
        if head.api_key == 32 and self.settings:
            return self._described(head)
        return None if self.is_silent else frame[4:8] + b"answer of %d to " % self.id + frame

    def _described(self, head: RequestHeader) -> bytes:
        """The answer to DescribeConfigs: all settings, without regard to the names in the request."""
        rows = [
            {"name": name, "value": value, "config_source": source, "synonyms": ()}
            | {"read_only": False, "is_sensitive": False}
            for name, (value, source) in self.settings.items()
        ]
        result = {"error_code": 0, "error_message": None, "resource_type": 4, "resource_name": str(self.id)}
        entity = fill(response_type(32, head.version), {"results": [{**result, "configs": rows}]})
        return encode_response(head.correlation_id, entity)


async def until(condition: Callable[[], object]) -> None:
    """Poll until a condition holds; fail the test if it does not hold in time."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            if condition():
                return
            await asyncio.sleep(0.01)


Handler = Callable[[Event], object]


@dataclass
class Cluster:
    """A running server with its snapshot, queue, audit log and brokers."""

    snapshot: ClusterSnapshot
    queue: EventQueue
    server: KafkaServer
    audit: RecordingAudit
    brokers: dict[int, ApiStubBroker] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    clients: list["Client"] = field(default_factory=list)
    handler: Handler | None = None

    async def connect(self) -> "Client":
        host, port = self.server.bound[0]
        client = Client(*await asyncio.open_connection(host, port))
        self.clients.append(client)
        return client

    async def add_broker(self, broker: int, ranges: Mapping[int, tuple[int, int]] = BROKER_RANGES) -> ApiStubBroker:
        stub = self.brokers[broker] = ApiStubBroker(broker, ranges)
        await stub.start()
        self.set_live(*self.brokers)
        return stub

    def set_live(self, *brokers: int, epoch: int = 100) -> None:
        self.snapshot.brokers = {
            BrokerId(i): Broker(BrokerId(i), epoch + i, (self.brokers[i].endpoint,)) for i in brokers
        }

    async def run(self) -> None:
        """Act as the controller: take one event after the other, and answer with the result of the test's handler."""
        while True:
            queued = await self.queue.take()
            self.events.append(queued.event)
            result = self.handler(queued.event) if self.handler is not None else None
            if isinstance(result, Exception):
                queued.fail(result)
            elif result is not NO_ANSWER:
                queued.answer(result)


NO_ANSWER = object()


@asynccontextmanager
async def running(
    snapshot: ClusterSnapshot | None = None,
    handler: Handler | None = None,
    *,
    brokers: int = 0,
    limits: ServerLimits | None = None,
    authorizer: Authorizer | None = None,
    policy: Policy = KAFKAS_DEFAULTS,
    now: Callable[[], float] = time.monotonic,
    acceptor: Acceptor = PLAINTEXT_SERVER,
    transport: Transport = PLAINTEXT,
    shared: SharedVersions | None = None,
    between_brokers: Collection[str] | None = None,
    listener: ServerListener = LISTENER,
) -> AsyncIterator[Cluster]:
    shown = snapshot or new_snapshot()
    queue = EventQueue(lambda: 0.0)
    audit = RecordingAudit()
    server = KafkaServer(
        [listener],
        queue,
        shown,
        NODE_ID,
        audit=audit,
        limits=limits,
        authorizer=authorizer or AllowAll(),
        settings=fixed_settings(policy),
        now=now,
        acceptor=acceptor,
        transport=transport,
        shared=shared,
        between_brokers=between_brokers,
    )
    await server.start()
    cluster = Cluster(shown, queue, server, audit, handler=handler)
    for broker in range(1, brokers + 1):
        await cluster.add_broker(broker)
    controller = asyncio.create_task(cluster.run())
    try:
        yield cluster
    finally:
        for client in cluster.clients:
            await client.close()
        await server.close()
        controller.cancel()
        await asyncio.gather(controller, return_exceptions=True)
        for stub in cluster.brokers.values():
            await stub.close()


class Client:
    """A client that encodes requests with kio, or sends raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._correlation_id = 100

    async def ask(self, api_key: int, version: int, **values: object) -> Any:
        """Send a request; the decoded answer."""
        self._correlation_id += 1
        await self.send(encode_request(self._correlation_id, "test", new_request(api_key, version, values)))
        answer = await self.receive()
        assert answer is not None, f"the server hung up on API {api_key} version {version}"
        correlation_id, entity = decode_response(api_key, version, answer)
        assert correlation_id == self._correlation_id
        assert encode_response(correlation_id, entity) == answer, "kio would have written other bytes"
        return entity

    async def send(self, frame: bytes) -> None:
        self.writer.write(encode_frame(frame))
        await self.writer.drain()

    async def receive(self) -> bytes | None:
        """The next frame; None when the server hung up."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await read_frame(self.reader)
        except ConnectionError:
            return None

    async def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def new_request(api_key: int, version: int, values: Mapping[str, object]) -> Any:
    """A request entity; fields that are not given get a plain value of their type."""
    kind = request_type(api_key, version)
    return fill(kind, {**_plain_values(kind), **values})


def _plain_values(kind: Any) -> dict[str, object]:
    hints = get_type_hints(kind)
    return {field.name: _plain_value(field.name, str(hints[field.name])) for field in fields(kind)}


def _plain_value(name: str, hint: str) -> object:
    if "Timedelta" in hint:
        return i32Timedelta.parse(timedelta(seconds=60))
    if "None" in hint:
        return None
    if "tuple" in hint:
        return ()
    if "bool" in hint:
        return False
    return "x1" if "str" in hint or "Name" in hint else -1 if name.startswith("producer") else 1
