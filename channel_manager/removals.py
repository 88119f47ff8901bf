"""Removals from a broker's metadata that the broker has not confirmed, kept when its channel is closed.

Why removals outlive a channel
------------------------------
A removal is a partition with leader -2 in an UpdateMetadata. It is an event for the broker's group
coordinator, which deletes the committed offsets of that partition (``coalesce`` has the argument).
Nothing repeats a removal: a broker that starts gets the metadata of topics that exist. A removal could
be lost with the channel, when the session of the broker ends for a moment or its channel is opened
anew. If the topic were then created anew, the coordinator would keep the offsets of the deleted topic,
and consumers would skip records.

So the removals are kept when the channel is closed, and sent once in the next one, in a request of
their own before any other metadata (``Outbox.repeat_removals``). That place is safe and early enough,
because a removal is kept only while no later UpdateMetadata can have taken effect at the broker. If
the removal waited or was unanswered, nothing followed it in its channel. If it was refused with
STALE_BROKER_EPOCH, the requests that followed had the same broker epoch and were refused, too: a
channel is closed before requests with a newer broker epoch are made (``handlers.brokers``). The
broker therefore does not know the topic created anew. If an unanswered removal did take effect, then
the second one has none.

A consumer of the topic created anew may commit offsets while the broker still knows the deleted topic.
The removal deletes these offsets, too, as any late removal does. That consumer reads records again, and
skips none that it has not read, if it begins at the earliest offset.

A removal with any other answer is not kept: later requests may have sent the broker the topic that was
created anew.

The request is built anew, with the live brokers, the topic ids and the broker epoch of that moment: a
broker replaces its list of live brokers with each UpdateMetadata, and refuses an earlier broker epoch.
(``coalesce`` says why the ids of removals do not matter.) It cannot be part of the request that follows,
which may have a state of the same partition.

Deletions of replicas (StopReplica) are not kept here. The controller repeats them from its own state
(``DeletionBook``, pending replica deletions), where it checks first that the replica is still to be
deleted.

Removals live as long as the term. A new term reads the cluster anew and does not know which topics
the term before deleted; a broker may have learnt a newer state from another controller in between.
For one broker a partition is kept once, however often its topic was deleted, and for a broker
without a channel nothing is added. So a broker that never returns holds what its queue held.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, Self
from weakref import WeakKeyDictionary

from controllerd.core.model import LEADER_DURING_DELETE, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    UpdateMetadataBody,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)

_Partitions = Mapping[TopicPartition, UpdateMetadataPartition]
_removed: Final[WeakKeyDictionary[UpdateMetadataBody, _Partitions]] = WeakKeyDictionary()
"""The removals of each body. Brokers share bodies, so if many channels are closed at once, each body is read once."""


class PendingRemovals:
    """The partitions that one broker still has to remove from its metadata, with the ids of their topics."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, UpdateMetadataPartition] = {}
        self._topic_ids: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._partitions)

    @property
    def partitions(self) -> _Partitions:
        """Each partition with the entry, of leader -2, that removes it."""
        return self._partitions

    def add(self, request: ControlRequest) -> bool:
        """Add the removals of a request; of two removals of the same partition the later one counts.

        Returns whether the request removes anything.
        """
        removed = removed_by(request)
        self._partitions.update(removed)
        if isinstance(request, UpdateMetadataRequest):
            self._topic_ids.update(_ids_of(removed, request.body.topic_ids))
        return bool(removed)

    def add_all(self, later: Self) -> None:
        """Add removals that were requested after these."""
        self._partitions.update(later._partitions)
        self._topic_ids.update(later._topic_ids)

    def request_like(self, request: UpdateMetadataRequest) -> UpdateMetadataRequest:
        """Return a request with these removals as its partitions, and everything else of ``request``."""
        body = replace(request.body, partitions=dict(self._partitions), topic_ids=dict(self._topic_ids))
        return replace(request, body=body)


def removed_by(request: ControlRequest) -> _Partitions:
    """Return the partitions that a request removes from the broker's metadata."""
    if not isinstance(request, UpdateMetadataRequest):
        return {}
    body = request.body
    if body not in _removed:
        entries = body.partitions.items()
        _removed[body] = {tp: entry for tp, entry in entries if entry.state.leader == LEADER_DURING_DELETE}
    return _removed[body]


def only_removals(request: UpdateMetadataRequest) -> UpdateMetadataRequest | None:
    """Return the part of a request that removes partitions; None if it removes none.

    Topics that are not removed lose their ids, too: a request to merge with this one may name such a
    topic without an id.
    """
    removals = PendingRemovals()
    return removals.request_like(request) if removals.add(request) else None


def _ids_of(partitions: Mapping[TopicPartition, object], topic_ids: Mapping[str, str]) -> dict[str, str]:
    topics = {tp.topic for tp in partitions}
    return {topic: topic_ids[topic] for topic in topics if topic in topic_ids}
