"""Merges two UpdateMetadata that wait for the same slow broker into one with the effect of both. PURE.

The merged body is made once and shared, as the two bodies were, because many brokers may be slow at the same time.

Which requests may be merged
----------------------------
A broker does two things with an UpdateMetadata. First, it replaces its metadata of brokers and of the
partitions that the request names. This is a state, of which only the last value counts, so the newer
request wins. Second, for every partition with leader -2 its group coordinator deletes the offsets
that groups committed for it. This is an event: if the request leaves it out it is lost, and nothing
repeats it. The coordinator would then keep the offsets of the deleted topic, and consumers of the
topic created anew would begin where they ended in the deleted one and skip every record before.

So for each partition that both requests name:

- *State, then state* merges to the newer state.
- *State, then -2* merges to -2. The broker never gets the state in between, which is outdated by now,
  and -2 takes effect whether the broker knew the partition or not.
- *-2, then -2* merges to -2, which is the same event twice.
- *-2, then state* never merges: one request has one entry for a partition, so one of the two would be
  lost. The newer request waits behind the older, and later ones may be merged into the newer.

A partition that only one request names keeps its entry, -2 included. The rules hold for merged
requests as well: a merged request still has each -2 of its parts, so a third request is compared with
all of them.

For each topic that both requests name, the topic id must be the same, or absent in both, if either of
them has a state of the topic. With another id the topic was deleted and created anew in between,
whatever the partitions say: two states of one partition would then belong to two topics, and the one
map of ids would give the newer id to partitions of the older topic, which a broker may lead. A request
without the id makes a broker forget the id, so that an id that appears or disappears counts as another
id, too.

Where both requests have only -2 of a topic, the ids do not matter, and the newer one is sent. A broker
removes partitions by name: ``updateMetadata`` of every release stores the id first, and forgets it with
the last partition of the topic (``removePartitionInfo``), and the group coordinator gets names alone.
Without this exception the queue of a silent broker would grow with each topic that is deleted
and created anew.
"""

from collections.abc import Set as AbstractSet
from dataclasses import replace
from operator import itemgetter
from typing import Final
from weakref import WeakKeyDictionary

from controllerd.core.model import LEADER_DURING_DELETE
from controllerd.core.requests import UpdateMetadataBody, UpdateMetadataRequest

_topic: Final = itemgetter(0)
_Merged = WeakKeyDictionary[UpdateMetadataBody, UpdateMetadataBody | None]


class BodyMerger:
    """Merges bodies, and remembers what it merged for as long as both bodies are in use."""

    def __init__(self) -> None:
        self._merged: WeakKeyDictionary[UpdateMetadataBody, _Merged] = WeakKeyDictionary()
        """Merged requests by the newer body and then the older one; None for two that must stay apart."""

    def merge(self, older: UpdateMetadataRequest, newer: UpdateMetadataRequest) -> UpdateMetadataRequest | None:
        """Return one request with the effect of both in order, or None if no single request has it.

        The request has all partitions, the newer state of each, and everything else of the newer request.
        A partition that only the older request removes (leader -2) is still removed.
        """
        merged = self._merged.setdefault(newer.body, WeakKeyDictionary())
        if older.body not in merged:
            is_allowed = _has_effect_of_both(older.body, newer.body)
            merged[older.body] = _union(older.body, newer.body) if is_allowed else None
        body = merged[older.body]
        if body is None:
            return None
        return replace(newer, body=body)


def _has_effect_of_both(older: UpdateMetadataBody, newer: UpdateMetadataBody) -> bool:
    """Whether the merged request loses no deletion and mixes no two topics of one name."""
    return not _returns_after_deletion(older, newer) and not _has_other_topic_id(older, newer)


def _returns_after_deletion(older: UpdateMetadataBody, newer: UpdateMetadataBody) -> bool:
    """Whether the newer body has a state of a partition that the older one removes."""
    for tp, partition in newer.partitions.items():
        before = older.partitions.get(tp)
        is_removed = before is not None and before.state.leader == LEADER_DURING_DELETE
        if is_removed and partition.state.leader != LEADER_DURING_DELETE:
            return True
    return False


def _has_other_topic_id(older: UpdateMetadataBody, newer: UpdateMetadataBody) -> bool:
    """Whether a topic of both bodies has different ids in them, and a state in one of them."""
    common = set(map(_topic, older.partitions)) & set(map(_topic, newer.partitions))
    changed = {topic for topic in common if older.topic_ids.get(topic) != newer.topic_ids.get(topic)}
    return bool(changed) and (_has_state_of(changed, older) or _has_state_of(changed, newer))


def _has_state_of(topics: AbstractSet[str], body: UpdateMetadataBody) -> bool:
    entries = body.partitions.items()
    return any(tp.topic in topics and entry.state.leader != LEADER_DURING_DELETE for tp, entry in entries)


def _union(older: UpdateMetadataBody, newer: UpdateMetadataBody) -> UpdateMetadataBody:
    return replace(
        newer,
        partitions={**older.partitions, **newer.partitions},
        topic_ids={**older.topic_ids, **newer.topic_ids},
    )
