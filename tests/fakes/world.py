"""A whole controller over a ZooKeeper in memory: real queue, handlers, machines and store; no sockets, no threads.

Events are handled one by one (``settle``), as the loop does, until the queue is empty.
"""

import base64
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from channel_manager.batch import RequestBatch
from channel_manager.removals import removed_by
from controllerd.audit.bus import RecordBus, Subscriber
from controllerd.controller import ClusterConfigs, Controller, LocalNode, RoleState, Runtime
from controllerd.core.cluster_settings import Policy
from controllerd.core.context import ControllerContext
from controllerd.core.model import Broker, BrokerId, Endpoint, Features, PartitionState, TopicPartition
from controllerd.core.reach import PLAIN_AND_HIDDEN, Reach
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
    api_name,
)
from controllerd.core.resolved_settings import ConfiguredTopics
from controllerd.core.sanitizer import our_rack
from controllerd.core.settings_book import SettingsBook, fixed_settings
from controllerd.loop import EventLoop, WriteWatch
from controllerd.machines.assembly import build_machines
from controllerd.machines.outbox import Outbox
from controllerd.ports.audit import AuditLog
from controllerd.snapshot import ClusterSnapshot
from controllerd.zk.access import Create, Fired
from controllerd.zk.elector import Contender, ZooKeeperElector
from controllerd.zk.store import ZooKeeperStore
from events.base import Call, Event, Reply
from events.cluster import Startup
from events.queue import EventQueue
from tests.fakes.audit import RecordingAudit
from tests.fakes.zookeeper import FakeZooKeeper, Tree

NODE_ID = 2_000_000_000
INSTANCE = "5c0ffee0-0000-4000-8000-000000000001"
Json = Mapping[str, object]


class ManualClock:
    """Time that a test sets; both clocks run together."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.wall_offset = 0.0
        """Seconds by which the wall clock was set."""

    def now_ms(self) -> int:
        """Wall clock."""
        return int((self.now + self.wall_offset) * 1000)

    def monotonic(self) -> float:
        """Monotonic clock."""
        return self.now


@dataclass
class RecordedChannels:
    """Channels that keep the requests to each broker in order, and the brokers with a channel."""

    open: set[BrokerId] = field(default_factory=set)
    calls: list[tuple[str, int]] = field(default_factory=list)
    sent: list[tuple[BrokerId, ControlRequest]] = field(default_factory=list)
    dropped: list[tuple[BrokerId, ControlRequest]] = field(default_factory=list)
    removals: dict[BrokerId, dict[TopicPartition, UpdateMetadataPartition]] = field(default_factory=dict)
    """The removals from metadata that each broker has not confirmed when its channel is closed."""
    in_channel: dict[BrokerId, list[ControlRequest]] = field(default_factory=dict)
    """The requests to each broker since its channel was opened last."""
    unconfirmed: set[BrokerId] = field(default_factory=set)
    """The brokers that answer no further request."""

    def add_broker(self, broker: Broker) -> None:
        """Open a channel."""
        self.calls.append(("add", broker.id))
        if broker.id not in self.open:
            self.in_channel[broker.id] = []
        self.open.add(broker.id)

    def remove_broker(self, broker: BrokerId) -> None:
        """Close it, and keep the removals that the broker has not confirmed."""
        self.calls.append(("remove", broker))
        self.open.discard(broker)
        if broker in self.unconfirmed:
            for request in self.in_channel.pop(broker, []):
                self.removals.setdefault(broker, {}).update(removed_by(request))

    def take_removals(self, broker: BrokerId) -> dict[TopicPartition, UpdateMetadataPartition]:
        """Return and forget the removals."""
        return self.removals.pop(broker, {})

    def send(self, broker: BrokerId, request: ControlRequest) -> None:
        """Keep a request, if the broker has a channel."""
        (self.sent if broker in self.open else self.dropped).append((broker, request))
        if broker in self.open:
            self.in_channel.setdefault(broker, []).append(request)

    def shutdown(self) -> None:
        """Close all."""
        self.open.clear()

    def to(self, broker: int) -> list[ControlRequest]:
        """Return the requests to one broker, in order."""
        return [request for to, request in self.sent if to == broker]


@dataclass
class ManualTimers:
    """Timers that a test fires."""

    later: list[tuple[float, Event]] = field(default_factory=list)

    def put_later(self, delay_s: float, event: Event) -> None:
        """Keep an event; of equal events the one with the shortest delay."""
        equal = [kept for kept in self.later if kept[1] == event]
        if all(delay_s < kept_s for kept_s, _ in equal):
            self.later = [kept for kept in self.later if kept not in equal]
            self.later.append((delay_s, event))

    def fire(self, within_s: float = float("inf")) -> list[Event]:
        """Return and forget the events with a delay of at most ``within_s``."""
        fired = [event for delay_s, event in self.later if delay_s <= within_s]
        self.later = [kept for kept in self.later if kept[0] > within_s]
        return fired

    def clear(self) -> None:
        """Forget them."""
        self.later.clear()


@dataclass
class CountedMetrics:
    """Metrics as numbers."""

    events: list[str] = field(default_factory=list)
    unclean: int = 0

    def observe_event(self, state: int, event: str, queue_s: float, processing_s: float) -> None:
        """An event was handled."""
        self.events.append(event)

    def count_unclean_elections(self, elections: int) -> None:
        """Unclean leaders were decided on."""
        self.unclean += elections


@dataclass
class FixedConfigs:
    """The cluster's default of unclean elections."""

    unclean: bool = False
    dynamic: bool | None = None

    def set_unclean_by_default(self, value: bool | None) -> None:
        """The dynamic default."""
        self.dynamic = value

    def unclean_by_default(self) -> bool:
        """The default."""
        return self.unclean if self.dynamic is None else self.dynamic


