"""Explanations of brokers that are gone, leaving, out of reach, slow or refusing, and of an instance that waits."""

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
"""An event that has shown no progress for so long is stuck: a whole failover shows some every few milliseconds."""

_DRAIN: Final = DrainBroker.__name__
_SHUTDOWNS: Final = frozenset({ControlledShutdown.__name__, _DRAIN})
"""The events that take a broker out of service before it stops."""
_NOT_LEADING: Final = frozenset({Role.STANDBY, Role.STARTING, Role.STOPPING})
_INTERRUPTIONS: Final = frozenset({"suspended", "lost", "closed"})


def why_not_online(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return why a replica can be neither read nor written; None when it is online."""
    question, snapshot = partition.question, partition.question.snapshot
    if broker in OUR_IDS:
        text = f"replica {broker} is controllerd itself, which has no disk: it is to go to a broker"
        return cause("replica-on-controllerd", text, broker=broker)
    if broker not in snapshot.brokers:
        return why_gone(question, broker)
    if broker in snapshot.shutting_down:
        return why_leaving(question, broker)
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
        # An observer has no record of brokers that go: how far back it remembers says nothing of them.
        oldest = None if question.is_watching else question.history.oldest_ms
        ago = f", at least since {question.clock(oldest)}" if oldest is not None else ""
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids{ago}", broker=broker)
    is_orderly, how = _manner(question, broker, left)
    if term is not None and left.number < term.number:
        # While another controller led, the broker may have come back and died in another manner.
        before = f"before that it left at {question.clock(left.at_ms)} ({how}), and may have come back since"
        text = f"at least since this controller's term at {question.clock(term.at_ms)}; {before}"
        return cause("broker-gone", f"broker {broker} is not in /brokers/ids, {text}", broker=broker)
    text = f"broker {broker} left /brokers/ids at {question.clock(left.at_ms)} ({how})"
    return cause("broker-shut-down" if is_orderly else "broker-gone", text, broker=broker, since=left)


def _manner(question: Question, broker: BrokerId, left: RecentRecord) -> tuple[bool, str]:
    """Return whether the broker had handed its leaderships over before it left, and how it left.

    A broker that asks for its controlled shutdown has handed nothing over yet: partitions that no
    other replica can lead stay with it, and it asks again, or is killed. What counts is the last
    answer in this life of the broker. A broker that was drained need not have asked for its
    shutdown: it may also have been killed.
    """
    began = _began_shutdown(question, broker, left)
    if began is None:
        return False, "its ZooKeeper session ended"
    answer, at = _last_answer(question, broker, began, left), question.clock(began.at_ms)
    if answer is None:
        if question.history.is_loaded(began):
            return False, "it was in controlled shutdown, and what it was answered is not remembered any more"
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

    A request of an earlier life of the broker is refused (STALE_BROKER_EPOCH), and its answer has no ``remaining``.
    """
    about = {began.event} | {
        record.number
        for _, record in question.history.of(EventBegin)
        if record.name in _SHUTDOWNS and record.detail.get("broker") == broker
    }
    for entry, record in question.history.of(ReplyRecord):
        if began.number < entry.number < left.number and record.number in about and record.remaining is not None:
            return record
    return None


def why_leaving(question: Question, broker: BrokerId) -> Cause:
    """Return the cause that a broker is in controlled shutdown."""
    began = _began_shutdown(question, broker)
    since = f" since {question.clock(began.at_ms)}" if began is not None else ""
    return cause("broker-shutting-down", f"broker {broker} is shutting down{since}", broker=broker, since=began)


def _began_shutdown(question: Question, broker: BrokerId, before: RecentRecord | None = None) -> RecentRecord | None:
    """Return when the broker went into controlled shutdown, in its life that ended then (None: in its present one).

    A life begins after the end of the one before it. A new term begins without brokers that are
    shutting down, so that nothing of an earlier one counts. Periodic snapshots repeat the record.
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


def why_not_obeying(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return why a live broker may not do what was decided last: it cannot be reached, is slow, or refused."""
    return why_not_reached(partition.question, broker) or _refusal(partition, broker)


def why_not_reached(question: Question, broker: BrokerId) -> Cause | None:
    """Return why a live broker may not know what the controller decided."""
    channel = question.inputs.channels.get(broker)
    if channel is None or not channel.depth:
        return None
    waiting = f"{counted(channel.depth, 'request')} wait"
    if not channel.connected or channel.error:
        text = f"broker {broker} cannot be told: {one_line(channel.error or 'no connection')}; {waiting} for it"
        return cause("broker-unreachable", f"{text}, the oldest for {span(channel.oldest_age_s)}", broker=broker)
    if channel.oldest_age_s < SLOW_S:
        return None
    text = f"broker {broker} does not answer the controller: {waiting}, the oldest for {span(channel.oldest_age_s)}"
    return cause("broker-slow", text, broker=broker)


def _refusal(partition: PartitionQuestion, broker: BrokerId) -> Cause | None:
    """Return what the broker refused in its present life, of this term, and of what was decided last."""
    question, back = partition.question, came_back(partition.question, broker)
    from_number = max((entry.number for entry in (partition.decided, back) if entry is not None), default=0)
    for entry, record in question.history.refusals_of(broker):
        if entry.number < from_number or entry.epoch != question.snapshot.controller_epoch:
            return None
        code = refused_partitions(record).get(str(partition.tp), record.error)
        if code:
            text = f"broker {broker} answered {record.api} with {error_name(code)} at {question.clock(entry.at_ms)}"
            return cause("broker-refuses", text, broker=broker, since=entry)
    return None


def came_back(question: Question, broker: BrokerId) -> RecentRecord | None:
    """Return when the broker registered last, as a change; None when that is not remembered."""
    for entry, record in question.history.of(BrokersRecord):
        if any(row.id == broker for row in record.live):
            return None if question.history.is_loaded(entry) else entry
    return None


# -- this instance -----------------------------------------------------------------------------------------------------


def diagnose_instance(question: Question, diagnosis: Diagnosis) -> None:
    """Put what holds this instance up before all other causes, and name the steps as they can be taken.

    No cause of a partition can be removed while ZooKeeper is out of reach, the queue is stuck, or another
    controller leads.
    """
    diagnosis.next[:] = steps_for_holder(question.snapshot, diagnosis.next)
    held_up = list(_held_up(question))
    if held_up:
        diagnosis.causes[:0] = held_up
        diagnosis.next[:0] = _remedies(question, {each.code for each in held_up})
        diagnosis.at_least(WARNING)


def _held_up(question: Question) -> Iterator[Cause]:
    snapshot, state = question.snapshot, question.inputs.session.state
    if state != "connected":
        since = _session_since(question)
        when = f" since {question.clock(since.at_ms)}" if since is not None else ""
        text = f"the ZooKeeper session of this instance is {state}{when}: it decides nothing, and sees no change"
        yield cause(f"zookeeper-{'suspended' if state == 'suspended' else 'lost'}", text, since=since)
    if snapshot.role in _NOT_LEADING:
        if snapshot.holder is not None or state == "connected":  # the holder cannot be read without a session
            yield _not_leading(question)
    elif question.is_watching and snapshot.holder is None:
        yield cause("no-controller", "nobody holds /controller: no leader is elected, and nothing is decided")
    yield from _stuck(question)


def _not_leading(question: Question) -> Cause:
    role, holder = question.snapshot.role, question.snapshot.holder
    if role is Role.STARTING:
        return cause("controller-starting", "this instance is starting: it knows nothing of partitions yet")
    if holder is None:
        return cause("no-controller", f"nobody holds /controller; this instance is {role.value}")
    since = question.clock(holder.since_ms)
    text = f"this instance is {role.value} and decides nothing: {holder} leads since {since}"
    return cause("standby", text, broker=None if holder.is_controllerd else holder.node_id)


def _stuck(question: Question) -> Iterator[Cause]:
    worker, queue = question.inputs.worker, question.inputs.queue
    in_work = "" if worker.event is None else f"event {worker.number} {worker.event} is in work"
    waiting = f"{counted(queue.depth, 'event')} wait"
    if in_work and worker.since_progress_s >= STUCK_S:
        text = f"{in_work} for {span(worker.running_s)} without progress; {waiting} behind it"
        yield cause("queue-stuck", f"{text}: what is shown here is from before it")
    elif queue.depth and queue.oldest_age_s >= STUCK_S:
        text = f"{waiting}, the oldest for {span(queue.oldest_age_s)}{in_work and f', {in_work}'}"
        yield cause("queue-behind", f"{text}: what happened of late does not show here yet")


def _session_since(question: Question) -> RecentRecord | None:
    """Return when the session was interrupted."""
    begun = None
    for entry, record in question.history.of(SessionRecord):
        if record.state not in _INTERRUPTIONS:
            break
        begun = entry
    return begun


def _remedies(question: Question, codes: set[str]) -> Iterator[str]:
    if codes & {"zookeeper-suspended", "zookeeper-lost"}:
        yield "see that this host reaches ZooKeeper:"
        yield "controllerctl doctor --zk HOSTS"
    if codes & {"queue-stuck", "queue-behind"}:
        yield "controllerctl get queue"
    if "queue-stuck" in codes:
        yield 'controllerctl resign --reason "the queue is stuck"'
    if "no-controller" in codes and question.is_watching:
        yield "start a broker or a controllerd that can reach ZooKeeper"
    elif codes & {"standby", "no-controller"}:
        holder = question.snapshot.holder
        yield f"ask {holder if holder is not None else 'again when somebody leads'}, or look at ZooKeeper itself:"
        yield "controllerctl --zk HOSTS status"
