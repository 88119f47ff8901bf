"""Why nobody leads a partition, or nobody has led it yet."""

import re
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId
from controllerd.core.sanitizer import names_us
from controllerd.status.explain.brokers import why_not_online
from controllerd.status.explain.circumstances import Unclean
from controllerd.status.explain.history import Declined
from controllerd.status.explain.scene import Subject, Verdict, cause
from controllerd.status.explain.words import brokers_of, ids, sentence
from controllerd.status.schema.why import Cause

_PLAIN: Final = re.compile(r"no replica is electable: isr \[[\d, ]*\], online \[[\d, ]*\]")
"""That nobody in sync is alive, and nothing else."""


def judge_offline(subject: Subject, verdict: Verdict) -> None:
    """It has a state, and no leader."""
    online = _online(subject)
    electable = [broker for broker in online if broker in subject.isr]
    if electable:
        _explain_refusal(subject, verdict, electable)
    elif online:
        _explain_isr(subject, verdict, online)
    else:
        _explain_all_down(subject, verdict)


def judge_waiting(subject: Subject, verdict: Verdict) -> None:
    """It is new: the first of its replicas that is alive will lead."""
    replicas, online = subject.view.assignment.replicas, _online(subject)
    if online and names_us(subject.view.assignment):
        _explain_counted(subject, verdict)
        return
    if online:
        refused = _refused(subject)
        reason = sentence(refused.reason) if refused is not None else "its first leader is about to be written"
        code = "election-refused" if refused is not None else "election-pending"
        verdict.because(cause(code, reason, since=refused.entry if refused is not None else None))
        return
    if all(broker in OUR_IDS for broker in replicas):
        verdict.because(*_down(subject, replicas))
        verdict.advise("start a broker: it gets the replica")
        return
    text = f"none of its replicas {ids(replicas)} is alive: the first that comes leads, and nobody else may"
    verdict.because(cause("no-live-replica", text), *_down(subject, replicas))
    other = "" if _has_started(subject) else ", or delete the topic and create it on live brokers"
    verdict.advise(f"start any of the brokers {ids(replicas)}{other}")


def _explain_counted(subject: Subject, verdict: Verdict) -> None:
    """Explain a partition that a broker created with one replica more than there are live brokers (ADR 0033)."""
    text = (
        "it was created by counting controllerd among the live brokers, and no live broker is left to take that "
        "replica: clients get LEADER_NOT_AVAILABLE until one comes"
    )
    ours = tuple(broker for broker in subject.view.assignment.replicas if broker in OUR_IDS)
    verdict.because(cause("counts-controllerd", text), *_down(subject, ours))
    verdict.advise("start another broker: it gets the replica, and the partition gets a leader")
    if not _has_started(subject):
        verdict.advise("or delete the topic, and create it with fewer replicas")


def _has_started(subject: Subject) -> bool:
    """Whether a partition of the topic has had a leader, so that the topic may hold records."""
    topic = subject.scene.snapshot.topics.get(subject.tp.topic)
    return topic is not None and any(each.leadership is not None for each in topic.partitions)


def _explain_refusal(subject: Subject, verdict: Verdict, electable: list[BrokerId]) -> None:
    """Somebody in sync is alive: an election is on its way, or something else is in its way."""
    refused = _refused(subject)
    if refused is None:
        text = f"{brokers_of(electable)} can lead: the election has not been held yet"
        verdict.because(cause("election-pending", text))
        verdict.advise("controllerctl status" if subject.scene.is_watching else "controllerctl get queue")
        return
    text = f"the election was refused at {subject.scene.clock(refused.entry.at_ms)}: {sentence(refused.reason)}"
    verdict.because(cause("election-refused", text, since=refused.entry))
    verdict.advise("remove what the refusal names; then", _elect("preferred", subject))


def _explain_isr(subject: Subject, verdict: Verdict, online: list[BrokerId]) -> None:
    """Replicas are alive, and none of them is known to have every record."""
    down = _down(subject, subject.isr)
    verdict.because(*down)
    alive = f"{ids(online)} {'are' if len(online) > 1 else 'is'} alive but not in the ISR"
    verdict.because(_why_not_unclean(subject, alive), _newcomer(subject, online))
    back = f"bring {brokers_of(subject.isr)} back{_repairs(down)}, or accept data loss"
    if _is_newcomer_first(subject, online):
        cancel = f"controllerctl reassign cancel {subject.tp}"
        verdict.advise(f"{back}, after the reassignment was given up:", cancel, _elect("unclean", subject))
    else:
        verdict.advise(f"{back}:", _elect("unclean", subject))


