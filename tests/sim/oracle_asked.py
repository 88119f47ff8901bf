"""What people asked the controller for, by znode and by call, as the judge remembers it."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from tests.sim.oracle_seen import Key

REASSIGNMENTS: Final = "/admin/reassign_partitions"
PREFERRED: Final = "/admin/preferred_replica_election"
MARKERS: Final = "/admin/delete_topics/"
DEBTS: Final = "/controllerd/owed_deletions/"
NEVER: Final = float("-inf")

Debt = frozenset[Key]


class Asked:
    """Kept up to date by each committed change of these znodes, and by the announcements of the story."""

    def __init__(self) -> None:
        self.entries: dict[Key, tuple[int, ...]] = {}
        """What ``/admin/reassign_partitions`` says now."""
        self.is_rubbish = False
        """It exists and cannot be understood."""
        self.targets: dict[Key, set[tuple[int, ...]]] = {}
        """Every target that was ever asked for."""
        self.cancelled: set[Key] = set()
        """Reassignments that somebody wanted cancelled at some time."""
        self.unclean: set[Key] = set()
        """Partitions for which somebody wanted an unclean election at some time."""
        self.markers: set[str] = set()
        """Topics that are to be deleted."""
        self.pending_deletions: dict[int, Debt] = {}
        """Replicas that a broker owes, as ZooKeeper has them."""
        self.has_preferred = False
        self.given_up: set[int] = set()
        """Brokers that never return, as the controller has confirmed; what waits for them must be done."""
        self._unmarked_at: dict[str, float] = {}
        self._calls: Counter[Key] = Counter()
        self._called_at: dict[Key, float] = {}
        self._written_at: dict[Key, float] = {}
        self._forgotten: dict[int, float] = {}

    # -- questions ---------------------------------------------------------------------------------------------------

    def may_be_deleted(self, topic: str, since: float) -> bool:
        """Whether somebody wanted the topic deleted at any time since then."""
        return topic in self.markers or self._unmarked_at.get(topic, NEVER) >= since

    def was_deleted(self, topic: str) -> bool:
        """Whether a request to delete the topic was ever dealt with."""
        return topic in self._unmarked_at

    def may_become(self, key: Key) -> set[tuple[int, ...]]:
        """The targets that were ever asked for."""
        return self.targets.get(key, set())

    def is_overridden(self, key: Key) -> bool:
        """Whether a call may have been carried out for this partition after its entry was written.

        That is so until the call ends, however long before the entry it was asked for the first time.
        """
        return self._calls[key] > 0 or self._called_at.get(key, NEVER) >= self._written_at.get(key, NEVER)

    def is_forgotten(self, broker: int) -> bool:
        """Whether an operator said that the broker never returns."""
        return broker in self._forgotten

    # -- announcements of the story ----------------------------------------------------------------------------------

    def reassignment(self, key: Key, target: tuple[int, ...] | None) -> None:
        """Somebody begins to call for it; None cancels. Before any answer."""
        self._calls[key] += 1
        if target is None:
            self.cancelled.add(key)
        else:
            self.targets.setdefault(key, set()).add(target)

    def answered(self, key: Key, now: float) -> None:
        """Such a call has its answer, or nobody asks any more."""
        self._calls[key] -= 1
        self._called_at[key] = now

    def forget(self, broker: int, now: float) -> None:
        """An operator says that the broker never returns; before any answer."""
        self._forgotten[broker] = now

    # -- what was committed ------------------------------------------------------------------------------------------

    @staticmethod
    def concerns(path: str) -> bool:
        """Whether the znode asks for something, or remembers what was asked."""
        return path.startswith(("/admin/", DEBTS))

    def take(self, path: str, document: Mapping[str, Any] | None, now: float, *, exists: bool) -> None:
        """The znode has this content now; None if it cannot be understood or is gone."""
        if path == REASSIGNMENTS:
            self._take_entries(document, now, exists=exists)
        elif path == PREFERRED:
            self.has_preferred = exists
        elif path.startswith(MARKERS):
            self._take_marker(path.removeprefix(MARKERS), now, exists=exists)
        elif path.startswith(DEBTS):
            self.pending_deletions[int(path.removeprefix(DEBTS))] = debt_of(document)

    def _take_entries(self, document: Mapping[str, Any] | None, now: float, *, exists: bool) -> None:
        entries = entries_of(document)
        self.is_rubbish = exists and entries is None
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
    """The wanted replicas of each partition; None if the file as a whole cannot be understood."""
    try:
        rows = document["partitions"] if document is not None else ()
        found = {(str(row["topic"]), int(row["partition"])): tuple(map(int, row["replicas"])) for row in rows}
    except (KeyError, TypeError, ValueError):
        return None
    return found if document is not None else None


def debt_of(document: Mapping[str, Any] | None) -> Debt:
    """The replicas that a broker owes."""
    topics = document.get("owed", ()) if document is not None else ()
    return frozenset((topic["topic"], number) for topic in topics for number in topic["partitions"])
