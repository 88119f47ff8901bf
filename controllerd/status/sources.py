"""The inputs of the HTTP endpoint: callables that the composition root wires, and their plain results."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from channel_manager.sender import Pending
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
    """The audit log's writer."""

    records_written: int = 0
    records_lost: int = 0
    trouble: str | None = None
    """Why nothing can be written at the moment; None when all is well."""
    bytes_written: int = 0
    syncs: int = 0
    """How often the log was forced to the disk, and ``sync_s`` the seconds that all of them took."""
    sync_s: float = 0.0


class Compared(NamedTuple):
    """One partition: before, as ours would have left it, and after; each None without a state."""

    cause: str
    tp: TopicPartition
    before: LeaderAndIsr | None
    would: LeaderAndIsr | None
    after: LeaderAndIsr | None
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationsView:
    """The findings of an instance that only watches."""

    looks: int
    torn: int
    """Images that could not be used, because brokers or the controller changed while each was read."""
    unsettled: int
    """Causes whose effect is not complete yet."""
    refusal: str | None
    """Why this instance would refuse to lead; None when it would not."""
    totals: Mapping[tuple[str, str], int]
    """Partitions by cause and ruling."""
    latest: Sequence[Compared]
    """The newest ones, oldest first."""
    not_judged: Sequence[str]
    """Changes that were noticed without a visible cause."""
    cannot_be_seen: Sequence[str]
    """Events that no observer of ZooKeeper can see."""


class RoleMemory(Protocol):
    """The decision of an operator about the role, kept beyond restarts."""

    @property
    def why_not(self) -> str | None:
        """Why no decision can be kept; None if one can."""
        ...

    async def remember(self) -> None:
        """Take the role from brokers without being asked, from now on and after every start."""
        ...


class TopicSettings(Protocol):
    """The configurations of topics, which may be some seconds old; a topic that cannot be read is left out."""

    @property
    def version(self) -> int:
        """Changes when an earlier answer may be out of date."""
        ...

    @property
    def policy(self) -> Policy:
        """The policy of this instance."""
        ...

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """Return the overrides in ``/config/topics`` of these topics; an empty mapping for a topic without any."""
        ...

    def unclean_by_default(self) -> bool | None:
        """Return the cluster's ``unclean.leader.election.enable``; None where that is not known."""
        ...

    async def min_isr_by_default(self) -> int | None:
        """Return the cluster's ``min.insync.replicas``; None where that is not known."""
        ...


async def _not_measured(_partitions: Iterable[TopicPartition]) -> SizesView:
    return NO_SIZES


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusSources:
    """Everything the status server may ask. All callables are cheap, never wait and never talk to ZooKeeper."""

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
    """Puts a record into the audit log and before its readers (``controllerd.audit.bus``)."""
    memory: RoleMemory | None = None
    """None: no decision is kept."""
    observations: Callable[[], ObservationsView | None] = lambda: None
    """None: this instance does not observe."""
    pending: Callable[[BrokerId, int], Sequence[Pending]] = lambda _broker, _limit: ()
    """The first requests that wait for a broker, or for its answer; at most so many."""
    settings: TopicSettings | None = None
    """None: the configurations of topics are not known."""
    cluster_settings: Callable[[], Resolution | None] = lambda: None
    """The settings of the cluster; None for an instance that asks no broker."""
    config: Callable[[], Mapping[str, object]] = dict
    """Every key with its ``value`` and ``origin`` (``Config.effective``)."""
    replica_sizes: Callable[[], SizesView] = lambda: NO_SIZES
    """How large the replicas are that move or go, and how fast they grow; empty while nothing is under way."""
    measure: Callable[[Iterable[TopicPartition]], Awaitable[SizesView]] = _not_measured
    """Asks the brokers now how large the replicas of these partitions are, for a plan; takes up to some seconds."""
    compare: Compare | None = None
    """Compares the image with ZooKeeper and brokers, which takes some seconds; None: there is no image."""
    turnstile: Turnstile = field(default_factory=Turnstile)
    """For long passes on behalf of readers."""
    meters: Meters = field(default_factory=Meters)
    """Counts since the start."""
