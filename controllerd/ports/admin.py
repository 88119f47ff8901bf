"""Requests by znode below ``/admin``, one port for each family of handlers that serves them."""

from collections.abc import Iterable, Mapping
from typing import Protocol

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.ports.results import ElectionsRead, ReassignmentsRead, WriteResult


class DeletionRequestStore(Protocol):
    """The markers of topics that are to be deleted, ``/admin/delete_topics``."""

    async def read_topic_deletions(self) -> frozenset[str]:
        """Read the children of ``/admin/delete_topics``; arms the child watch."""
        ...

    async def create_deletion_markers(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Request the deletion of topics. Fenced; a marker that exists already counts as written."""
        ...

    async def delete_deletion_markers(self, topics: Iterable[str]) -> None:
        """Delete requests to delete topics. Fenced; a marker that does not exist is no error."""
        ...


class ReassignmentRequestStore(Protocol):
    """The request of tools to reassign partitions, ``/admin/reassign_partitions``."""

    async def read_reassignments(self) -> ReassignmentsRead | None:
        """Read ``/admin/reassign_partitions``, None if it does not exist; it is watched in either case.

        :raises BadZnode: it cannot be decoded.
        """
        ...

    async def write_reassignments(
        self, targets: Mapping[TopicPartition, tuple[BrokerId, ...]], version: int
    ) -> WriteResult:
        """Keep only these entries, or delete the znode when there are none, on the condition of its version. Fenced."""
        ...


class ElectionRequestStore(Protocol):
    """The request of tools to elect preferred leaders, ``/admin/preferred_replica_election``."""

    async def read_preferred_election(self) -> ElectionsRead | None:
        """Read ``/admin/preferred_replica_election``, None if it does not exist; it is watched in either case.

        :raises BadZnode: it cannot be decoded.
        """
        ...

    async def delete_preferred_election(self, version: int = -1) -> bool:
        """Delete ``/admin/preferred_replica_election`` if it has this version (-1: any). Fenced.

        Return whether it does not exist any more. False: it has another content by now, and must be read again.
        """
        ...


class AdminStore(DeletionRequestStore, ReassignmentRequestStore, ElectionRequestStore, Protocol):
    """All requests by znode, for the beginning of a term."""

    async def arm_admin_watches(self) -> frozenset[str]:
        """Watch the requests to reassign and to elect, and ``/config/changes``; return the requests that exist."""
        ...
