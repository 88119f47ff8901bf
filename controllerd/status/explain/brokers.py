"""How a broker is: gone, leaving, with a failed disk, out of reach, slow, or refusing what it is told."""

from collections.abc import Iterator
from math import inf
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.recent import Entry
from controllerd.record.records import BrokersRecord, EventBegin, OfflineDirsRecord, ReplyRecord, SnapshotBegin
from controllerd.snapshot import PartitionView
from controllerd.status.explain.history import refused_partitions
from controllerd.status.explain.scene import Scene, cause
from controllerd.status.explain.words import count, error_name, sentence, span
from controllerd.status.schema.why import Cause
from events.admin import ControlledShutdown
from events.operator import DrainBroker

SLOW_S: Final = 10.0
"""A broker whose oldest request is older than this is slow: it usually answers within a fraction of a second."""

_SHUTDOWNS: Final = frozenset({ControlledShutdown.__name__, DrainBroker.__name__})
"""The events that take a broker out of service before it stops."""


def why_not_online(scene: Scene, view: PartitionView, tp: TopicPartition, broker: BrokerId) -> Cause | None:
    """Why a replica can be neither read nor written; None when it is online."""
    snapshot = scene.snapshot
    if broker in OUR_IDS:
        text = f"replica {broker} is controllerd itself, which has no disk: it is to go to a broker"
        return cause("replica-on-controllerd", text, broker=broker)
    if broker not in snapshot.brokers:
        return why_gone(scene, broker)
    if broker in snapshot.shutting_down:
        return why_leaving(scene, broker)
    if broker in view.offline_replicas:
        return why_failed(scene, tp, broker)
    return None


def why_gone(scene: Scene, broker: BrokerId) -> Cause:
    """Why a broker is not among the live ones."""
    path = f"/brokers/ids/{broker}"
    if path in scene.snapshot.quarantine:
        reason = sentence(scene.snapshot.quarantine[path])
        text = f"broker {broker} is registered, but its registration cannot be understood: {reason}"
        return cause("broker-quarantined", text, broker=broker)
    left, term = _left(scene, broker), _took_over(scene)
    if left is None:
        # Who only watches has no record of brokers that go: how far back it remembers says nothing of them.
        oldest = None if scene.is_watching else scene.history.oldest_ms
        ago = f", at least since {scene.clock(oldest)}" if oldest is not None else ""
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids{ago}", broker=broker)
    is_orderly, how = _manner(scene, broker, left)
    if term is not None and left.number < term.number:
        # While another controller led, the broker may have come back and died in another manner.
        before = f"before that it left at {scene.clock(left.at_ms)} ({how}), and may have come back since"
        text = f"at least since this controller's term at {scene.clock(term.at_ms)}; {before}"
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids, {text}", broker=broker)
    text = f"broker {broker} left /brokers/ids at {scene.clock(left.at_ms)} ({how})"
    return cause("broker-shut-down" if is_orderly else "broker-gone", text, broker=broker, since=left)


def _manner(scene: Scene, broker: BrokerId, left: Entry) -> tuple[bool, str]:
    """Return whether the broker had handed its leaderships over before it left, and how it left.

    A broker that asks for its controlled shutdown has handed nothing over yet: partitions that no
    other replica can lead stay with it, and it asks again, or is killed. What counts is the last
    answer in this life of the broker. A broker that was drained need not have asked for its
    shutdown: it may also have been killed.
    """
    began = _began_shutdown(scene, broker, left)
    if began is None:
        return False, "its ZooKeeper session ended"
    answer = _last_answer(scene, broker, began, left)
    if answer is not None and not answer.remaining:
        return True, "after it was drained" if answer.name == DrainBroker.__name__ else "after an orderly shutdown"
    return False, _unfinished(scene, began, answer)


def _unfinished(scene: Scene, began: Entry, answer: ReplyRecord | None) -> str:
    """How a broker left that had not handed everything over."""
    at = scene.clock(began.at_ms)
    if answer is None and scene.history.is_loaded(began):
        return "it was in controlled shutdown, and what it was answered is not remembered any more"
    if answer is None:
        return f"it had begun a controlled shutdown at {at}, and it left without an answer"
    unmoved = f"{count(answer.remaining or 0, 'partition')} had not been moved"
    if answer.name == DrainBroker.__name__:
        return f"it had been drained at {at}, and {unmoved}"
    return f"it had begun a controlled shutdown at {at}, {unmoved}, and it left without the answer that it may stop"


def _last_answer(scene: Scene, broker: BrokerId, began: Entry, left: Entry) -> ReplyRecord | None:
    """Return what the broker, or the operator who drained it, was answered last between these two records.

    A request of an earlier life of the broker is refused (STALE_BROKER_EPOCH), and its answer has no ``remaining``.
    """
    about = {began.event} | {
        record.number
        for _, record in scene.history.of(EventBegin)
        if record.name in _SHUTDOWNS and record.detail.get("broker") == broker
    }
    for entry, record in scene.history.of(ReplyRecord):
        if began.number < entry.number < left.number and record.number in about and record.remaining is not None:
            return record
    return None