class World:
    """One controller and its surroundings."""

    witnesses: ClassVar[list[Callable[["World"], None]]] = []
    """Functions that are called with each new world."""

    def __init__(
        self,
        *,
        tree: Tree | None = None,
        session_id: int = 1,
        features: Features | None = None,
        node_id: int = NODE_ID,
        takes_from_brokers: bool = False,
        instance: str = INSTANCE,
        policy: Policy | None = None,
        settings: SettingsBook | None = None,
        reach: Reach = PLAIN_AND_HIDDEN,
        audit: AuditLog | None = None,
        readers: Sequence[Subscriber] = (),
    ) -> None:
        for witness in self.witnesses:
            witness(self)
        self.policy = policy or Policy()
        self.settings = settings or fixed_settings(self.policy, features)
        self.tree = tree or Tree()
        self.zk = FakeZooKeeper(self.tree, session_id)
        self.clock, self.audit, self.channels = ManualClock(), RecordingAudit(), RecordedChannels()
        self.timers, self.metrics, self.configs = ManualTimers(), CountedMetrics(), FixedConfigs()
        configs = self.configs if settings is None else ConfiguredTopics(lambda: settings.current)
        self.queue = EventQueue(self.clock.monotonic)
        self.watch = WriteWatch()
        self.bus = RecordBus(audit or self.audit, before=[self.watch], after=readers)
        self.context = ControllerContext(self.settings.features)
        self.snapshot = ClusterSnapshot(node_id)
        self.expired = 0
        store = ZooKeeperStore(self.zk, self.bus, self.clock, self.queue.put)
        contender = Contender(node_id, instance, takes_from_brokers, reach)
        elector = ZooKeeperElector(self.zk, store.writer, contender, self.bus, self.clock)
        self.zk.on_watch = store.fired
        outbox = Outbox(self.context, self.channels, self.bus, self._new_batch)
        self.c = Controller(
            local=LocalNode(node_id, self._our_entry, reach=reach),
            context=self.context,
            store=store,
            machines=build_machines(self.context, store, outbox, self.bus, configs, self.metrics),
            outbox=outbox,
            channels=self.channels,
            queue=self.queue,
            audit=self.bus,
            snapshot=self.snapshot,
            role=RoleState(elector, elector.registrar, self._session_expired),
            configs=ClusterConfigs(configs, self.settings),
            runtime=Runtime(self.clock, self.timers, self._new_topic_id, self._draw),
        )
        self.loop = EventLoop(self.c, self.watch, self.metrics)
        self._ids = 0
        self.drawn: list[int] = []
        """The bounds of the random numbers that were drawn; each was 0."""

    def _new_batch(self, context: ControllerContext) -> RequestBatch:
        entry = self._our_entry()
        return RequestBatch(self.c.node_id, context, inter_broker_listener="PLAINTEXT", our_entry=entry)

    def _our_entry(self) -> Broker:
        endpoints = (Endpoint("PLAINTEXT", "127.0.0.1", 7),)
        return Broker(BrokerId(self.c.node_id), -1, endpoints, our_rack(self.context.brokers.values()))

    def _new_topic_id(self) -> str:
        self._ids += 1
        return topic_id_of(f"new {self._ids}")

    def _draw(self, below: int) -> int:
        self.drawn.append(below)
        return 0

    def _session_expired(self) -> None:
        self.expired += 1

    # -- driving -----------------------------------------------------------------------------------------------------

    async def start(self) -> "World":
        """Take part in the election and handle all events that follow."""
        self.queue.put(Startup())
        return await self.settle()

    async def settle(self) -> "World":
        """Handle events until the queue is empty."""
        while len(self.queue):
            await self.loop.handle(await self.queue.take())
        return self

    async def call(self, event: Call[Reply]) -> Reply:
        """Make a call and wait for its reply."""
        reply = self.queue.call(event)
        await self.settle()
        return await reply

    # -- the cluster -------------------------------------------------------------------------------------------------

    def register(self, broker: int, *, port: int | None = None, rack: str | None = None) -> int:
        """Register a broker; return its broker epoch."""
        path = f"/brokers/ids/{broker}"
        if "/brokers/ids" not in self.tree.nodes:
            self.tree.put("/brokers/ids")
        self.tree.outsider(Create(path, registration(broker, port or 9000 + broker, rack)))
        return self.tree.nodes[path].czxid

    def die(self, broker: int) -> None:
        """End the session of a broker."""
        self.tree.remove(f"/brokers/ids/{broker}")

    def bounce(self, broker: int) -> int:
        """Replace the registration of a broker by one of a new session; no watch fires in between."""
        watches, self.zk.on_watch = self.zk.on_watch, lambda _path, _fired: None
        self.die(broker)
        self.zk.on_watch = watches
        epoch = self.register(broker)
        self.zk.on_watch("/brokers/ids", Fired.CHILD)
        return epoch

    def put_topic(self, name: str, partitions: Mapping[int, Sequence[int]], topic_id: str | None = "") -> None:
        """Create or rewrite a topic znode; by default with an id made from its name."""
        body: dict[str, object] = {
            "version": 3,
            "partitions": {str(partition): list(replicas) for partition, replicas in partitions.items()},
            "adding_replicas": {},
            "removing_replicas": {},
        }
        if topic_id is not None:
            body["topic_id"] = topic_id or topic_id_of(name)
        self.tree.put(f"/brokers/topics/{name}", json.dumps(body).encode())

    def state(self, topic: str, partition: int = 0) -> tuple[int, int, list[int], int]:
        """(leader, leader epoch, ISR, partition epoch) of a state znode."""
        node = self.tree.nodes[f"/brokers/topics/{topic}/partitions/{partition}/state"]
        assert node.data is not None
        data = json.loads(node.data)
        return data["leader"], data["leader_epoch"], data["isr"], node.version

    # -- what was sent -----------------------------------------------------------------------------------------------

    def brief(self, broker: int) -> list[str]:
        """Return the requests to a broker, each as a short text."""
        return [in_brief(request) for request in self.channels.to(broker)]

    def forget(self) -> None:
        """Forget what was sent and recorded so far."""
        self.channels.sent.clear()
        self.channels.in_channel.clear()
        self.channels.dropped.clear()
        self.channels.calls.clear()
        self.audit.records.clear()
        self.zk.writes.clear()
        self.zk.transactions.clear()
        self.metrics.events.clear()


