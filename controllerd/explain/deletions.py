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
from controllerd.explain.brokers import why_not_online, why_not_reached
from controllerd.explain.history import Steps
from controllerd.explain.inputs import PartitionQuestion, Question
from controllerd.record.records import TopicsForgotten
from controllerd.views import PartitionView, Role, TopicView, say_pause

OFFLINE_REPLICAS: Final = "offline replicas"
REASSIGNMENT: Final = "topic reassignment in progress"
FAILURE: Final = "replica deletion failure"
"""Kafka's own three reasons for which a deletion is halted."""

_REFUSED_BY: Final = re.compile(r"broker (\d+) could not delete")
_NEAR: Final = 3
_WITHIN: Final = 2
"""A mistyped name is at most so many characters longer or shorter."""
_CANDIDATES: Final = 200
_NAMES_AT_ONCE: Final = 500


# -- absent or quarantined ---------------------------------------------------------------------------------------------


def diagnose_missing(question: Question, topic: str, partition: int | None = None) -> Steps[Diagnosis]:
    """Explain why a topic, or a partition of it, is not known."""
    subject = topic if partition is None else f"{topic}-{partition}"
    snapshot = question.snapshot
    unknown = Diagnosis(Condition.UNKNOWN, WARNING, f"{subject} does not exist")
    if (quarantine := question.snapshot.quarantine_of(topic, partition)) is not None:
        condition, headline = Condition.QUARANTINED, f"{subject} is LEFT ALONE: {quarantine[0]} cannot be understood"
        quarantined = Diagnosis(condition, condition.severity, headline)
        because_quarantined(quarantined, *quarantine)
        return quarantined
    if topic in snapshot.topics:
        partitions = snapshot.topics[topic].partitions
        last = f", the last is {topic}-{partitions[-1].partition}" if partitions else ""
        text = f"topic {topic} has {counted(len(partitions), 'partition')}{last}"
        unknown.because(cause("no-such-partition", text))
        unknown.advise(f"controllerctl get partitions --topic {topic}")
    elif snapshot.role in {Role.STANDBY, Role.STARTING, Role.STOPPING}:
        unknown.headline = f"{subject} is not known here: this instance does not lead"
    elif not _find_deletion(question, topic, subject, unknown):
        near = yield from near_names(question, topic)
        hint = f"; did you mean {some(near)}?" if near else ""
        unknown.because(cause("no-such-topic", f"there is no topic {topic}{hint}"))
        unknown.advise(f"controllerctl why {near[0]}" if near else "controllerctl get topics")
    return unknown


def because_quarantined(diagnosis: Diagnosis, path: str, reason: str) -> None:
    """Add the quarantined znode as a cause, and its remedy."""
    code = "quarantined-state" if path.endswith("/state") else "quarantined-topic"
    diagnosis.because(cause(code, f"{path} cannot be understood and is left alone: {one_line(reason)}"))
    diagnosis.advise(f"correct {path} (the audit log has its content): it is read again by itself")


def _find_deletion(question: Question, topic: str, subject: str, unknown: Diagnosis) -> bool:
    """Complete the answer for a topic that was deleted; return whether that is remembered."""
    forgotten = (entry for entry, record in question.history.of(TopicsForgotten) if topic in record.names)
    if (gone := next(forgotten, None)) is None:
        return False
    asked = question.deletion_asked_for(topic)
    how = f": its deletion was asked for at {question.at(asked)}" if asked is not None else ""
    unknown.headline = f"{subject} does not exist any more: {topic} is gone since {question.clock(gone.at_ms)}"
    unknown.since = gone
    unknown.because(cause("topic-deleted", f"topic {topic} was deleted at {question.at(gone)}{how}", since=gone))
    return True


def near_names(question: Question, topic: str) -> Steps[list[str]]:
    """Find the topics whose names are most like this one, the best first."""
    wanted = _plain(topic)
    letters, candidates = set(wanted), list[str]()
    for at, name in enumerate(list(question.snapshot.topics)):
        plain = _plain(name)
        is_part = len(wanted) > _WITHIN and (wanted in plain or plain in wanted)
        if is_part or (abs(len(plain) - len(wanted)) <= _WITHIN and len(letters ^ set(plain)) <= _WITHIN):
            candidates.append(name)
        if len(candidates) == _CANDIDATES:  # to compare more names would take too long
            break
        if not at % _NAMES_AT_ONCE:
            yield
    candidates.sort(key=lambda name: -difflib.SequenceMatcher(None, wanted, _plain(name)).ratio())
    return candidates[:_NEAR]


