"""Why there is no such partition, or no such topic: left alone, deleted, never there, or spelt otherwise."""

import difflib
import re
from collections.abc import AsyncIterator
from typing import Final

from controllerd.recent import Entry
from controllerd.record.records import TopicsForgotten
from controllerd.snapshot import Role
from controllerd.status.explain import conditions
from controllerd.status.explain.scene import CRITICAL, WARNING, Scene, Verdict, cause, quarantine_of
from controllerd.status.explain.words import count, sentence, some

_NEAR: Final = 3
_WITHIN: Final = 2
"""A mistyped name is at most so many characters longer or shorter."""
_CANDIDATES: Final = 200


async def judge_missing(scene: Scene, topic: str, partition: int | None = None) -> Verdict:
    """Nothing is known of it."""
    subject = topic if partition is None else f"{topic}-{partition}"
    left_alone = quarantine_of(scene.snapshot, topic, partition)
    if left_alone is not None:
        return quarantined(subject, *left_alone)
    if topic in scene.snapshot.topics:
        return _no_such_partition(scene, topic, subject)
    if scene.snapshot.role in {Role.STANDBY, Role.STARTING, Role.STOPPING}:
        return Verdict(conditions.UNKNOWN, WARNING, f"{subject} is not known here: this instance does not lead")
    deleted = _deleted(scene, topic)
    if deleted is not None:
        return _was_deleted(scene, topic, subject, deleted)
    return await _unheard_of(scene, topic, subject)


def quarantined(subject: str, path: str, reason: str) -> Verdict:
    """Its znode cannot be understood."""
    verdict = Verdict(conditions.QUARANTINED, CRITICAL, f"{subject} is LEFT ALONE: {path} cannot be understood")
    because_quarantined(verdict, path, reason)
    return verdict


def because_quarantined(verdict: Verdict, path: str, reason: str) -> None:
    """The znode as the cause, and what to do about it."""
    code = "quarantined-state" if path.endswith("/state") else "quarantined-topic"
    verdict.because(cause(code, f"{path} cannot be understood and is left alone: {sentence(reason)}"))
    verdict.advise(f"correct {path} (the audit log has its content): it is read again by itself")


def _no_such_partition(scene: Scene, topic: str, subject: str) -> Verdict:
    partitions = scene.snapshot.topics[topic].partitions
    last = f", the last is {topic}-{partitions[-1].partition}" if partitions else ""
    verdict = Verdict(conditions.UNKNOWN, WARNING, f"{subject} does not exist")
    verdict.because(cause("no-such-partition", f"topic {topic} has {count(len(partitions), 'partition')}{last}"))
    verdict.advise(f"controllerctl get partitions --topic {topic}")
    return verdict


def _deleted(scene: Scene, topic: str) -> Entry | None:
    """When the topic was forgotten."""
    return next((entry for entry, record in scene.history.of(TopicsForgotten) if topic in record.names), None)


def _was_deleted(scene: Scene, topic: str, subject: str, gone: Entry) -> Verdict:
    asked = scene.deletion_asked_for(topic)
    how = f": its deletion was asked for at {scene.at(asked)}" if asked is not None else ""
    headline = f"{subject} does not exist any more: {topic} is gone since {scene.clock(gone.at_ms)}"
    verdict = Verdict(conditions.UNKNOWN, WARNING, headline, gone)
    verdict.because(cause("topic-deleted", f"topic {topic} was deleted at {scene.at(gone)}{how}", since=gone))
    return verdict


async def _unheard_of(scene: Scene, topic: str, subject: str) -> Verdict:
    near = await near_names(scene, topic)
    verdict = Verdict(conditions.UNKNOWN, WARNING, f"{subject} does not exist")
    hint = f"; did you mean {some(near)}?" if near else ""
    verdict.because(cause("no-such-topic", f"there is no topic {topic}{hint}"))
    verdict.advise(f"controllerctl why {near[0]}" if near else "controllerctl get topics")
    return verdict


async def near_names(scene: Scene, topic: str) -> list[str]:
    """The topics whose names are most like this one, the best first."""
    wanted = _plain(topic)
    candidates = [name async for name in _candidates(scene, wanted)]
    ranked = sorted(candidates, key=lambda name: -difflib.SequenceMatcher(None, wanted, _plain(name)).ratio())
    return ranked[:_NEAR]


async def _candidates(scene: Scene, wanted: str) -> AsyncIterator[str]:
    """At most some hundreds that are worth a closer look: to compare names is dear."""
    letters, found = set(wanted), 0
    for at, name in enumerate(list(scene.snapshot.topics)):
        plain = _plain(name)
        is_part = len(wanted) > _WITHIN and (wanted in plain or plain in wanted)
        if is_part or (abs(len(plain) - len(wanted)) <= _WITHIN and len(letters ^ set(plain)) <= _WITHIN):
            found += 1
            yield name
        if found == _CANDIDATES:
            return
        if not at % 500:
            await scene.pace.breathe()


def _plain(name: str) -> str:
    """Names that differ in case or punctuation alone are the same to who types them."""
    return re.sub(r"[._-]", "", name.casefold())