def _took_over(scene: Scene) -> Entry | None:
    """Return when the last term of this instance began, and with it a new read of everything."""
    return next((entry for entry, record in scene.history.of(SnapshotBegin) if not record.periodic), None)


def why_leaving(scene: Scene, broker: BrokerId) -> Cause:
    """A broker in controlled shutdown."""
    began = _began_shutdown(scene, broker)
    since = f" since {scene.clock(began.at_ms)}" if began is not None else ""
    text = f"broker {broker} is shutting down{since}"
    return cause("broker-shutting-down", text, broker=broker, since=began)


def why_failed(scene: Scene, tp: TopicPartition, broker: BrokerId) -> Cause:
    """A live broker whose log directory with the replica failed."""
    failed = _failed_dir(scene, tp, broker)
    when = f", reported at {scene.clock(failed.at_ms)}" if failed is not None else ""
    text = f"the log directory of {tp} on broker {broker} failed{when}; the broker itself is alive"
    return cause("log-dir-failed", text, broker=broker, since=failed)


def why_not_obeying(scene: Scene, tp: TopicPartition, broker: BrokerId, decided: Entry | None) -> Cause | None:
    """Why a live broker may not do what the controller decided: it cannot be reached, is slow, or refused.

    ``decided``: what was decided last; refusals of before it do not count.
    """
    return why_not_heard(scene, broker) or _refusal(scene, tp, broker, decided)


def why_not_heard(scene: Scene, broker: BrokerId) -> Cause | None:
    """Why a live broker may not know what the controller decided."""
    channel = scene.around.channels.get(broker)
    if channel is None or not channel.depth:
        return None
    if not channel.connected or channel.error:
        why = sentence(channel.error or "no connection")
        text = f"broker {broker} cannot be told: {why}; {count(channel.depth, 'request')} wait for it"
        return cause("broker-unreachable", f"{text}, the oldest for {span(channel.oldest_age_s)}", broker=broker)
    if channel.oldest_age_s < SLOW_S:
        return None
    waits = f"{count(channel.depth, 'request')} wait, the oldest for {span(channel.oldest_age_s)}"
    return cause("broker-slow", f"broker {broker} does not answer the controller: {waits}", broker=broker)


def came_back(scene: Scene, broker: BrokerId) -> Entry | None:
    """When the broker registered last, as a change; None when that is longer ago than what is remembered."""
    for entry, record in scene.history.of(BrokersRecord):
        if any(row.id == broker for row in record.live):
            return None if scene.history.is_loaded(entry) else entry
    return None


def _left(scene: Scene, broker: BrokerId) -> Entry | None:
    return next((entry for entry, record in scene.history.of(BrokersRecord) if broker in record.gone), None)


def _began_shutdown(scene: Scene, broker: BrokerId, before: Entry | None = None) -> Entry | None:
    """Return when the broker went into controlled shutdown, in its life that ended then (None: in its present one).

    A life begins after the end of the one before it. A new term begins without brokers that are
    shutting down, so that nothing of an earlier one counts. Periodic snapshots repeat the record.
    """
    until = before.number if before is not None else inf
    since = max((number for number in _terms_begun(scene) if number < until), default=0)
    found = None
    for entry, record in scene.history.of(BrokersRecord):
        if entry.number >= until:
            continue
        if entry.number < since or broker in record.gone:
            break
        if broker in record.shutting_down:
            found = entry
    return found


def _terms_begun(scene: Scene) -> Iterator[int]:
    return (entry.number for entry, record in scene.history.of(SnapshotBegin) if not record.periodic)


def _failed_dir(scene: Scene, tp: TopicPartition, broker: BrokerId) -> Entry | None:
    """The first report of the failure in a row of them."""
    found = None
    for entry, record in scene.history.of(OfflineDirsRecord):
        if record.broker == broker:
            if tp not in zip(record.topics, record.partitions, strict=True):
                break
            found = entry
    return found


def _refusal(scene: Scene, tp: TopicPartition, broker: BrokerId, decided: Entry | None) -> Cause | None:
    """What it refused in its present life, of this term, and of what was decided last."""
    back = came_back(scene, broker)
    from_number = max((entry.number for entry in (decided, back) if entry is not None), default=0)
    for entry, record in scene.history.refusals_of(broker):
        if entry.number < from_number or entry.epoch != scene.snapshot.controller_epoch:
            return None
        code = refused_partitions(record).get(str(tp), record.error)
        if code:
            text = f"broker {broker} answered {record.api} with {error_name(code)} at {scene.clock(entry.at_ms)}"
            return cause("broker-refuses", text, broker=broker, since=entry)
    return None
