"""Explanations of topics and partitions that are absent or quarantined, and of deletions that wait."""

import difflib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from controllerd.core.intents import DELETIONS
from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.core.text import counted
from controllerd.explain.answers import WARNING, Cause, Condition, Diagnosis, brokers_of, cause, ids, one_line, some
from controllerd.explain.brokers import why_not_online, why_requests_wait
from controllerd.explain.history import Steps
from controllerd.explain.inputs import PartitionQuestion, Question
from controllerd.record.envelope import RecentRecord
from controllerd.record.records import TopicsForgotten
from controllerd.views import PartitionView, Role, TopicView, describe_pause

OFFLINE_REPLICAS: Final = "offline replicas"
REASSIGNMENT: Final = "topic reassignment in progress"
FAILURE: Final = "replica deletion failure"
"""The three reasons for which Kafka halts a deletion, in Kafka's words."""

_REFUSED_BY: Final = re.compile(r"broker (\d+) could not delete")
_SUGGESTED: Final = 3
_MAX_DIFFERENCE: Final = 2
"""A mistyped name differs from the real one by at most this number of characters."""
_CANDIDATES: Final = 200
_NAMES_PER_STEP: Final = 500


# -- absent or quarantined ---------------------------------------------------------------------------------------------


def diagnose_missing(question: Question, topic: str, partition: int | None = None) -> Steps[Diagnosis]:
    """Explain why a topic, or a partition of it, is not known."""
    subject = topic if partition is None else f"{topic}-{partition}"
    snapshot = question.snapshot
    unknown = Diagnosis(Condition.UNKNOWN, WARNING, f"{subject} does not exist")
    if (quarantine := question.snapshot.quarantine_of(topic, partition)) is not None:
        condition, headline = Condition.QUARANTINED, f"{subject} is LEFT ALONE: {quarantine[0]} cannot be understood"
        quarantined = Diagnosis(condition, condition.severity, headline)
        add_quarantine(quarantined, *quarantine)
        return quarantined
    if topic in snapshot.topics:
        partitions = snapshot.topics[topic].partitions
        last = f", the last is {topic}-{partitions[-1].partition}" if partitions else ""
        text = f"topic {topic} has {counted(len(partitions), 'partition')}{last}"
        unknown.add_causes(cause("no-such-partition", text))
        unknown.add_steps(f"controllerctl get partitions --topic {topic}")
    elif snapshot.role in {Role.STANDBY, Role.STARTING, Role.STOPPING}:
        unknown.headline = f"{subject} is not known here: this instance is not the active controller"
    elif (gone := _deletion_of(question, topic)) is not None:
        _add_deletion(question, topic, gone, unknown)
        unknown.headline = f"{subject} does not exist any more: {topic} was deleted at {question.clock(gone.at_ms)}"
    else:
        near = yield from similar_names(question, topic)
        hint = f"; did you mean {some(near)}?" if near else ""
        unknown.add_causes(cause("no-such-topic", f"there is no topic {topic}{hint}"))
        unknown.add_steps(f"controllerctl why {near[0]}" if near else "controllerctl get topics")
    return unknown


def add_quarantine(diagnosis: Diagnosis, path: str, reason: str) -> None:
    """Add a quarantined znode as a cause, and its remedy."""
    code = "quarantined-state" if path.endswith("/state") else "quarantined-topic"
    diagnosis.add_causes(cause(code, f"{path} cannot be understood and is left alone: {one_line(reason)}"))
    diagnosis.add_steps(
        f"correct {path} (the audit log has its content): the controller reads it again without a command"
    )


def _deletion_of(question: Question, topic: str) -> RecentRecord | None:
    """Return the newest of the recent records that says that the topic was deleted."""
    return next((entry for entry, record in question.history.of(TopicsForgotten) if topic in record.names), None)


def _add_deletion(question: Question, topic: str, gone: RecentRecord, unknown: Diagnosis) -> None:
    """Add the deletion of a topic as the cause."""
    requested = question.deletion_request(topic)
    how = f": its deletion was requested at {question.at(requested)}" if requested is not None else ""
    unknown.since = gone
    unknown.add_causes(cause("topic-deleted", f"topic {topic} was deleted at {question.at(gone)}{how}", since=gone))


def similar_names(question: Question, topic: str) -> Steps[list[str]]:
    """Find the topics with the most similar names, the best match first."""
    wanted = _plain(topic)
    letters, candidates = set(wanted), list[str]()
    for at, name in enumerate(list(question.snapshot.topics)):
        plain = _plain(name)
        is_part = len(wanted) > _MAX_DIFFERENCE and (wanted in plain or plain in wanted)
        if is_part or (
            abs(len(plain) - len(wanted)) <= _MAX_DIFFERENCE and len(letters ^ set(plain)) <= _MAX_DIFFERENCE
        ):
            candidates.append(name)
        if len(candidates) == _CANDIDATES:  # comparing more names would take too long
            break
        if not at % _NAMES_PER_STEP:
            yield
    candidates.sort(key=lambda name: -difflib.SequenceMatcher(None, wanted, _plain(name)).ratio())
    return candidates[:_SUGGESTED]


