"""The collaborators that the parts of the reassigner share, and the work that ZooKeeper refused."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports.admin import ReassignmentRequestStore
from controllerd.ports.audit import AuditLog
from controllerd.ports.states import StateStore
from controllerd.ports.topics import TopicWriter
from controllerd.slicer import Slicer

FIRST_RETRY_S: Final = 30.0
LAST_RETRY_S: Final = 600.0
_DOUBLINGS: Final = 10


class Unfinished:
    """Partitions whose reassignment stopped half-way, and entries of ``/admin/reassign_partitions`` still to remove.

    Both are tried again for as long as the term lasts, because no event says that ZooKeeper would accept the write
    now. They are kept in memory alone: the next controller goes through all reassignments.
    """

    def __init__(self) -> None:
        self.entries: dict[TopicPartition, tuple[BrokerId, ...]] = {}
        """The entries that are over and that ZooKeeper refused to remove, each with its target."""
        self._partitions: set[TopicPartition] = set()
        self._tries = 0

    def __bool__(self) -> bool:
        return bool(self._partitions or self.entries)

    def note(self, partitions: Iterable[TopicPartition]) -> None:
        """Note partitions of which a step failed."""
        self._partitions.update(partitions)

    def take(self) -> list[TopicPartition]:
        """Return the noted partitions, in order, and forget them: the caller notes each that fails again.

        Each call doubles the next pause.
        """
        self._tries += 1
        taken, self._partitions = sorted(self._partitions), set()
        return taken

    def pause_s(self) -> float | None:
        """Seconds until the next try; None when nothing is left to do, which resets the pause to its first value."""
        if not self:
            self._tries = 0
            return None
        return min(FIRST_RETRY_S * (1 << min(self._tries, _DOUBLINGS)), LAST_RETRY_S)

    def forget(self) -> None:
        """Forget everything, at the start of a term."""
        self.entries.clear()
        self._partitions.clear()
        self._tries = 0


class ReassignmentStores(Protocol):
    """The stores that reassignments read and write."""

    @property
    def topics(self) -> TopicWriter:
        """Assignments."""
        ...

    @property
    def states(self) -> StateStore:
        """Leaders and ISRs."""
        ...

    @property
    def admin(self) -> ReassignmentRequestStore:
        """``/admin/reassign_partitions``."""
        ...


@dataclass(slots=True)
class Dependencies:
    """The collaborators of all parts of the reassigner."""

    context: ControllerContext
    store: ReassignmentStores
    outbox: Outbox
    partitions: PartitionStateMachine
    replicas: ReplicaStateMachine
    audit: AuditLog
    pending_deletions: PendingReplicaDeletions
    unfinished: Unfinished = field(default_factory=Unfinished)

    @property
    def slicer(self) -> Slicer:
        """The slicer of the event task."""
        return self.outbox.slicer
