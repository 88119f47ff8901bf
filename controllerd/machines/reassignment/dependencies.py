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
    """Partitions that stopped half-way, and entries of ``/admin/reassign_partitions`` that are over and still there.

    Both are tried again for as long as the term lasts, because no event says that ZooKeeper would accept the write
    now. Nothing of this is durable: the next controller goes through all reassignments.
    """

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
        """The partitions that are tried again now, in order; a partition that fails again is noted again."""
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
