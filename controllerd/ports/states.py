"""Partition state znodes: leader, ISR and their epochs."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from controllerd.core.model import LeaderAndIsr, TopicPartition
from controllerd.ports.results import StatesRead, WriteResult


class StateReader(Protocol):
    """Reads partition state znodes."""

    async def read_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """Read the state znodes of these partitions. Sets no watch.

        :raises ControllerMoved: a later controller wrote one of them, and has the role now.
        """
        ...


class StateWatcher(StateReader, Protocol):
    """Reads partition state znodes and watches them."""

    async def watch_states(self, partitions: Iterable[TopicPartition]) -> StatesRead:
        """As ``read_states``, and arms a watch on each that exists: ``PartitionReassignmentIsrChange`` when it changes.

        For brokers below 2.7-IV2, whose leaders write their ISR themselves.
        """
        ...


class StateUpdater(StateReader, Protocol):
    """Reads partition state znodes, and rewrites those that exist."""

    async def update_states(
        self,
        states: Mapping[TopicPartition, LeaderAndIsr],
        *,
        by_leaders: bool = False,
        unclean: Collection[TopicPartition] = (),
    ) -> Mapping[TopicPartition, WriteResult]:
        """Write state znodes, each on the condition that its version is ``partition_epoch``. Fenced.

        ``by_leaders``: the leaders themselves requested the new ISR. ``unclean``: these partitions may get a leader
        from outside their ISR. An unclean leader of any other partition is a defect, and nothing is written.
        """
        ...


class StateStore(StateUpdater, StateWatcher, Protocol):
    """Reads, watches, creates and rewrites partition state znodes."""

    async def create_states(
        self, states: Mapping[TopicPartition, LeaderAndIsr]
    ) -> Mapping[TopicPartition, WriteResult]:
        """Create the state znodes with their parents. Fenced. ``Conflict``: it exists already."""
        ...


class StateGuard(Protocol):
    """Checks partition state znodes immediately before they are written.

    Each method raises ``InvariantBroken`` for a write that must not happen.
    """

    def check_new_states(self, rows: Iterable[tuple[TopicPartition, LeaderAndIsr]]) -> None:
        """Check state znodes that are about to be created."""
        ...

    def check_states(
        self,
        rows: Iterable[tuple[TopicPartition, LeaderAndIsr]],
        *,
        by_leaders: bool = False,
        unclean: Collection[TopicPartition] = (),
    ) -> None:
        """Check state znodes that are about to be rewritten; the flags are those of ``StateUpdater.update_states``."""
        ...
