"""What ZooKeeper refused to write for reassignments, to be tried again for as long as the term lasts.

No event tells that it would not refuse any more. Nothing of this is durable: who leads next goes through everything.
"""

from collections.abc import Iterable
from typing import Final

from controllerd.core.model import BrokerId, TopicPartition

FIRST_RETRY_S: Final = 30.0
LAST_RETRY_S: Final = 600.0
_DOUBLINGS: Final = 10


class Unfinished:
    """Partitions that stopped half-way, and entries of ``/admin/reassign_partitions`` that are over and still there."""

    def __init__(self) -> None:
        self.entries: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        self._partitions: set[TopicPartition] = set()
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._partitions or self.entries)

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        """A step of these failed."""
        self._partitions.update(partitions)

    def take(self) -> list[TopicPartition]:
        """The partitions that are tried again now, in order; whatever fails is noted anew."""
        self._tries += 1
        taken, self._partitions = sorted(self._partitions), set()
        return taken

    def pause_s(self) -> float | None:
        """Seconds until the next try, twice as many as before the last one; None when nothing is left to do."""
        if not self:
            self._tries = 0
            return None
        return min(FIRST_RETRY_S * (1 << min(self._tries, _DOUBLINGS)), LAST_RETRY_S)

    def forget(self) -> None:
        """A term begins."""
        self.entries.clear()
        self._partitions.clear()
        self._tries = 0
