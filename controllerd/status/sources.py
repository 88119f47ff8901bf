"""Where the status pages get what they show: callables that the composition root wires, and their plain results."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from channel_manager.sender import Pending
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.policy import Policy
from controllerd.core.replica_sizes import NO_SIZES, SizesView
from controllerd.core.resolved_settings import Resolution
from controllerd.pace import Turnstile
from controllerd.recent import Recent
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.comparison import Compare
from controllerd.status.metrics.meters import Meters
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
    """What an instance that only watches has found so far."""

    looks: int
    torn: int
    """Pictures that could not be used, because brokers or the controller changed while each was taken."""
    unsettled: int
    """Causes whose end is waited for."""
    refusal: str | None
    """Why this instance would refuse to lead; None when it would not."""
    totals: Mapping[tuple[str, str], int]
    """Partitions by cause and ruling."""
    latest: Sequence[Compared]
    """The newest ones, oldest first."""
    not_judged: Sequence[str]
    """What is noticed, and has no cause that shows."""
    cannot_be_seen: Sequence[str]
    """What no observer of ZooKeeper can tell."""


class RoleMemory(Protocol):
    """What an operator decided about the role, kept beyond restarts."""

    @property
    def why_not(self) -> str | None:
        """Why nothing can be remembered; None if it can."""
        ...

    async def remember(self) -> None:
        """From now on, and after every start, take the role from brokers without being asked."""
        ...


class TopicSettings(Protocol):
    """What topics are configured for. What is told may be some seconds old; what cannot be read is left out."""

    @property
    def version(self) -> int:
        """Changes when what was told may have become another."""
        ...

    @property
    def policy(self) -> Policy:
        """This instance's own."""
        ...

    async def of(self, topics: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """What ``/config/topics`` overrides for these topics; nothing overridden is an empty mapping."""
        ...

    def unclean_by_default(self) -> bool | None:
        """The cluster's ``unclean.leader.election.enable``; None where that is not known."""
        ...

    async def min_isr_by_default(self) -> int | None:
        """The cluster's ``min.insync.replicas``; None where that is not known."""
        ...


def not_observing() -> ObservationsView | None:
    """What an instance that contends for the role has found."""
    return None


def nothing_waits(_broker: BrokerId, _limit: int) -> Sequence[Pending]:
    """The requests towards a broker of an instance that sends none."""
    return ()


def no_sizes() -> SizesView:
    """How large replicas are, for an instance that asks nobody."""
    return NO_SIZES


async def not_measured(_partitions: Iterable[TopicPartition]) -> SizesView:
    """The same for a plan."""
    return NO_SIZES


def not_discovering() -> Resolution | None:
    """The settings of the cluster, for an instance that asks no broker."""
    return None


def not_configured() -> Mapping[str, object]:
    """The configuration of what was put together without any."""
    return {}


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
    """What was recorded of late."""
    memory: RoleMemory | None = None
    """None: nothing is remembered."""
    observations: Callable[[], ObservationsView | None] = not_observing
    """None: this instance does not observe."""
    pending: Callable[[BrokerId, int], Sequence[Pending]] = nothing_waits
    """The first requests that wait for a broker, or for its answer; at most so many."""
    settings: TopicSettings | None = None
    """None: nothing is known of what topics are configured for."""
    cluster_settings: Callable[[], Resolution | None] = not_discovering
    """The settings of the cluster; None for an instance that asks no broker."""
    config: Callable[[], Mapping[str, object]] = not_configured
    """Every key with its ``value`` and ``origin`` (``Config.effective``)."""
    replica_sizes: Callable[[], SizesView] = no_sizes
    """How large the replicas are that move or go, and how fast they grow; empty while nothing is under way."""
    measure: Callable[[Iterable[TopicPartition]], Awaitable[SizesView]] = not_measured
    """Asks the brokers now how large the replicas of these partitions are, for a plan; takes up to some seconds."""
    compare: Compare | None = None
    """Compares the picture with ZooKeeper and brokers, which takes some seconds; None: there is nothing to compare."""
    turnstile: Turnstile = field(default_factory=Turnstile)
    """For whatever looks through very much on behalf of readers."""
    meters: Meters = field(default_factory=Meters)
    """What was counted since the start."""
