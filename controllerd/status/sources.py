"""Where the status pages get what they show: callables that the composition root wires, and their plain results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from controllerd.core.model import BrokerId
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
