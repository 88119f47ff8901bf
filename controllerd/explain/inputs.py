"""The inputs of an explanation, and the question that is asked of them. Pure: no process is asked for anything."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.cluster_settings import KAFKAS_DEFAULTS, UNCLEAN, Policy
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.explain.answers import clock, span
from controllerd.explain.history import History, PartitionHistory, Steps, read_history
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import DeletionRecord
from controllerd.views import (
    ChannelView,
    ClusterView,
    PartitionView,
    QueueView,
    Role,
    SessionView,
    WorkerView,
)

_MIN_ISR: Final = "min.insync.replicas"
_IDLE: Final = WorkerView()
_EMPTY: Final = QueueView()
_CONNECTED: Final = SessionView("connected")

TopicConfigs = Mapping[str, Mapping[str, str]]


class UncleanSetting(NamedTuple):
    """Whether a topic may elect a leader from outside the ISR, and whose setting says so: ``topic`` or ``cluster``."""

    is_allowed: bool
    origin: str
    awaited: tuple[BrokerId, ...] = ()
    """The brokers that have to answer before the cluster's setting can turn out to be on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationInputs:
    """Views and recent records at one moment; without a daemon there is only ``snapshot`` and ``now_ms``."""

    snapshot: ClusterView
    now_ms: int
    """Wall clock."""
    entries: Sequence[RecentRecord] = ()
    """The recent records, newest first."""
    channels: Mapping[BrokerId, ChannelView] = field(default_factory=lambda: MappingProxyType({}))
    """The queues of control requests; empty where this instance sends none."""
    queue: QueueView = _EMPTY
    worker: WorkerView = _IDLE
    session: SessionView = _CONNECTED
    policy: Policy = KAFKAS_DEFAULTS
    configs: TopicConfigs = field(default_factory=lambda: MappingProxyType({}))
    """Overrides of ``/config/topics/<topic>``, for the topics of which they are known; an empty mapping overrides
    nothing."""
    unclean_by_default: bool | None = None
    """The cluster's default of ``unclean.leader.election.enable``; None where it is not known."""
    unclean_awaits: tuple[BrokerId, ...] = ()
    """The brokers whose answers that default waits for."""
    min_isr_by_default: int | None = None
    """The cluster's default of ``min.insync.replicas``; None where it is not known."""

    def unclean(self, topic: str) -> UncleanSetting | None:
        """Return whether the topic may elect outside the ISR; None when that is not known."""
        config = self.configs.get(topic)
        if config is not None and UNCLEAN in config:
            return UncleanSetting(config[UNCLEAN].strip().lower() == "true", "topic")
        if config is None or self.unclean_by_default is None:
            return None
        return UncleanSetting(self.unclean_by_default, "cluster", self.unclean_awaits)

    def min_isr(self, topic: str) -> int | None:
        """Return ``min.insync.replicas`` of the topic; None when it is not known or not a number."""
        config = self.configs.get(topic)
        if config is None:
            return None
        own = config.get(_MIN_ISR, "").strip()
        return int(own) if own.isdecimal() else self.min_isr_by_default

    def settings_of(self, topic: str) -> list[str]:
        """Return the settings that the facts of an answer name."""
        minimum, unclean = self.min_isr(topic), self.unclean(topic)
        said = f"{'enabled' if unclean.is_allowed else 'disabled'} ({unclean.origin})" if unclean else "not known here"
        return [*([] if minimum is None else [f"min.insync.replicas {minimum}"]), f"unclean election: {said}"]


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs, with the recent records sorted once for all that one question needs."""

    inputs: ExplanationInputs
    history: History

    @property
    def snapshot(self) -> ClusterView:
        """The cluster."""
        return self.inputs.snapshot

    @property
    def is_watching(self) -> bool:
        """Whether this instance only observes: it knows what ZooKeeper shows, and not what the controller decided."""
        return self.snapshot.role is Role.OBSERVER

    def deletion_asked_for(self, topic: str) -> RecentRecord | None:
        """When the deletion of a topic was asked for; None when that is not remembered."""
        for entry, record in self.history.of(DeletionRecord):
            if ("queued", topic) in zip(record.changes, record.topics, strict=True):
                return entry
        return None

    def clock(self, at_ms: int) -> str:
        """A time as ``10:02:11Z``."""
        return clock(at_ms, self.inputs.now_ms)

    def at(self, entry: RecentRecord) -> str:
        """When a record was written, and for which event: ``10:02:11Z (event 88121 BrokerChange)``."""
        event = f" (event {entry.event} {entry.event_name})" if entry.event else ""
        return f"{self.clock(entry.at_ms)}{event}"

    def lasting(self, since: RecentRecord | None) -> str:
        """`` for 4m12s (since 10:02:11Z, event 88121 BrokerChange)``; empty when the beginning is not remembered."""
        if since is None:
            return ""
        event = f", event {since.event} {since.event_name}" if since.event else ""
        age = span((self.inputs.now_ms - since.at_ms) / 1000)
        return f" for {age} (since {self.clock(since.at_ms)}{event})"


@dataclass(frozen=True, slots=True)
class PartitionQuestion:
    """A question about one partition."""

    question: Question
    tp: TopicPartition
    view: PartitionView
    history: PartitionHistory = field(default_factory=PartitionHistory)

    @property
    def replicas(self) -> tuple[BrokerId, ...]:
        """The assigned replicas, the preferred one first."""
        return self.view.assignment.replicas

    @property
    def leader(self) -> BrokerId | None:
        """The leader; -1 without one. None without a state znode."""
        return None if self.view.leadership is None else BrokerId(self.view.leadership.leader)

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync replicas."""
        return self.view.isr

    @property
    def min_isr(self) -> int | None:
        """``min.insync.replicas`` of the topic; None when it is not known."""
        return self.question.inputs.min_isr(self.tp.topic)

    @property
    def decided(self) -> RecentRecord | None:
        """When the leadership changed last; None when that is not remembered."""
        return next((each.entry for each in self.history.leaderships if not each.is_loaded), None)

    def elect(self, how: str) -> str:
        """The command that asks for an election."""
        return f"controllerctl elect {how} --topic {self.tp.topic} --partition {self.tp.partition}"


def ask(inputs: ExplanationInputs) -> Steps[Question]:
    """Sort the recent records, in steps, for one question."""
    return Question(inputs, (yield from read_history(inputs.entries)))
