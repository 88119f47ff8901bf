"""Which topics are to be deleted, how far each deletion is, and what holds it up.

PURE. Part of the context; every change leaves a value in the context's journal.
"""

from collections.abc import Callable

from controllerd.core.changes import DeletionChanged
from controllerd.core.model import BrokerId


class DeletionBook:
    """The deletions that were asked for. ``queued`` is what the rest of the controller asks about."""

    def __init__(self, note: Callable[[DeletionChanged], None]) -> None:
        """``note`` takes the changes."""
        self._note = note
        self.queued: set[str] = set()
        """Deletion was requested and will be carried out by us."""
        self.started: set[str] = set()
        """Brokers were told that the topic is gone; there is no way back."""
        self.halted: dict[str, str] = {}
        """Why a queued topic cannot be deleted at the moment."""
        self.deleting: dict[str, frozenset[BrokerId]] = {}
        """The brokers that were told to delete their replicas of a topic and have not answered."""
        self.refused: dict[str, str] = {}
        """Who refused to delete something of a topic, and how; it is asked again later, or when a broker starts."""
        self._refusals: dict[str, int] = {}
        """How often it was of no use so far to ask."""
        self.paused: str | None = None
        """Who paused deletions, until when and why, as a sentence; None while they are not."""
        self.begun_before: frozenset[str] = frozenset()
        """While deletions are paused: what brokers were told before is gone, perhaps by an earlier controller."""
        self.waiting: frozenset[str] = frozenset()
        """Asked for while deletions are paused: not queued, so that they go on as any other topic."""
        self.has_cut_reassignments = False
        """A topic went in the middle of a reassignment; whoever asked for that may still ask."""

    def queue(self, topic: str) -> None:
        """Somebody asked for the deletion of a known topic."""
        if topic not in self.queued:
            self.queued.add(topic)
            self._note(DeletionChanged(topic, "queued"))

    def begin(self, topic: str) -> None:
        """The deletion of a queued topic begins."""
        if topic not in self.started:
            self.started.add(topic)
            self._note(DeletionChanged(topic, "started"))

    def halt(self, topic: str, reason: str) -> None:
        """A queued topic has to wait; nothing for one that is not queued."""
        if topic in self.queued and self.halted.get(topic) != reason:
            self.halted[topic] = reason
            self._note(DeletionChanged(topic, "halted", reason))

    def refuse(self, topic: str, reason: str) -> None:
        """Somebody who could delete something of the topic did not; nothing for a topic that is not queued."""
        if topic in self.queued:
            if topic not in self.refused:
                self._refusals[topic] = self._refusals.get(topic, 0) + 1
            self.refused[topic] = reason

    def fewest_refusals(self) -> int:
        """How often those were asked that refused least often; 0 when nobody refuses."""
        return min((self._refusals[topic] for topic in self.refused), default=0)

    def forgive(self, topic: str) -> None:
        """Ask again whoever refused."""
        self.refused.pop(topic, None)

    def resume(self, topic: str) -> None:
        """What held the topic up is over."""
        if self.halted.pop(topic, None) is not None:
            self._note(DeletionChanged(topic, "resumed"))

    def forget(self, topic: str) -> None:
        """The topic is gone; the journal says so by ``TopicForgotten``."""
        self.queued.discard(topic)
        self.waiting -= {topic}
        self.started.discard(topic)
        self.halted.pop(topic, None)
        self.deleting.pop(topic, None)
        self.refused.pop(topic, None)
        self._refusals.pop(topic, None)
