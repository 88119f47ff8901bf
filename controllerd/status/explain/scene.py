"""What the explanations share: the circumstances, what is remembered, and how they put a cause into words."""

from dataclasses import dataclass, field
from typing import Final

from controllerd.clock import iso
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.pace import Pace
from controllerd.recent import Entry
from controllerd.record.records import DeletionRecord
from controllerd.snapshot import ClusterSnapshot, PartitionView, Role
from controllerd.status.explain import words
from controllerd.status.explain.circumstances import Circumstances
from controllerd.status.explain.history import History, Story, look_back
from controllerd.status.schema.why import Cause

OK: Final = "ok"
WARNING: Final = "warning"
CRITICAL: Final = "critical"
SEVERITY_ORDER: Final = (OK, WARNING, CRITICAL)


@dataclass(frozen=True, slots=True)
class Scene:
    """One question's surroundings."""

    around: Circumstances
    history: History
    pace: Pace

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The picture."""
        return self.around.snapshot

    @property
    def is_watching(self) -> bool:
        """Whether this is only what ZooKeeper says: somebody else decides, and what does not show there is unknown."""
        return self.snapshot.role is Role.OBSERVER

    def deletion_asked_for(self, topic: str) -> Entry | None:
        """When the deletion of a topic was asked for; None when that is longer ago than what is remembered."""
        for entry, record in self.history.of(DeletionRecord):
            if ("queued", topic) in zip(record.changes, record.topics, strict=True):
                return entry
        return None

    def clock(self, at_ms: int) -> str:
        """A time as ``10:02:11Z``."""
        return words.clock(at_ms, self.around.now_ms)

    def at(self, entry: Entry) -> str:
        """When something was recorded, and in whose course: ``10:02:11Z (event 88121 BrokerChange)``."""
        event = f" (event {entry.event} {entry.event_name})" if entry.event else ""
        return f"{self.clock(entry.at_ms)}{event}"

    def age(self, at_ms: int) -> str:
        """How long ago, as ``4m12s``."""
        return words.span((self.around.now_ms - at_ms) / 1000)

    def lasting(self, since: Entry | None) -> str:
        """`` for 4m12s (since 10:02:11Z, event 88121 BrokerChange)``; empty where nobody remembers."""
        if since is None:
            return ""
        event = f", event {since.event} {since.event_name}" if since.event else ""
        return f" for {self.age(since.at_ms)} (since {self.clock(since.at_ms)}{event})"


@dataclass(slots=True)
class Verdict:
    """What becomes of a question: the condition, and whatever was found out about it, the decisive first."""

    condition: str
    severity: str
    headline: str
    since: Entry | None = None
    causes: list[Cause] = field(default_factory=list)
    next: list[str] = field(default_factory=list)

    def because(self, *causes: Cause | None) -> None:
        """Add causes that are not there yet."""
        self.causes += [cause for cause in causes if cause is not None and cause not in self.causes]

    def advise(self, *steps: str) -> None:
        """Add what to do, unless it is said already, be it with more words."""
        for step in steps:
            longer = (f"{step}:", f"{step},", f"{step} (")
            if not any(said == step or said.startswith(longer) for said in self.next):
                self.next.append(step)


def cause(code: str, sentence: str, *, broker: int | None = None, since: Entry | None = None) -> Cause:
    """One cause."""
    return Cause(code=code, sentence=sentence, broker=broker, since=iso(since.at_ms) if since else None)


async def set_scene(around: Circumstances, pace: Pace | None = None) -> Scene:
    """Look back once for everything that one question needs."""
    pace = pace or Pace()
    return Scene(around, await look_back(around.entries, pace), pace)


def quarantine_of(snapshot: ClusterSnapshot, topic: str, partition: int | None = None) -> tuple[str, str] | None:
    """The znode (path, reason) for whose sake a topic, or one of its partitions, is left alone."""
    paths = [f"/brokers/topics/{topic}"]
    if partition is not None:
        tp = TopicPartition(topic, partition)
        paths += [f"/brokers/topics/{topic}/partitions/{partition}", tp.state_path]
    return next(((path, snapshot.quarantine[path]) for path in paths if path in snapshot.quarantine), None)


@dataclass(frozen=True, slots=True)
class Subject:
    """One partition that is asked about."""

    scene: Scene
    tp: TopicPartition
    view: PartitionView
    story: Story

    @property
    def leader(self) -> int | None:
        """Who leads; -1: nobody. None without a state znode."""
        return None if self.view.leadership is None else self.view.leadership.leader

    @property
    def isr(self) -> tuple[BrokerId, ...]:
        """Who is in sync."""
        return () if self.view.leadership is None else self.view.leadership.isr

    @property
    def decided(self) -> Entry | None:
        """When its leadership changed last; None when that is longer ago than what is remembered."""
        return next((led.entry for led in self.story.led if not led.is_loaded), None)
