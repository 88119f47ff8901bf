"""A controller without ZooKeeper: a real queue and snapshot, and a worker that answers takeover, resign and forget."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType

from channel_manager.sender import QueuedRequest
from controllerd.config.model import Address, HttpConfig
from controllerd.core.model import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    TopicPartition,
)
from controllerd.core.resolved_settings import Resolution
from controllerd.errors import ControllerdError, NotController
from controllerd.recent import Recent
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.reads.comparison import Compare
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, ComparedPartition, ObservationsView, StatusSources, TopicSettings
from controllerd.views import ChannelView, DeletionView, Holder, PartitionView, Role, SessionView, TopicView, WorkerView
from events.admin import ForgetBroker, Forgotten
from events.cluster import Resign, Takeover, TakeoverResult
from events.queue import EventQueue

LOOPBACK = HttpConfig(listen=Address("127.0.0.1", 0))
NODE_ID = 2_000_000_001
INSTANCE = "6c0e7a52-58c2-4b35-9a57-3f1c3a0f0b11"
NOW_MS = 1_700_000_252_000
SINCE_MS = 1_700_000_000_000
BUILT_IN = Holder(2, None, SINCE_MS)
OURSELVES = Holder(NODE_ID, INSTANCE, SINCE_MS)


def broker(broker_id: int) -> Broker:
    """A live broker with one listener."""
    return Broker(BrokerId(broker_id), 100 + broker_id, (Endpoint("PLAINTEXT", f"kafka{broker_id}", 9092),), rack="r1")


def partition(number: int, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionView:
    """A partition with this leader and ISR; Offline without a leader."""
    return PartitionView(
        number,
        PartitionState.ONLINE if leader >= 0 else PartitionState.OFFLINE,
        ReplicaAssignment(tuple(map(BrokerId, replicas))),
        LeaderAndIsr(BrokerId(leader), 4, tuple(map(BrokerId, isr)), 7, 9),
        (),
    )


def compared(verdict: str, *, cause: str = "broker died", topic: str = "orders", number: int = 0) -> ComparedPartition:
    """A partition that moved from leader 1 to 2, in ZooKeeper and in the dry run; not judged: no dry run."""
    states = [
        LeaderAndIsr(BrokerId(leader), epoch, tuple(map(BrokerId, isr)), 7, epoch)
        for leader, epoch, isr in ((1, 4, (1, 2)), (2, 5, (2,)))
    ]
    would = states[1] if verdict != "not judged" else None
    return ComparedPartition(cause, TopicPartition(topic, number), states[0], would, states[1], verdict)


@dataclass
class Memory:
    """Counts how often a decision was to be kept; ``why_not`` refuses it."""

    why_not: str | None = None
    remembered: int = 0

    async def remember(self) -> None:
        """Count."""
        self.remembered += 1


@dataclass
class FakeController:
    """State that the tests change, and the sources that serve it."""

    snapshot: ClusterSnapshot = field(default_factory=lambda: ClusterSnapshot(NODE_ID, "cluster-1"))
    worker: WorkerView = field(default_factory=WorkerView)
    session: SessionView = field(default_factory=lambda: SessionView("connected", 0x10000AB, 1))
    audit: AuditView = field(default_factory=lambda: AuditView(records_written=88))
    channels: dict[BrokerId, ChannelView] = field(default_factory=dict)
    pending: dict[BrokerId, list[QueuedRequest]] = field(default_factory=dict)
    """The control requests that are not answered yet."""
    configuration: dict[str, object] = field(default_factory=dict)
    settings: TopicSettings | None = None
    cluster_settings: Resolution | None = None
    compare: Compare | None = None
    """Compares the image in memory with ZooKeeper; None: there is no image."""
    found: ObservationsView | None = None
    """The findings of an observer; None: the instance is no observer."""
    memory: Memory = field(default_factory=Memory)
    refusal: ControllerdError | None = None
    """The error of every admin verb; None: it succeeds."""
    is_stalled: bool = False
    """Whether the worker takes nothing from the queue."""
    never_answers: bool = False
    """Whether the worker takes an event, sets ``took`` and hangs."""
    took: asyncio.Event = field(default_factory=asyncio.Event)
    reasons: list[str] = field(default_factory=list)
    """The reasons of the admin verbs that the worker handled."""
    now_s: float = 1000.0

    def __post_init__(self) -> None:
        self.queue = EventQueue(lambda: self.now_s)
        self.recent = Recent(self)
        self.lead(11) if self.snapshot.role is Role.ACTIVE else self.stand_by("broker 2 (built-in) holds the role")

    def now_ms(self) -> int:
        """The wall clock, which does not advance."""
        return NOW_MS

    def monotonic(self) -> float:
        """The monotonic clock, which tests advance."""
        return self.now_s

    def stand_by(self, reason: str) -> None:
        """Stand by, while the built-in controller of broker 2 holds the role."""
        self.snapshot.role, self.snapshot.reason, self.snapshot.holder = Role.STANDBY, reason, BUILT_IN

    def lead(self, epoch: int) -> None:
        """Become the active controller of two brokers and four partitions."""
        snapshot = self.snapshot
        snapshot.role, snapshot.reason, snapshot.holder = Role.ACTIVE, f"elected with epoch {epoch}", OURSELVES
        snapshot.controller_epoch = epoch
        snapshot.brokers = MappingProxyType({BrokerId(n): broker(n) for n in (1, 2)})
        self.channels = {BrokerId(1): ChannelView(), BrokerId(2): ChannelView(3, 1.5, connected=False, error="refused")}
        self.put_topic("orders", partition(0, 1, (1, 2, 3)), partition(1, 2, (2, 3)), partition(2, -1, (3,)))
        self.put_topic("audit", partition(0, 1, (1, 2, 3)))
        snapshot.offline_partitions = 1

    def observe(self, *compared: ComparedPartition, refusal: str | None = None) -> None:
        """Become an observer of a broker's built-in controller, with these findings."""
        self.lead(7)
        snapshot = self.snapshot
        snapshot.role, snapshot.reason, snapshot.holder = Role.OBSERVER, "watches broker 2 (built-in)", BUILT_IN
        totals = Counter((row.cause, row.verdict.partition(":")[0]) for row in compared)
        self.channels = {}
        self.found = ObservationsView(
            looks=40,
            torn=1,
            unsettled=2,
            refusal=refusal,
            totals=totals,
            latest=compared,
            not_judged=["the ISR changed", "another leader"],
            cannot_be_seen=["quotas"],
        )

    def put_topic(self, name: str, *partitions: PartitionView) -> None:
        """Publish a topic."""
        self.snapshot.topics[name] = TopicView(name, None, partitions)
        self.snapshot.version += 1

    def delete(self, topic: str, *, held_up_by: str | None = None, deleting: tuple[int, ...] = ()) -> None:
        """Add a topic deletion."""
        self.snapshot.deletions[topic] = DeletionView(held_up_by is None, held_up_by, tuple(map(BrokerId, deleting)))
        self.snapshot.version += 1

    def sources(self) -> StatusSources:
        """The sources of the server."""
        return StatusSources(
            instance=INSTANCE,
            queue=self.queue,
            snapshot=lambda: self.snapshot,
            worker=lambda: self.worker,
            channels=lambda: self.channels,
            session=lambda: self.session,
            audit=lambda: self.audit,
            now_ms=lambda: NOW_MS,
            recent=self.recent,
            record=self.recent.record,
            memory=self.memory,
            observations=lambda: self.found,
            pending=lambda broker, limit: self.pending.get(broker, [])[:limit],
            config=lambda: self.configuration,
            cluster_settings=lambda: self.cluster_settings,
            settings=self.settings,
            compare=self.compare,
        )

    async def work(self) -> None:
        """Drain the queue as the event task would."""
        while not self.is_stalled:
            queued = await self.queue.take()
            self.took.set()
            if self.never_answers:
                return
            try:
                queued.answer(self._handle(queued.event))
            except ControllerdError as error:
                queued.fail(error)

    def _handle(self, event: object) -> TakeoverResult | Forgotten | None:
        assert isinstance(event, Takeover | Resign | ForgetBroker)
        self.reasons.append(event.reason)
        if self.refusal is not None:
            raise self.refusal
        if isinstance(event, ForgetBroker):
            topics = tuple(sorted(self.snapshot.deletions))
            return Forgotten(topics, 3 * len(topics))
        if isinstance(event, Resign):
            if not self.snapshot.is_active:
                raise NotController("this instance is not the active controller")
            self.stand_by(event.reason)
            return None
        before, held_by = self.snapshot.controller_epoch, str(self.snapshot.holder)
        self.lead(before + 1)
        return TakeoverResult(before, before + 1, held_by)


@asynccontextmanager
async def serving(controller: FakeController, *, admin_timeout_s: float = 5.0) -> AsyncIterator[str]:
    """The address of the real server on a free port, with a running worker."""
    server = StatusServer(controller.sources(), LOOPBACK, admin_timeout_s=admin_timeout_s)
    port = await server.start()
    async with asyncio.TaskGroup() as tasks:
        worker = tasks.create_task(controller.work())
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            worker.cancel()
            await server.close()
