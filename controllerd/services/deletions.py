"""Requested topic deletions: which are queued, when each may begin, and when a refused one is tried again."""

from collections.abc import Collection
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.cluster_settings import DELETE_TOPICS
from controllerd.core.deletion_waits import is_hidden
from controllerd.core.model import BrokerId
from controllerd.core.soundness import is_in_quarantine
from controllerd.services.pending_deletions import load_pending_deletions
from controllerd.services.topics import compare_topics
from events.reassignments import ZkPartitionReassignment
from events.topics import TopicDeletion, TopicDeletionRetry

log = structlog.get_logger(__name__)

FIRST_RETRY_S: Final = 30.0
LAST_RETRY_S: Final = 600.0
_DOUBLINGS: Final = 10
_BEGINS_AFTER_S: Final = 1.0
"""Seconds until a deletion that is due is begun. An event that fails because ZooKeeper is away must not repeat itself
without a pause."""


async def initialise_deletions(c: Controller) -> None:
    """Load the requested deletions at the start of a term, before the state machines start.

    A request is a child of ``/admin/delete_topics``, the marker of the deletion. A marker without a topic was left by a
    controller that died while it deleted the topic: the other znodes of the topic are deleted now. ZooKeeper shows
    nothing else of a deletion, so brokers are sent the deletion of every replica again.

    If ``delete.topic.enable`` is off now, the requests are dropped, as the built-in controller does. ZooKeeper does not
    show whether an earlier term had begun a deletion: a partition without leader may as well have a leader that died.
    It is worse to carry out a deletion that was never allowed than to serve a topic again whose replicas are empty.
    """
    await load_pending_deletions(c)
    asked = await c.store.admin.read_topic_deletions()
    if not c.policy.delete_topic_enable:
        await _drop_all(asked, c)
        return
    c.deletions.queue(sorted(_not_waiting(asked & c.context.topics.keys(), c)))
    unknown = asked - c.context.topics.keys()
    if not unknown:
        return
    existing = await c.store.topics.read_topic_names()
    gone = unknown - existing
    if gone:
        log.info("completed deletions of an earlier controller", topics=len(gone))
        await c.store.topics.delete_topics(gone)
    if unknown & existing:  # a topic was created since the load: its TopicChange comes first, then this event
        c.queue.put(TopicDeletion())


async def serve_deletion_requests(c: Controller) -> None:
    """Queue the deletions that markers request, and begin each that waits for nothing."""
    asked = await c.store.admin.read_topic_deletions()
    if not c.policy.delete_topic_enable:
        await _drop_all(asked - c.context.deletions.queued, c)
        await c.deletions.resume()
        return
    if asked - c.context.topics.keys():
        await compare_topics(c)  # a topic that was created a moment ago may not be in the context yet
        await _drop_unknown(asked - c.context.topics.keys(), c)
    known = _not_waiting(asked & c.context.topics.keys(), c)
    c.deletions.queue(sorted(name for name in known if not is_in_quarantine(c.context, name)))
    await c.deletions.resume()


def _not_waiting(asked: Collection[str], c: Controller) -> Collection[str]:
    """Return the topics to queue now, and note the others as waiting.

    While deletions are paused, a topic whose deletion has not begun waits: it is served, and readers see the request.
    """
    book = c.context.deletions
    before = book.waiting
    begun = book.queued | book.begun_before
    book.waiting = frozenset(asked) - begun if book.paused is not None else frozenset()
    for topic in before ^ book.waiting:
        c.context.touch(topic)
    return [topic for topic in asked if topic not in book.waiting]


async def _drop_all(asked: Collection[str], c: Controller) -> None:
    """Drop requests for deletions, or do nothing while ``delete.topic.enable`` is unknown, so that they wait.

    The caller leaves out the requests that this term had accepted before the setting was turned off: they are carried
    out, because brokers may have deleted replicas.
    """
    if DELETE_TOPICS in c.policy.unknown:
        return
    if asked:
        log.warning("dropped topic deletions while deletion is disabled", topics=sorted(asked))
        await c.store.admin.delete_deletion_markers(asked)


async def _drop_unknown(unknown: Collection[str], c: Controller) -> None:
    """Drop requests for topics that do not exist; a request for a topic in quarantine waits (KAFKA-3175)."""
    waiting = {name for name in unknown if is_in_quarantine(c.context, name)}
    stray = sorted(set(unknown) - waiting)
    if waiting:
        log.warning("refused deletion of topics in quarantine", topics=sorted(waiting))
    if stray:
        log.warning("dropped deletions of unknown topics", topics=stray)
        await c.store.admin.delete_deletion_markers(stray)


async def repeat_deletions(broker: BrokerId, c: Controller) -> None:
    """Send a broker again the deletions that its closed channel may not have delivered.

    They are first taken as failed, so that the replicas are stopped and deleted anew.
    """
    started = c.context.deletions.started
    await c.deletions.fail({broker: [tp for tp in c.context.partitions_on(broker) if tp.topic in started]})


def schedule_deletions(c: Controller) -> None:
    """Schedule the work on deletions that is due later. Runs after every event.

    * A deletion that waits for nothing any more is begun. However the wait ended, a topic that is no longer served must
      not stay so without its deletion.
    * If a topic was deleted during its reassignment, the requests by znode are read, which removes its entries.
    * A refused deletion is tried again from time to time.
    """
    book = c.context.deletions
    waiting = book.queued.difference(book.started, book.begun_before, book.refused)
    if any(_is_due(topic, c) for topic in waiting):
        c.timers.put_later(_BEGINS_AFTER_S, TopicDeletion())
    if book.has_cut_reassignments:
        book.has_cut_reassignments = False
        c.queue.put(ZkPartitionReassignment())
    if book.refused and book.paused is None:
        pause_s = FIRST_RETRY_S * 2 ** min(book.fewest_refusals() - 1, _DOUBLINGS)
        c.timers.put_later(min(pause_s, LAST_RETRY_S), TopicDeletionRetry())


def _is_due(topic: str, c: Controller) -> bool:
    """Whether the deletion of a topic, which has not begun, waits for nothing any more."""
    return topic in c.context.topics and not is_in_quarantine(c.context, topic) and is_hidden(c.context, topic)
