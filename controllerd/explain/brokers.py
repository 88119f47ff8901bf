"""Explanations of brokers that are absent, shutting down, unreachable or slow, and of an instance that cannot act."""

from collections.abc import Iterator
from math import inf
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import WARNING, Cause, Diagnosis, cause, error_name, one_line, span, steps_for_holder
from controllerd.explain.history import refused_partitions
from controllerd.explain.inputs import PartitionQuestion, Question
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import BrokersRecord, EventBegin, OfflineDirsRecord, ReplyRecord, SessionRecord
from controllerd.views import Role
from events.admin import ControlledShutdown
from events.operator import DrainBroker

SLOW_S: Final = 10.0
"""A broker whose oldest request is older than this is slow: it usually answers within a fraction of a second."""
STUCK_S: Final = 10.0
"""An event without progress for this time is stuck: even a failover shows progress every few milliseconds."""

_DRAIN: Final = DrainBroker.__name__
_SHUTDOWNS: Final = frozenset({ControlledShutdown.__name__, _DRAIN})
"""The events that move leaderships off a broker before it stops."""
_NOT_CONTROLLER: Final = frozenset({Role.STANDBY, Role.STARTING, Role.STOPPING})
_INTERRUPTIONS: Final = frozenset({"suspended", "lost", "closed"})