def _plain(name: str) -> str:
    """Return a name without case and punctuation, which are easily mistyped."""
    return re.sub(r"[._-]", "", name.casefold())


# -- being deleted -----------------------------------------------------------------------------------------------------


def diagnose_deletion(question: Question, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    """Explain why a topic is not gone yet."""
    deletion = topic.deletion
    assert deletion is not None, "only called for topics with a requested deletion"
    if DELETIONS in question.snapshot.pauses:
        pause = one_line(describe_pause(question.snapshot.pauses[DELETIONS]))
        diagnosis.add_causes(cause("deletions-paused", f"deletions are {pause}"))
        diagnosis.add_steps("controllerctl resume deletions")
    if deletion.is_queued and deletion.held_up_by is not None:
        diagnosis.raise_severity(WARNING)
        for reason in deletion.held_up_by.split("; "):
            yield from _explain(question, topic, reason, diagnosis)
    elif question.is_observing:
        yield from _explain_from_zookeeper(question, topic, diagnosis)
    elif not diagnosis.causes:
        diagnosis.add_causes(*_under_way(question, deletion.deleting))
        if len(diagnosis.causes) > 1:  # besides the deletion itself: a broker that does not take requests
            diagnosis.raise_severity(WARNING)
    diagnosis.add_broker_remedies()
    gone = [each.broker for each in diagnosis.causes if each.code == "broker-gone"]
    if gone and diagnosis.has_cause("deletion-offline-replicas"):
        diagnosis.add_steps(f"or, if {'it never returns' if len(gone) == 1 else 'they never return'}:")
        diagnosis.add_steps(*(f'controllerctl brokers forget {broker} --reason "never returns"' for broker in gone))


def _explain(question: Question, topic: TopicView, reason: str, diagnosis: Diagnosis) -> Steps[None]:
    """Explain one reason, given in the words of the deletion manager."""
    if reason.endswith("not online"):
        yield from _explain_offline(question, topic, diagnosis)
    elif reason.startswith("waits for the reassignment"):
        yield from _explain_reassignment(topic, diagnosis)
    elif "could not delete" in reason or "could not be stopped" in reason:
        found = _REFUSED_BY.search(reason)
        broker = int(found[1]) if found else None
        diagnosis.add_causes(cause("deletion-failed", f"{FAILURE}: {one_line(reason)}", broker=broker))
        diagnosis.add_steps(
            "correct the problem in the log of the broker; then controllerd repeats the request without a command"
        )
    elif reason.startswith("its znode"):
        diagnosis.add_causes(cause("quarantined", f"/brokers/topics/{topic.name} cannot be understood"))
    else:
        diagnosis.add_causes(cause("deletion-held-up", one_line(reason)))


def _explain_offline(question: Question, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    found = Counter[BrokerId]()
    sample = dict[BrokerId, PartitionView]()
    for view in topic.partitions:
        for broker in view.offline_replicas:
            if broker not in question.snapshot.shutting_down and broker not in OUR_IDS:
                found[broker] += 1
                sample.setdefault(broker, view)
        yield
    for broker, replicas in sorted(found.items()):
        text = f"{OFFLINE_REPLICAS}: {counted(replicas, 'replica')} on broker {broker} cannot be deleted"
        diagnosis.add_causes(cause("deletion-offline-replicas", text, broker=broker))
        tp = TopicPartition(topic.name, sample[broker].partition)
        diagnosis.add_causes(why_not_online(PartitionQuestion(question, tp, sample[broker]), broker))


def _explain_reassignment(topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    moving = list[str]()
    for view in topic.partitions:
        if view.assignment.is_being_reassigned:
            behind = [broker for broker in view.assignment.target if broker not in view.isr]
            waits = f" (waits for the ISR of replica {ids(behind)})" if behind else ""
            moving.append(f"{topic.name}-{view.partition}{waits}")
        yield
    text = f"{REASSIGNMENT}: {some(moving, 3)}; the topic is deleted once it has ended"
    diagnosis.add_causes(cause("deletion-waits-for-reassignment", text))
    first = moving[0].partition(" ")[0] if moving else topic.name
    diagnosis.add_steps("wait for it, or cancel it:", f"controllerctl reassign cancel {first}")


def _explain_from_zookeeper(question: Question, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    """Explain a deletion by another controller: ZooKeeper shows reasons for a wait, but not the progress."""
    before = len(diagnosis.causes)
    if any(view.assignment.is_being_reassigned for view in topic.partitions):
        yield from _explain_reassignment(topic, diagnosis)
    yield from _explain_offline(question, topic, diagnosis)
    if len(diagnosis.causes) == before:
        text = "its deletion was requested; ZooKeeper does not show how far the controller is with it"
        diagnosis.add_causes(cause("deletion-under-way", text))
    else:
        diagnosis.raise_severity(WARNING)


def _under_way(question: Question, deleting: tuple[BrokerId, ...]) -> Iterator[Cause | None]:
    if not deleting:
        yield cause("deletion-under-way", "nothing holds it up: the next step follows")
        return
    text = f"{brokers_of(deleting)} must delete replicas; the deletion waits for the answer"
    yield cause("deletion-under-way", text)
    yield from (why_requests_wait(question, broker) for broker in deleting)
