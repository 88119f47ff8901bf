"""Everything that "why" looks at, as one value: what is known at this moment, and nothing is asked of anybody."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.cluster_settings import UNCLEAN
from controllerd.core.model import BrokerId
from controllerd.core.policy import KAFKAS_DEFAULTS, Policy
from controllerd.recent import Entry
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.sources import ChannelView, SessionView, StatusSources, WorkerView

_MIN_ISR: Final = "min.insync.replicas"
_IDLE: Final = WorkerView()
_CONNECTED: Final = SessionView("connected")

TopicConfigs = Mapping[str, Mapping[str, str]]


class Unclean(NamedTuple):
    """Whether a topic may elect a leader from outside the ISR, and who says so: ``topic`` or ``cluster``."""

    is_allowed: bool
    origin: str
    awaited: tuple[BrokerId, ...] = ()
    """The brokers that have to answer before the cluster's setting can turn out to be on."""


class QueueView(NamedTuple):
    """The events that wait; ``oldest_age_s`` in seconds."""

    depth: int = 0
    oldest_age_s: float = 0.0


_EMPTY: Final = QueueView()


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What is known. Only ``snapshot`` and ``now_ms`` must be: without a daemon there is nothing else."""

    snapshot: ClusterSnapshot
    now_ms: int
    """Wall clock."""
    entries: Sequence[Entry] = ()
    """What was recorded of late, newest first."""
    channels: Mapping[BrokerId, ChannelView] = field(default_factory=lambda: MappingProxyType({}))
    """The queues of control requests; empty where this instance sends none."""
    queue: QueueView = _EMPTY
    worker: WorkerView = _IDLE
    session: SessionView = _CONNECTED
    policy: Policy = KAFKAS_DEFAULTS
    configs: TopicConfigs = field(default_factory=lambda: MappingProxyType({}))
    """What ``/config/topics/<topic>`` overrides, for the topics of which that is known; an empty one overrides
    nothing."""
    unclean_by_default: bool | None = None
    """The cluster's default of ``unclean.leader.election.enable``; None where it is not known."""
    unclean_awaits: tuple[BrokerId, ...] = ()
    """The brokers whose answers that default waits for."""
    min_isr_by_default: int | None = None
    """The cluster's default of ``min.insync.replicas``; None where it is not known."""

    def unclean(self, topic: str) -> Unclean | None:
        """Whether the topic may elect outside the ISR; None when that is not known."""
        config = self.configs.get(topic)
        if config is not None and UNCLEAN in config:
            return Unclean(config[UNCLEAN].strip().lower() == "true", "topic")
        if config is None or self.unclean_by_default is None:
            return None
        return Unclean(self.unclean_by_default, "cluster", self.unclean_awaits)

    def min_isr(self, topic: str) -> int | None:
        """``min.insync.replicas`` of the topic; None when it is not known or makes no sense."""
        config = self.configs.get(topic)
        if config is None:
            return None
        own = config.get(_MIN_ISR, "").strip()
        return int(own) if own.isdecimal() else self.min_isr_by_default


def circumstances_of(
    sources: StatusSources,
    *,
    policy: Policy = KAFKAS_DEFAULTS,
    configs: TopicConfigs | None = None,
    unclean_by_default: bool | None = None,
    min_isr_by_default: int | None = None,
) -> Circumstances:
    """What a running instance knows at this moment. ``configs`` are those of the topics that are asked about."""
    snapshot, known = sources.snapshot(), sources.cluster_settings()
    return Circumstances(
        snapshot=snapshot,
        now_ms=sources.now_ms(),
        entries=tuple(sources.recent.newest_first()),
        channels=sources.channels(),
        queue=QueueView(len(sources.queue), sources.queue.oldest_age_s()),
        worker=sources.worker(),
        session=sources.session(),
        policy=policy,
        configs=configs or {},
        unclean_by_default=unclean_by_default,
        unclean_awaits=() if known is None else known.unclean_awaits,
        min_isr_by_default=min_isr_by_default,
    )