def why_not_online(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return why a replica can be neither read nor written; None when it is online."""
    question, snapshot = partition.question, partition.question.snapshot
    if broker in OUR_IDS:
        text = f"replica {broker} is controllerd itself, which has no disk: a broker must get it"
        return cause("replica-on-controllerd", text, broker=broker)
    if broker not in snapshot.brokers:
        return why_gone(question, broker)
    if broker in snapshot.shutting_down:
        return why_shutting_down(question, broker)
    if broker in partition.view.offline_replicas:
        failed = _failed_dir(question, partition.tp, broker)
        when = f", reported at {question.clock(failed.at_ms)}" if failed is not None else ""
        text = f"the log directory of {partition.tp} on broker {broker} failed{when}; the broker itself is alive"
        return cause("log-dir-failed", text, broker=broker, since=failed)
    return None


def causes_offline(partition: PartitionQuestion, brokers: tuple[BrokerId, ...]) -> list[Cause]:
    """Return one cause for each of these replicas that is not online."""
    return [why for broker in brokers if (why := why_not_online(partition, broker)) is not None]


def why_gone(question: Question, broker: BrokerId) -> Cause:
    """Return why a broker is not among the live ones."""
    path = f"/brokers/ids/{broker}"
    if path in question.snapshot.quarantine:
        reason = one_line(question.snapshot.quarantine[path])
        text = f"broker {broker} is registered, but its registration cannot be understood: {reason}"
        return cause("broker-quarantined", text, broker=broker)
    gone = (entry for entry, record in question.history.of(BrokersRecord) if broker in record.gone)
    left, term = next(gone, None), next(question.history.terms_begun(), None)
    if left is None:
        # An observer records no departures of brokers, so the age of its oldest record proves nothing.
        oldest = None if question.is_observing else question.history.oldest_ms
        ago = f", at least since {question.clock(oldest)}" if oldest is not None else ""
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids{ago}", broker=broker)
    is_orderly, how = _departure(question, broker, left)
    if term is not None and left.number < term.number:
        # Under another controller, the broker may have come back and left in another manner.
        before = f"before that it left at {question.clock(left.at_ms)} ({how}), and may have come back since"
        text = f"at least since this controller's term at {question.clock(term.at_ms)}; {before}"
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids, {text}", broker=broker)
    text = f"broker {broker} left /brokers/ids at {question.clock(left.at_ms)} ({how})"
    return cause("broker-shut-down" if is_orderly else "broker-gone", text, broker=broker, since=left)


def _departure(question: Question, broker: BrokerId, left: RecentRecord) -> tuple[bool, str]:
    """Return whether the leaderships of the broker had been moved before it left, and the manner of its departure.

    A request for a controlled shutdown does not prove it: partitions that no other replica can lead
    stay with the broker, which repeats its request or is killed. The last answer since the broker
    registered decides. A broker that was drained need not have requested its shutdown: it may also
    have been killed.
    """
    began = _began_shutdown(question, broker, left)
    if began is None:
        return False, "its ZooKeeper session ended"
    answer, at = _last_answer(question, broker, began, left), question.clock(began.at_ms)
    if answer is None:
        if question.history.is_loaded(began):
            return False, "it was in controlled shutdown, and the last answer to it is no longer recorded"
        return False, f"it had begun a controlled shutdown at {at}, and it left without an answer"
    is_drained = answer.name == _DRAIN
    if not answer.remaining:
        return True, "after it was drained" if is_drained else "after an orderly shutdown"
    unmoved = f"{counted(answer.remaining, 'partition')} had not been moved"
    if is_drained:
        return False, f"it had been drained at {at}, and {unmoved}"
    end = "and it left without the answer that it may stop"
    return False, f"it had begun a controlled shutdown at {at}, {unmoved}, {end}"


def _last_answer(question: Question, broker: BrokerId, began: RecentRecord, left: RecentRecord) -> ReplyRecord | None:
    """Return the last answer to the broker, or to the operator who drained it, between these two records.

    A request with an earlier broker epoch is refused (STALE_BROKER_EPOCH), and its answer has no ``remaining``.
    """
    shutdowns = {began.event} | {
        record.number
        for _, record in question.history.of(EventBegin)
        if record.name in _SHUTDOWNS and record.detail.get("broker") == broker
    }
    for entry, record in question.history.of(ReplyRecord):
        if began.number < entry.number < left.number and record.number in shutdowns and record.remaining is not None:
            return record
    return None


def why_shutting_down(question: Question, broker: BrokerId) -> Cause:
    """Return the cause that a broker is in controlled shutdown."""
    began = _began_shutdown(question, broker)
    since = f" since {question.clock(began.at_ms)}" if began is not None else ""
    return cause("broker-shutting-down", f"broker {broker} is shutting down{since}", broker=broker, since=began)


def _began_shutdown(question: Question, broker: BrokerId, before: RecentRecord | None = None) -> RecentRecord | None:
    """Return the record of the controlled shutdown that began before this departure (None: and has not ended yet).

    Records before an earlier departure do not count. Those of an earlier term do not either, as a new
    term begins without brokers that are shutting down. Periodic snapshots repeat the record.
    """
    until = before.number if before is not None else inf
    terms = (entry.number for entry in question.history.terms_begun())
    since = max((number for number in terms if number < until), default=0)
    found = None
    for entry, record in question.history.of(BrokersRecord):
        if entry.number >= until:
            continue
        if entry.number < since or broker in record.gone:
            break
        if broker in record.shutting_down:
            found = entry
    return found


def _failed_dir(question: Question, tp: TopicPartition, broker: BrokerId) -> RecentRecord | None:
    """Return the first of the latest reports in a row that name the partition."""
    found = None
    for entry, record in question.history.of(OfflineDirsRecord):
        if record.broker == broker:
            if tp not in zip(record.topics, record.partitions, strict=True):
                break
            found = entry
    return found


def why_requests_fail(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return why a live broker may not have applied the last decision: it is unreachable or slow, or refused it."""
    return why_requests_wait(partition.question, broker) or _refusal(partition, broker)


def why_requests_wait(question: Question, broker: BrokerId) -> Cause | None:
    """Return why requests of the controller wait for a live broker."""
    channel = question.inputs.channels.get(broker)
    if channel is None or not channel.depth:
        return None
    waiting = f"{counted(channel.depth, 'request')} wait"
    if not channel.connected or channel.error:
        text = f"broker {broker} cannot be reached: {one_line(channel.error or 'no connection')}; {waiting} for it"
        return cause("broker-unreachable", f"{text}, the oldest for {span(channel.oldest_age_s)}", broker=broker)
    if channel.oldest_age_s < SLOW_S:
        return None
    text = f"broker {broker} does not answer the controller: {waiting}, the oldest for {span(channel.oldest_age_s)}"
    return cause("broker-slow", text, broker=broker)


def _refusal(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return the refusal of the last decision by the broker: since it registered, and in the present term."""
    question, back = partition.question, came_back(partition.question, broker)
    from_number = max(
        (entry.number for entry in (partition.last_leadership_change, back) if entry is not None), default=0
    )
    for entry, record in question.history.refusals_of(broker):
        if entry.number < from_number or entry.epoch != question.snapshot.controller_epoch:
            return None
        code = refused_partitions(record).get(str(partition.tp), record.error)
        if code:
            text = f"broker {broker} answered {record.api} with {error_name(code)} at {question.clock(entry.at_ms)}"
            return cause("broker-refuses", text, broker=broker, since=entry)
    return None


def came_back(question: Question, broker: BrokerId) -> RecentRecord | None:
    """Return the record of the last registration of the broker; None if it is not among the recent records."""
    for entry, record in question.history.of(BrokersRecord):
        if any(row.id == broker for row in record.live):
            return None if question.history.is_loaded(entry) else entry
    return None


# -- this instance -----------------------------------------------------------------------------------------------------


def diagnose_instance(question: Question, diagnosis: Diagnosis) -> None:
    """Put the causes that concern this whole instance before all others, and adapt the steps to the active controller.

    No cause of a partition can be removed while ZooKeeper is unreachable, the queue is stuck, or another
    controller is active.
    """
    diagnosis.next[:] = steps_for_holder(question.snapshot, diagnosis.next)
    held_up = list(_held_up(question))
    if held_up:
        diagnosis.causes[:0] = held_up
        diagnosis.next[:0] = _remedies(question, {each.code for each in held_up})
        diagnosis.raise_severity(WARNING)


def _held_up(question: Question) -> Iterator[Cause]:
    snapshot, state = question.snapshot, question.inputs.session.state
    if state != "connected":
        since = _session_since(question)
        when = f" since {question.clock(since.at_ms)}" if since is not None else ""
        text = f"the ZooKeeper session of this instance is {state}{when}: it decides nothing and receives no changes"
        yield cause(f"zookeeper-{'suspended' if state == 'suspended' else 'lost'}", text, since=since)
    if snapshot.role in _NOT_CONTROLLER:
        if snapshot.holder is not None or state == "connected":  # the holder cannot be read without a session
            yield _not_controller(question)
    elif question.is_observing and snapshot.holder is None:
        yield cause(
            "no-controller",
            "there is no active controller (no /controller): no leader is elected, and nothing is decided",
        )
    yield from _stuck(question)


def _not_controller(question: Question) -> Cause:
    role, holder = question.snapshot.role, question.snapshot.holder
    if role is Role.STARTING:
        return cause("controller-starting", "this instance is starting: it has not read the partitions yet")
    if holder is None:
        return cause("no-controller", f"there is no active controller (no /controller); this instance is {role.value}")
    since = question.clock(holder.since_ms)
    text = f"this instance is {role.value} and decides nothing: {holder} is the active controller since {since}"
    return cause("standby", text, broker=None if holder.is_controllerd else holder.node_id)


def _stuck(question: Question) -> Iterator[Cause]:
    worker, queue = question.inputs.worker, question.inputs.queue
    handled = "" if worker.event is None else f"event {worker.number} {worker.event} is being handled"
    waiting = f"{counted(queue.depth, 'event')} wait"
    if handled and worker.since_progress_s >= STUCK_S:
        text = f"{handled} for {span(worker.running_s)} without progress; {waiting} behind it"
        yield cause("queue-stuck", f"{text}: this answer shows the state before it")
    elif queue.depth and queue.oldest_age_s >= STUCK_S:
        text = f"{waiting}, the oldest for {span(queue.oldest_age_s)}{handled and f', {handled}'}"
        yield cause("queue-behind", f"{text}: this answer does not show recent changes yet")


def _session_since(question: Question) -> RecentRecord | None:
    """Return the record of the interruption of the session."""
    begun = None
    for entry, record in question.history.of(SessionRecord):
        if record.state not in _INTERRUPTIONS:
            break
        begun = entry
    return begun


def _remedies(question: Question, codes: set[str]) -> Iterator[str]:
    if codes & {"zookeeper-suspended", "zookeeper-lost"}:
        yield "check that this host can reach ZooKeeper:"
        yield "controllerctl doctor --zk HOSTS"
    if codes & {"queue-stuck", "queue-behind"}:
        yield "controllerctl get queue"
    if "queue-stuck" in codes:
        yield 'controllerctl resign --reason "the queue is stuck"'
    if "no-controller" in codes and question.is_observing:
        yield "start a broker or a controllerd that can reach ZooKeeper"
    elif codes & {"standby", "no-controller"}:
        holder = question.snapshot.holder
        asked = f"ask {holder}" if holder is not None else "ask again once there is an active controller"
        yield f"{asked}, or look at ZooKeeper itself:"
        yield "controllerctl --zk HOSTS status"
