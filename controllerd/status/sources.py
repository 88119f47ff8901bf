"""Where the status pages get what they show: callables that the composition root wires, and their plain results."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.snapshot import ClusterSnapshot
from events.queue import EventQueue


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The task that drains the queue: what it handles now, and when it last showed progress."""

    event: str | None = None
    """Name of the event in work; None between events."""
    number: int | None = None
    running_s: float = 0.0
    """For how long that event has been handled."""
    since_progress_s: float = 0.0
    """Seconds since an event began, ended, or finished one of its steps."""


@dataclass(frozen=True, slots=True)
class ChannelView:
    """The queue of control requests towards one broker."""

    depth: int = 0
    oldest_age_s: float = 0.0
    """How long the request at the head waits for its answer."""
    connected: bool = True
    error: str | None = None
    """Why the last attempt failed; None once one succeeded."""


SessionStateName = Literal["connecting", "connected", "suspended", "lost", "closed"]


@dataclass(frozen=True, slots=True)
class SessionView:
    """The ZooKeeper session; ``session_id`` is None before the first one."""

    state: SessionStateName
    session_id: int | None = None
    generation: int = 0


@dataclass(frozen=True, slots=True)
class AuditView:
    """The audit log's writer."""

    records_written: int = 0
    records_lost: int = 0
    trouble: str | None = None
    """Why nothing can be written at the moment; None when all is well."""


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


def not_observing() -> ObservationsView | None:
    """What an instance that contends for the role has found."""
    return None


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
    memory: RoleMemory | None = None
    """None: nothing is remembered."""
    observations: Callable[[], ObservationsView | None] = not_observing
    """None: this instance does not observe."""