def _newcomer(subject: Subject, online: list[BrokerId]) -> Cause | None:
    """Of the replicas that live, the first is elected: one that is being added may have copied next to nothing."""
    first, added = online[0], set(subject.view.assignment.adding)
    if first not in added:
        return None
    others = [broker for broker in online if broker not in added]
    how = f"but would be elected before {ids(others)}" if others else "and is the only one alive"
    text = f"{first} is being added and may have next to nothing, {how}"
    return cause("replica-being-added", text, broker=first)


def _is_newcomer_first(subject: Subject, online: list[BrokerId]) -> bool:
    """Whether an unclean election would take a new replica though one lives that only lags."""
    added = set(subject.view.assignment.adding)
    return online[0] in added and not added.issuperset(online)


def _why_not_unclean(subject: Subject, alive: str) -> Cause:
    refused = _refused(subject)
    if refused is not None and not _PLAIN.fullmatch(refused.reason):
        text = f"{alive}; an unclean election was refused: {sentence(refused.reason)}"
        return cause("unclean-refused", text, since=refused.entry)
    unclean = subject.scene.around.unclean(subject.tp.topic)
    if unclean is not None and unclean.is_allowed:
        text = f"{alive}; unclean election is enabled by now, and has not been held yet"
        return cause("unclean-election-pending", text)
    return _unclean_off(alive, unclean, subject.tp.topic)


def _unclean_off(alive: str, unclean: Unclean | None, topic: str) -> Cause:
    if unclean is None:
        return cause("unclean-off", f"{alive}; unclean election was not allowed when it was tried")
    if unclean.origin == "topic":
        text = f"{alive}; unclean election is disabled by the topic {topic}: unclean.leader.election.enable=false"
        return cause("unclean-off-topic", text)
    if unclean.awaited:
        have = "has" if len(unclean.awaited) == 1 else "have"
        whom = brokers_of(unclean.awaited)
        text = f"{alive}; unclean election is off until {whom} {have} said whether it is allowed"
        return cause("unclean-awaits-brokers", text)
    text = f"{alive}; unclean election is disabled by the cluster's default: unclean.leader.election.enable=false"
    return cause("unclean-off-cluster", text)


def _explain_all_down(subject: Subject, verdict: Verdict) -> None:
    replicas = subject.view.assignment.replicas
    down = _down(subject, replicas)
    if len(replicas) == 1:
        verdict.because(*down)
        verdict.advise(f"bring {brokers_of(replicas)} back{_repairs(down)}: nobody else has a copy")
        return
    verdict.because(cause("all-replicas-down", f"none of its replicas {ids(replicas)} is online"), *down)
    verdict.advise(
        f"bring {brokers_of(subject.isr)} back first{_repairs(down)}: "
        f"{'it has' if len(subject.isr) == 1 else 'they have'} every record"
    )


def _down(subject: Subject, brokers: tuple[BrokerId, ...]) -> list[Cause]:
    """How each of these is that is not online."""
    found = (why_not_online(subject.scene, subject.view, subject.tp, broker) for broker in brokers)
    return [why for why in found if why is not None]


def _repairs(down: list[Cause]) -> str:
    """What is to be done about a broker that is there and yet cannot serve."""
    if any(why.code == "log-dir-failed" for why in down):
        return " (repair its log directory and restart it; with an empty one every record is lost)"
    return ""


def _online(subject: Subject) -> list[BrokerId]:
    replicas = subject.view.assignment.replicas
    return [broker for broker in replicas if why_not_online(subject.scene, subject.view, subject.tp, broker) is None]


def _refused(subject: Subject) -> Declined | None:
    """What was refused last of the elections since somebody led."""
    led = next((led.entry.number for led in subject.story.led if led.leader >= 0), 0)
    elections = ("election Offline", "initial leadership")
    refused = (each for each in subject.story.declined if each.what in elections and each.entry.number > led)
    return next(refused, None)


def _elect(how: str, subject: Subject) -> str:
    return f"controllerctl elect {how} --topic {subject.tp.topic} --partition {subject.tp.partition}"