def _plain(name: str) -> str:
    """Names that differ in case or punctuation alone are easily mistaken for each other."""
    return re.sub(r"[._-]", "", name.casefold())


# -- being deleted -----------------------------------------------------------------------------------------------------


def diagnose_deletion(question: Question, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    """Explain why a topic is not gone yet."""
    deletion = topic.deletion
    assert deletion is not None, "only asked about topics that are to be deleted"
    if DELETIONS in question.snapshot.pauses:
        pause = one_line(say_pause(question.snapshot.pauses[DELETIONS]))
        diagnosis.because(cause("deletions-paused", f"deletions are {pause}"))
        diagnosis.advise("controllerctl resume deletions")
    if deletion.is_queued and deletion.held_up_by is not None:
        diagnosis.at_least(WARNING)
        for reason in deletion.held_up_by.split("; "):
            yield from _explain(question, topic, reason, diagnosis)
    elif question.is_watching:
        yield from _explain_from_zookeeper(question, topic, diagnosis)
    elif not diagnosis.causes:
        diagnosis.because(*_under_way(question, deletion.deleting))
        if len(diagnosis.causes) > 1:
            diagnosis.at_least(WARNING)
    diagnosis.advise_about_brokers()
    gone = [each.broker for each in diagnosis.causes if each.code == "broker-gone"]
    if gone and diagnosis.has("deletion-offline-replicas"):
        diagnosis.advise(f"or, if {'it never returns' if len(gone) == 1 else 'they never return'}:")
        diagnosis.advise(*(f'controllerctl brokers forget {broker} --reason "never returns"' for broker in gone))


def _explain(question: Question, topic: TopicView, reason: str, diagnosis: Diagnosis) -> Steps[None]:
    """Explain one reason, as the deletion manager words it."""
    if reason.endswith("not online"):
        yield from _explain_offline(question, topic, diagnosis)
    elif reason.startswith("waits for the reassignment"):
        yield from _explain_reassignment(topic, diagnosis)
    elif "could not delete" in reason or "could not be stopped" in reason:
        found = _REFUSED_BY.search(reason)
        broker = int(found[1]) if found else None
        diagnosis.because(cause("deletion-failed", f"{FAILURE}: {one_line(reason)}", broker=broker))
        diagnosis.advise("remove what the broker complains of (its log says why); it is asked again by itself")
    elif reason.startswith("its znode"):
        diagnosis.because(cause("quarantined", f"/brokers/topics/{topic.name} cannot be understood"))
    else:
        diagnosis.because(cause("deletion-held-up", one_line(reason)))


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
        diagnosis.because(cause("deletion-offline-replicas", text, broker=broker))
        tp = TopicPartition(topic.name, sample[broker].partition)
        diagnosis.because(why_not_online(PartitionQuestion(question, tp, sample[broker]), broker))


def _explain_reassignment(topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    moving = list[str]()
    for view in topic.partitions:
        if view.assignment.is_being_reassigned:
            behind = [broker for broker in view.assignment.target if broker not in view.isr]
            waits = f" (waits for the ISR of replica {ids(behind)})" if behind else ""
            moving.append(f"{topic.name}-{view.partition}{waits}")
        yield
    text = f"{REASSIGNMENT}: {some(moving, 3)}; it ends first, and then the topic goes"
    diagnosis.because(cause("deletion-waits-for-reassignment", text))
    first = moving[0].partition(" ")[0] if moving else topic.name
    diagnosis.advise("wait for it, or give it up:", f"controllerctl reassign cancel {first}")


def _explain_from_zookeeper(question: Question, topic: TopicView, diagnosis: Diagnosis) -> Steps[None]:
    """Explain a deletion by another controller: ZooKeeper shows what must hold it up, but not how far it is."""
    before = len(diagnosis.causes)
    if any(view.assignment.is_being_reassigned for view in topic.partitions):
        yield from _explain_reassignment(topic, diagnosis)
    yield from _explain_offline(question, topic, diagnosis)
    if len(diagnosis.causes) == before:
        text = "its deletion was asked for; how far the controller is with it does not stand in ZooKeeper"
        diagnosis.because(cause("deletion-under-way", text))
    else:
        diagnosis.at_least(WARNING)


def _under_way(question: Question, deleting: tuple[BrokerId, ...]) -> Iterator[Cause | None]:
    if not deleting:
        yield cause("deletion-under-way", "nothing holds it up: the next step is about to be taken")
        return
    text = f"{brokers_of(deleting)} had to delete replicas, and the answer is waited for"
    yield cause("deletion-under-way", text)
    yield from (why_not_reached(question, broker) for broker in deleting)
