"""Who looks at writes and requests at the last moment before they leave: ports of the store and of the outbox."""

from collections.abc import Collection, Iterable
from typing import Protocol

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicImage, TopicPartition
from controllerd.core.requests import ControlRequest


class WriteGuard(Protocol):
    """Looks at writes before they leave; each method raises ``InvariantBroken`` for what must not happen."""

    def check_new_states(self, rows: Iterable[tuple[TopicPartition, LeaderAndIsr]]) -> None:
        """State znodes that are about to be created."""
        ...

    def check_states(
        self,
        rows: Iterable[tuple[TopicPartition, LeaderAndIsr]],
        *,
        by_leaders: bool = False,
        unclean: Collection[TopicPartition] = (),
    ) -> None:
        """State znodes that are about to be written over; the flags are those of ``StateStore.update_states``."""
        ...

    def check_topics(self, written: Iterable[tuple[TopicImage, TopicImage]], *, growing: Collection[str] = ()) -> None:
        """Topic znodes that are about to be written, each with what it says now, at the version of the write.

        ``growing`` is that of ``TopicStore.write_topics``.
        """
        ...

    def check_deletions(self, topics: Iterable[str]) -> None:
        """Topics that are about to be deleted with all their znodes."""
        ...


class RequestGuard(Protocol):
    """Looks at requests before they leave."""

    def check_requests(self, requests: Iterable[tuple[BrokerId, ControlRequest]]) -> None:
        """Requests that are about to be handed to the senders. :raises InvariantBroken: one must not be sent."""
        ...
