"""The requested topic deletions: which have begun, which are refused, and the reasons why they wait.

PURE. Part of the context; every change leaves a value in the context's journal.
"""

from collections.abc import Callable

from controllerd.core.changes import DeletionChanged
from controllerd.core.model import BrokerId


class DeletionBook:
    """The requested topic deletions of this term. Other modules mostly read ``queued``."""

    def __init__(self, note: Callable[[DeletionChanged], None]) -> None:
        """``note`` is called with each change."""
        self._note = note
        self.queued: set[str] = set()
        """The topics whose deletion was requested, and which this controller will delete."""
        self.started: set[str] = set()
        """The topics whose deletion was sent to brokers; it cannot be undone."""
        self.halted: dict[str, str] = {}
        """Why a queued topic cannot be deleted at the moment."""
        self.deleting: dict[str, frozenset[BrokerId]] = {}
        """The brokers that were asked to delete their replicas of a topic and have not answered."""
        self.refused: dict[str, str] = {}
        """By topic, why a broker or ZooKeeper refused the deletion; tried again later, or when a broker starts."""
        self._refusals: dict[str, int] = {}
        """By topic, how often it was refused."""
        self.paused: str | None = None
        """Why deletions are paused, until when and by which operator, as a sentence; None while they are not."""
        self.begun_before: frozenset[str] = frozenset()
        """While deletions are paused: the topics whose deletion had begun before, perhaps under another controller."""
        self.waiting: frozenset[str] = frozenset()
        """Topics whose deletion was requested while deletions are paused: not queued, and served as any other topic."""
        self.has_cut_reassignments = False
        """Whether a topic was deleted during its reassignment, for which a request by znode may still exist."""

    def queue(self, topic: str) -> None:
        """Queue the deletion of a known topic."""
        if topic not in self.queued:
            self.queued.add(topic)
            self._note(DeletionChanged(topic, "queued"))

    def begin(self, topic: str) -> None:
        """Note that the deletion of a queued topic has begun."""
        if topic not in self.started:
            self.started.add(topic)
            self._note(DeletionChanged(topic, "started"))

    def halt(self, topic: str, reason: str) -> None:
        """Note why a queued topic has to wait. Do nothing for a topic that is not queued."""
        if topic in self.queued and self.halted.get(topic) != reason:
            self.halted[topic] = reason
            self._note(DeletionChanged(topic, "halted", reason))

    def refuse(self, topic: str, reason: str) -> None:
        """Note why a deletion was refused. Do nothing for a topic that is not queued."""
        if topic in self.queued:
            if topic not in self.refused:
                self._refusals[topic] = self._refusals.get(topic, 0) + 1
            self.refused[topic] = reason

    def fewest_refusals(self) -> int:
        """The smallest number of refusals of any refused topic; 0 if none is refused."""
        return min((self._refusals[topic] for topic in self.refused), default=0)

    def clear_refusal(self, topic: str) -> None:
        """Forget a refusal, so that the deletion is tried again."""
        self.refused.pop(topic, None)

    def resume(self, topic: str) -> None:
        """Note that the topic waits no longer."""
        if self.halted.pop(topic, None) is not None:
            self._note(DeletionChanged(topic, "resumed"))

    def forget(self, topic: str) -> None:
        """Forget a topic that is gone; the journal has ``TopicForgotten`` for it."""
        self.queued.discard(topic)
        self.waiting -= {topic}
        self.started.discard(topic)
        self.halted.pop(topic, None)
        self.deleting.pop(topic, None)
        self.refused.pop(topic, None)
        self._refusals.pop(topic, None)