def topic_id_of(name: str) -> str:
    """A topic id made from a name, the same each time."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes).rstrip(b"=").decode()


def registration(broker: int, port: int, rack: str | None = None) -> bytes:
    """A registration as a 3.9 broker writes it."""
    body: dict[str, object] = {
        "version": 5,
        "host": "127.0.0.1",
        "port": port,
        "jmx_port": -1,
        "timestamp": "1",
        "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        "features": {},
    }
    if rack is not None:
        body["rack"] = rack
    return json.dumps(body).encode()


def in_brief(request: ControlRequest) -> str:
    """Return a request as a short text: the API, then each partition with its main fields."""
    return f"{api_name(request)}({'; '.join(_rows(request))})"


def _rows(request: ControlRequest) -> list[str]:
    match request:
        case LeaderAndIsrRequest():
            return [
                f"{tp} {entry.state.leader}/{entry.state.leader_epoch} {list(entry.state.isr)}"
                + (" new" if entry.is_new else "")
                for tp, entry in sorted(request.partitions.items())
            ]
        case UpdateMetadataRequest():
            return [
                f"{tp} {entry.state.leader}/{entry.state.leader_epoch} {list(entry.state.isr)}"
                + (f" offline {list(entry.offline_replicas)}" if entry.offline_replicas else "")
                for tp, entry in sorted(request.body.partitions.items())
            ]
        case StopReplicaRequest():
            return [
                f"{tp} {entry.leader_epoch}" + (" delete" if entry.delete else "")
                for tp, entry in sorted(request.partitions.items())
            ]


def tp(topic: str, partition: int = 0) -> TopicPartition:
    """A partition."""
    return TopicPartition(topic, partition)


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    """Broker ids."""
    return tuple(BrokerId(broker) for broker in brokers)


def offline_partitions(context: ControllerContext) -> int:
    """How many partitions are Offline (KafkaController.OfflinePartitionsCount), counted one by one."""
    return sum(context.record(each).state is PartitionState.OFFLINE for each in context.waiting_partitions())
