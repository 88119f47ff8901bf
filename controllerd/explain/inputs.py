"""The inputs of an explanation, and the question that it answers. Pure: nothing is read from another process."""

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

TopicOverrides = Mapping[str, Mapping[str, str]]


class UncleanSetting(NamedTuple):
    """Whether a topic may elect a leader from outside the ISR, and where that is set: ``topic`` or ``cluster``."""

    is_allowed: bool
    origin: str
    awaited: tuple[BrokerId, ...] = ()
    """The brokers whose answers are needed before the cluster's setting can be considered enabled."""


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
    configs: TopicOverrides = field(default_factory=lambda: MappingProxyType({}))
    """The content of ``/config/topics/<topic>`` for each topic whose configuration is known; it may be empty."""
    unclean_by_default: bool | None = None
    """The cluster's default of ``unclean.leader.election.enable``; None where it is not known."""
    unclean_awaits: tuple[BrokerId, ...] = ()
    """The brokers whose answers are needed before that default is known."""
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
        """Return the settings of a topic, as the facts of an answer show them."""
        minimum, unclean = self.min_isr(topic), self.unclean(topic)
        text = f"{'enabled' if unclean.is_allowed else 'disabled'} ({unclean.origin})" if unclean else "not known here"
        return [*([] if minimum is None else [f"min.insync.replicas {minimum}"]), f"unclean election: {text}"]


@dataclass(frozen=True, slots=True)
class Question:
    """The inputs of one explanation, and the recent records sorted by kind."""

    inputs: ExplanationInputs
    history: History

    @property
    def snapshot(self) -> ClusterView:
        """The cluster."""
        return self.inputs.snapshot

    @property
    def is_observing(self) -> bool:
        """Whether this instance is an observer: it reads ZooKeeper, and does not know the controller's decisions."""
        return self.snapshot.role is Role.OBSERVER

    def deletion_request(self, topic: str) -> RecentRecord | None:
        """The record of the request to delete a topic; None if it is not among the recent records."""
        for entry, record in self.history.of(DeletionRecord):
            if ("queued", topic) in zip(record.changes, record.topics, strict=True):
                return entry
        return None

    def clock(self, at_ms: int) -> str:
        """A time as ``10:02:11Z``."""
        return clock(at_ms, self.inputs.now_ms)

    def at(self, entry: RecentRecord) -> str:
        """The time and the event of a record: ``10:02:11Z (event 88121 BrokerChange)``."""
        event = f" (event {entry.event} {entry.event_name})" if entry.event else ""
        return f"{self.clock(entry.at_ms)}{event}"

    def duration_text(self, since: RecentRecord | None) -> str:
        """`` for 4m12s (since 10:02:11Z, event 88121 BrokerChange)``; empty if the start is unknown."""
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
    def leader(self) -> BrokerId:
        """The leader; -1 without a leader or a state znode."""
        return self.view.leader

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """The in-sync replicas."""
        return self.view.isr

    @property
    def min_isr(self) -> int | None:
        """``min.insync.replicas`` of the topic; None when it is not known."""
        return self.question.inputs.min_isr(self.tp.topic)

    @property
    def last_leadership_change(self) -> RecentRecord | None:
        """The record of the last change of leadership; None if it is not among the recent records."""
        return next((each.entry for each in self.history.leaderships if not each.is_loaded), None)

    def elect_command(self, kind: str) -> str:
        """The command that requests an election: ``preferred`` or ``unclean``."""
        return f"controllerctl elect {kind} --topic {self.tp.topic} --partition {self.tp.partition}"


def prepare_question(inputs: ExplanationInputs) -> Steps[Question]:
    """Prepare a question: sort the recent records by kind, in steps."""
    return Question(inputs, (yield from read_history(inputs.entries)))
