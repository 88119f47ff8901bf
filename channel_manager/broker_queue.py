"""The queue of one broker, in order: merged while the broker is behind, dropped when it is too far behind."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter
from typing import Final

from channel_manager.coalesce import BodyMerger
from channel_manager.removals import PendingRemovals, only_removals
from channel_manager.settings import ChannelSettings, estimated_bytes
from controllerd.core.requests import ControlRequest, StopReplicaRequest, UpdateMetadataRequest
from wire.stop_replica import only

_since: Final = attrgetter("since")


@dataclass(slots=True)
class QueuedRequest:
    """A request in the queue, since when (monotonic seconds), and its estimated bytes."""

    request: ControlRequest
    since: float
    size: int


class BrokerQueue:
    """A FIFO whose last request may be merged with the next one."""

    def __init__(self, clock: Callable[[], float], settings: ChannelSettings, merger: BodyMerger) -> None:
        self._clock = clock
        self._settings = settings
        self._merger = merger
        self._items: deque[QueuedRequest] = deque()
        self.bytes = 0
        """Estimated bytes of all requests that wait."""
        self.coalesced = 0
        """How many requests were merged into the one before them."""
        self._age_counts_from = clock()
        """For ``max_queue_age_s``, no request counts as older than this time (monotonic seconds)."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ControlRequest]:
        return (item.request for item in self._items)

    def first(self, limit: int) -> list[tuple[ControlRequest, float]]:
        """The next ``limit`` requests, each with how long it has waited, in seconds."""
        now = self._clock()
        return [(item.request, now - item.since) for item in islice(self._items, limit)]

    @property
    def oldest_age_s(self) -> float:
        """How long the next request has waited; 0 when nothing waits."""
        return self._clock() - self._items[0].since if self._items else 0.0

    def append(self, request: ControlRequest) -> None:
        """Add at the end. While the broker is behind, an UpdateMetadata may be merged into the one before it.

        ``coalesce`` defines which requests may be merged, and why a deletion and the topic created
        anew may not.
        """
        tail = self._items[-1] if self._items else None
        merged = None if tail is None else self._merged(tail, request)
        if tail is None or merged is None:
            item = QueuedRequest(request, self._clock(), estimated_bytes(request))
            self._items.append(item)
            self.bytes += item.size
            return
        self.coalesced += 1
        self.bytes -= tail.size
        tail.request, tail.size = merged, estimated_bytes(merged)
        self.bytes += tail.size

    def _merged(self, tail: QueuedRequest, newer: ControlRequest) -> UpdateMetadataRequest | None:
        older = tail.request
        if not isinstance(older, UpdateMetadataRequest) or not isinstance(newer, UpdateMetadataRequest):
            return None
        return self._merger.merge(older, newer) if self._is_behind(tail) else None

    def _is_behind(self, tail: QueuedRequest) -> bool:
        settings = self._settings
        waited = self._clock() - tail.since
        return settings.coalesce and (waited > settings.coalesce_age_s or len(self._items) >= settings.coalesce_depth)

    def pop(self) -> QueuedRequest:
        """Remove and return the oldest request; nothing is merged into it any more."""
        item = self._items.popleft()
        self.bytes -= item.size
        return item

    def is_beyond_limits(self) -> bool:
        """Whether the queue is larger or older than a queue may be."""
        settings = self._settings
        if self.bytes > settings.max_queue_bytes:
            return True
        now = self._clock()
        return min(self.oldest_age_s, now - self._age_counts_from) > settings.max_queue_age_s

    def drop_all_but_deletions(self) -> int:
        """Drop all requests whose content the broker gets anew when it is brought up to date; returns their number.

        Deletions of replicas, and removals of partitions from the broker's metadata, are kept: no later request would
        repeat them. The removals become one request, since no request is left that must stay between them.
        """
        before = self._items
        kept = [*_removals(before), *_deletions_of_replicas(before)]
        kept.sort(key=_since)
        self._items, self.bytes = deque(kept), sum(item.size for item in kept)
        return len(before) - len(kept)

    def restart_age_limit(self) -> None:
        """Let ``max_queue_age_s`` count from now for the requests that wait already.

        Deletions that were kept for a broker may be as old as the time for which it did not answer. If their age
        counted, the queue would be beyond its limit as soon as the broker answers again, and the requests that bring
        the broker up to date would be dropped.
        """
        self._age_counts_from = self._clock()


def _deletions_of_replicas(items: Iterable[QueuedRequest]) -> Iterator[QueuedRequest]:
    for item in items:
        if isinstance(item.request, StopReplicaRequest) and (deletions := deletions_of(item.request)) is not None:
            yield QueuedRequest(deletions, item.since, estimated_bytes(deletions))


def _removals(items: Iterable[QueuedRequest]) -> Iterator[QueuedRequest]:
    """Yield one request with all removals, and with the newest live brokers, if anything is removed."""
    removals, first, newest = PendingRemovals(), None, None
    for item in items:
        if isinstance(item.request, UpdateMetadataRequest):
            newest = item.request
            if removals.add(newest) and first is None:
                first = item
    if first is not None and newest is not None:
        request = removals.request_like(newest)
        yield QueuedRequest(request, first.since, estimated_bytes(request))


def deletions_of(request: ControlRequest) -> StopReplicaRequest | UpdateMetadataRequest | None:
    """The part of a request that deletes replicas, or partitions from the broker's metadata; None if it does not."""
    match request:
        case StopReplicaRequest():
            deletions = only(request, delete=True)
            return deletions if deletions.partitions else None
        case UpdateMetadataRequest():
            return only_removals(request)
        case _:
            return None
