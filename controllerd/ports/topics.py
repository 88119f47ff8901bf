"""Topic znodes, one port for each group of users: machines, handlers of topics, the load of a term."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from controllerd.core.model import TopicImage
from controllerd.ports.results import NewTopicZnodes, TopicsRead, WriteResult


class TopicReader(Protocol):
    """Reads topic znodes."""

    async def read_topic_names(self) -> frozenset[str]:
        """Read the children of ``/brokers/topics``; arms the child watch."""
        ...

    async def read_topics(self, names: Iterable[str]) -> TopicsRead:
        """Read the topic znodes of these names; arms a data watch on each."""
        ...


class TopicWriter(TopicReader, Protocol):
    """Reads topic znodes, and rewrites those that exist."""

    async def write_topics(
        self, images: Mapping[str, TopicImage], *, growing: Collection[str] = ()
    ) -> Mapping[str, WriteResult]:
        """Rewrite topic znodes, each on the condition of its ``znode_version``; unknown fields are kept. Fenced.

        ``growing``: these topics may get more partitions. A write that adds partitions to any other topic is a
        defect, and nothing is written.
        """
        ...


class TopicRemover(Protocol):
    """Deletes topics."""

    async def delete_topics(self, topics: Iterable[str]) -> Mapping[str, WriteResult]:
        """Delete topics with everything below: the topic's subtree, its configuration, its deletion marker.

        The marker is deleted last: if the controller ends in between, the next one finds it and finishes the deletion.
        A znode that does not exist is no error. Fenced. ``Written``: topic and marker are deleted.
        """
        ...


class TopicStore(TopicWriter, TopicRemover, Protocol):
    """Reads, creates, rewrites and deletes topic znodes."""

    async def create_topics(self, new: Mapping[str, NewTopicZnodes]) -> Mapping[str, WriteResult]:
        """Create topic znodes, each with its configuration in one transaction, the configuration first. Fenced.

        A configuration that an earlier topic of the name left behind is replaced. ``Conflict``: another client
        created the topic, and its configuration was not touched.
        """
        ...

    async def read_partition_folders(self, topics: Iterable[str]) -> Mapping[str, frozenset[int]]:
        """Return the partitions of these topics that ever had a state: the children of ``partitions``."""
        ...


class TopicGuard(Protocol):
    """Checks topic znodes immediately before they are written or deleted.

    Each method raises ``InvariantBroken`` for a write that must not happen.
    """

    def check_topics(self, written: Iterable[tuple[TopicImage, TopicImage]], *, growing: Collection[str] = ()) -> None:
        """Check topic znodes that are about to be rewritten: pairs of the new image and the present one.

        Both are of the version that the write demands. ``growing`` is that of ``TopicWriter.write_topics``.
        """
        ...

    def check_deletions(self, topics: Iterable[str]) -> None:
        """Check topics that are about to be deleted with all their znodes."""
        ...
