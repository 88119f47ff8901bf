"""What waits for one broker, in order; merged while the broker is behind, dropped when it is hopelessly so."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice

from channel_manager.coalesce import BodyMerger
from channel_manager.settings import ChannelSettings, estimated_bytes
from controllerd.core.model import LEADER_DURING_DELETE
from controllerd.core.requests import ControlRequest, StopReplicaRequest, UpdateMetadataBody, UpdateMetadataRequest
from wire.stop_replica import only


@dataclass(slots=True)
class Waiting:
    """A request in the queue, since when (monotonic seconds), and its estimated bytes."""

    request: ControlRequest
    since: float
    size: int


class BrokerQueue:
    """A FIFO whose last element may absorb what comes next."""

    def __init__(self, clock: Callable[[], float], settings: ChannelSettings, merger: BodyMerger) -> None:
        self._clock = clock
        self._settings = settings
        self._merger = merger
        self._items: deque[Waiting] = deque()
        self.bytes = 0
        """Estimated size of all that waits."""
        self.coalesced = 0
        """How many requests were absorbed by the one before."""

    def __len__(self) -> int:
        return len(self._items)

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
            item = Waiting(request, self._clock(), estimated_bytes(request))
            self._items.append(item)
            self.bytes += item.size
            return
        self.coalesced += 1
        self.bytes -= tail.size
        tail.request, tail.size = merged, estimated_bytes(merged)
        self.bytes += tail.size

    def _merged(self, tail: Waiting, newer: ControlRequest) -> UpdateMetadataRequest | None:
        older = tail.request
        if not isinstance(older, UpdateMetadataRequest) or not isinstance(newer, UpdateMetadataRequest):
            return None
        return self._merger.merge(older, newer) if self._is_behind(tail) else None

    def _is_behind(self, tail: Waiting) -> bool:
        settings = self._settings
        waited = self._clock() - tail.since
        return settings.coalesce and (waited > settings.coalesce_age_s or len(self._items) >= settings.coalesce_depth)

    def pop(self) -> Waiting:
        """Take the oldest; from now on it is begun, and nothing is merged into it."""
        item = self._items.popleft()
        self.bytes -= item.size
        return item

    def is_beyond_limits(self) -> bool:
        """Whether the queue is larger or older than a queue may be."""
        settings = self._settings
        return self.bytes > settings.max_queue_bytes or self.oldest_age_s > settings.max_queue_age_s

    def drop_all_but_deletions(self) -> int:
        """Forget everything that a fresh start of the broker would repeat; says how many requests are gone.

        Deletions stay, of replicas and of topics in its metadata: no later request would bring them again.
        """
        before = self._items
        self._items, self.bytes = deque(), 0
        for item in before:
            owed = owed_deletions(item.request)
            if owed is not None:
                kept = Waiting(owed, item.since, estimated_bytes(owed))
                self._items.append(kept)
                self.bytes += kept.size
        return len(before) - len(self._items)


def owed_deletions(request: ControlRequest) -> StopReplicaRequest | UpdateMetadataRequest | None:
    """The part of a request that deletes replicas, or partitions from the broker's metadata; None if it does not."""
    match request:
        case StopReplicaRequest():
            owed = only(request, delete=True)
            return owed if owed.partitions else None
        case UpdateMetadataRequest():
            return _owed_removals(request)
        case _:
            return None


def _owed_removals(request: UpdateMetadataRequest) -> UpdateMetadataRequest | None:
    """Who is live will be told anew, so what this says of it does not matter for long."""
    body = request.body
    removed = {
        tp: partition for tp, partition in body.partitions.items() if partition.state.leader == LEADER_DURING_DELETE
    }
    if not removed:
        return None
    # These topics alone keep their ids: a request to merge with this one may name others without an id.
    ids = {tp.topic: body.topic_ids[tp.topic] for tp in removed if tp.topic in body.topic_ids}
    owed = UpdateMetadataBody(removed, ids, body.live_brokers)
    return UpdateMetadataRequest(request.controller_id, request.controller_epoch, request.broker_epoch, owed)
