"""The requests that the controller got by znode and by call, as the judge remembers them."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tests.sim.oracle_seen import Key

REASSIGNMENTS: Final = "/admin/reassign_partitions"
PREFERRED: Final = "/admin/preferred_replica_election"
MARKERS: Final = "/admin/delete_topics/"
PENDING_DELETIONS: Final = "/controllerd/owed_deletions/"
NEVER: Final = float("-inf")

PendingReplicas = frozenset[Key]


class AdminRequests:
    """All requests, kept up to date by each committed change of these znodes and by the announcements of the story."""

    def __init__(self) -> None:
        self.entries: dict[Key, tuple[int, ...]] = {}
        """The content of ``/admin/reassign_partitions``."""
        self.is_unreadable_request = False
        """Whether the reassignment znode exists and is unreadable."""
        self.targets: dict[Key, set[tuple[int, ...]]] = {}
        """Every requested target."""
        self.cancelled: set[Key] = set()
        """Reassignments whose cancellation was ever requested."""
        self.unclean: set[Key] = set()
        """Partitions for which an unclean election was ever requested."""
        self.markers: set[str] = set()
        """Topics that are to be deleted."""
        self.pending_deletions: dict[int, PendingReplicas] = {}
        """The pending replica deletions of each broker, as ZooKeeper has them."""
        self.has_preferred = False
        self.given_up: set[int] = set()
        """Brokers that never return, as the controller has confirmed; work that waits for them must end."""
        self._unmarked_at: dict[str, float] = {}
        self._calls: Counter[Key] = Counter()
        self._called_at: dict[Key, float] = {}
        self._written_at: dict[Key, float] = {}
        self._forgotten: dict[int, float] = {}

    # -- questions ---------------------------------------------------------------------------------------------------

    def may_be_deleted(self, topic: str, since: float) -> bool:
        """Whether the deletion of the topic was requested at any time since then."""
        return topic in self.markers or self._unmarked_at.get(topic, NEVER) >= since

    def was_deleted(self, topic: str) -> bool:
        """Whether the controller ever completed a request to delete the topic."""
        return topic in self._unmarked_at

    def may_become(self, key: Key) -> set[tuple[int, ...]]:
        """Every target that was ever requested."""
        return self.targets.get(key, set())

    def is_overridden(self, key: Key) -> bool:
        """Whether a call may have been carried out for this partition after its entry was written.

        That is so until the call ends, even if the call began long before the entry.
        """
        return self._calls[key] > 0 or self._called_at.get(key, NEVER) >= self._written_at.get(key, NEVER)

    def is_forgotten(self, broker: int) -> bool:
        """Whether an operator declared that the broker never returns."""
        return broker in self._forgotten

    # -- announcements of the story ----------------------------------------------------------------------------------

    def reassignment(self, key: Key, target: tuple[int, ...] | None) -> None:
        """Note that a call for the reassignment begins; None cancels. Before any answer."""
        self._calls[key] += 1
        if target is None:
            self.cancelled.add(key)
        else:
            self.targets.setdefault(key, set()).add(target)

    def answered(self, key: Key, now: float) -> None:
        """Note that the call was answered, or is not retried any more."""
        self._calls[key] -= 1
        self._called_at[key] = now

    def forget(self, broker: int, now: float) -> None:
        """Note that an operator declares that the broker never returns; before any answer."""
        self._forgotten[broker] = now

    # -- committed transactions --------------------------------------------------------------------------------------

    @staticmethod
    def concerns(path: str) -> bool:
        """Whether the znode is a request, or remembers one."""
        return path.startswith(("/admin/", PENDING_DELETIONS))

    def take(self, path: str, document: Mapping[str, Any] | None, now: float, *, exists: bool) -> None:
        """Take the content of the znode; None if it is unreadable or gone."""
        if path == REASSIGNMENTS:
            self._take_entries(document, now, exists=exists)
        elif path == PREFERRED:
            self.has_preferred = exists
        elif path.startswith(MARKERS):
            self._take_marker(path.removeprefix(MARKERS), now, exists=exists)
        elif path.startswith(PENDING_DELETIONS):
            self.pending_deletions[int(path.removeprefix(PENDING_DELETIONS))] = pending_deletions_of(document)

    def _take_entries(self, document: Mapping[str, Any] | None, now: float, *, exists: bool) -> None:
        entries = entries_of(document)
        self.is_unreadable_request = exists and entries is None
        for key, target in (entries or {}).items():
            self.targets.setdefault(key, set()).add(target)
            if self.entries.get(key) != target:
                self._written_at[key] = now
        self.entries = entries or {}

    def _take_marker(self, topic: str, now: float, *, exists: bool) -> None:
        if exists:
            self.markers.add(topic)
        else:
            self.markers.discard(topic)
            self._unmarked_at[topic] = now


def entries_of(document: Mapping[str, Any] | None) -> dict[Key, tuple[int, ...]] | None:
    """The requested replicas of each partition; None if the document as a whole is unreadable."""
    try:
        rows = document["partitions"] if document is not None else ()
        found = {(str(row["topic"]), int(row["partition"])): tuple(map(int, row["replicas"])) for row in rows}
    except (KeyError, TypeError, ValueError):
        return None
    return found if document is not None else None


def pending_deletions_of(document: Mapping[str, Any] | None) -> PendingReplicas:
    """The pending deletions of a broker."""
    topics = document.get("owed", ()) if document is not None else ()
    return frozenset((topic["topic"], number) for topic in topics for number in topic["partitions"])
