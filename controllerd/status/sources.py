"""The inputs of the HTTP endpoint: callables that the composition root provides, and their plain results."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from channel_manager.sender import QueuedRequest
from controllerd.core.cluster_settings import Policy
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.replica_sizes import NO_SIZES, SizesView
from controllerd.core.resolved_settings import Resolution
from controllerd.recent import Recent
from controllerd.record.records import Record
from controllerd.slicer import Turnstile
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.metrics.meters import Meters
from controllerd.status.reads.comparison import Compare
from controllerd.views import ChannelView, SessionView, WorkerView
from events.queue import EventQueue


@dataclass(frozen=True, slots=True)
class AuditView:
    """The counters of the writer of the audit log."""

    records_written: int = 0
    records_lost: int = 0
    trouble: str | None = None
    """Why nothing can be written at the moment; None while writing works."""
    bytes_written: int = 0
    syncs: int = 0
    """How often the log was synced to the disk."""
    sync_s: float = 0.0
    """The seconds that all syncs took together."""


class ComparedPartition(NamedTuple):
    """A partition: its state before a cause, as this controller would have written it, and after; None without one."""

    cause: str
    tp: TopicPartition
    before: LeaderAndIsr | None
    would: LeaderAndIsr | None
    after: LeaderAndIsr | None
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationsView:
    """The findings of an observer."""

    looks: int
    """Images of ZooKeeper that were read."""
    torn: int
    """Images that could not be used, because brokers or the controller changed while they were read."""
    unsettled: int
    """Causes whose effect is not complete yet."""
    refusal: str | None
    """Why this instance would refuse to become the active controller; None when it would not."""
    totals: Mapping[tuple[str, str], int]
    """Partitions by cause and ruling."""
    latest: Sequence[ComparedPartition]
    """The newest comparisons, oldest first."""
    not_judged: Sequence[str]
    """The kinds of changes that are counted but not judged, because their cause does not show in ZooKeeper."""
    cannot_be_seen: Sequence[str]
    """The events that ZooKeeper does not show at all."""


class RoleMemory(Protocol):
    """Keeps an operator's decision about the role beyond restarts."""

    @property
    def why_not(self) -> str | None:
        """Why a decision cannot be kept; None when it can."""
        ...

    async def remember(self) -> None:
        """Take the role from brokers as ``when_broker_holds = takeover`` does, from now on and after each start."""
        ...


class TopicSettings(Protocol):
    """The configurations of topics, which may be some seconds old."""

    @property
    def version(self) -> int:
        """Changes when earlier results may be out of date."""
        ...

    @property
    def policy(self) -> Policy:
        """The settings of the cluster that decide about elections and deletions."""
        ...

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the overrides in ``/config/topics`` of these topics, without the topics that cannot be read."""
        ...

    def unclean_by_default(self) -> bool | None:
        """Return the cluster's ``unclean.leader.election.enable``; None where it is not known."""
        ...

    async def min_isr_by_default(self) -> int | None:
        """Return the cluster's ``min.insync.replicas``; None where it is not known."""
        ...


async def _not_measured(_partitions: Iterable[TopicPartition]) -> SizesView:
    return NO_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSources:
    """The inputs of the status server. All callables that are not awaited are cheap and do no I/O."""

    instance: str
    """The uuid of this instance, as in ``/controller``."""
    queue: EventQueue
    snapshot: Callable[[], ClusterSnapshot]
    worker: Callable[[], WorkerView]
    channels: Callable[[], Mapping[BrokerId, ChannelView]]
    session: Callable[[], SessionView]
    audit: Callable[[], AuditView]
    now_ms: Callable[[], int]
    """Wall clock, for display."""
    recent: Recent
    """The recent audit records."""
    record: Callable[[Record], None]
    """Passes a record to the audit log and to the other subscribers (``controllerd.audit.bus``)."""
    memory: RoleMemory | None = None
    """None: this instance keeps no decision."""
    observations: Callable[[], ObservationsView | None] = lambda: None
    """None: this instance is no observer."""
    pending: Callable[[BrokerId, int], Sequence[QueuedRequest]] = lambda _broker, _limit: ()
    """The first control requests to a broker that are not sent or not answered yet, up to a limit."""
    settings: TopicSettings | None = None
    """None: the configurations of topics are not known."""
    cluster_settings: Callable[[], Resolution | None] = lambda: None
    """The settings of the cluster; None for an instance that asks no broker."""
    config: Callable[[], Mapping[str, object]] = dict
    """Every key with its ``value`` and ``origin`` (``Config.effective``)."""
    replica_sizes: Callable[[], SizesView] = lambda: NO_SIZES
    """Sizes and growth of the replicas that are being reassigned or deleted; empty while there are none."""
    measure: Callable[[Iterable[TopicPartition]], Awaitable[SizesView]] = _not_measured
    """Reads the sizes of the replicas of these partitions from brokers, for a plan; takes up to some seconds."""
    compare: Compare | None = None
    """Compares the image in memory with ZooKeeper and brokers, in some seconds; None: there is no image."""
    turnstile: Turnstile = field(default_factory=Turnstile)
    """Schedules long passes for readers."""
    meters: Meters = field(default_factory=Meters)
    """The counters since the start."""
