"""What is the matter with one partition, why, and what helps."""

from typing import Final

from controllerd.clock import iso
from controllerd.core.model import NO_LEADER, TopicPartition
from controllerd.pace import Pace
from controllerd.snapshot import TopicView
from controllerd.status.explain import conditions
from controllerd.status.explain.brokers import why_not_obeying, why_not_online
from controllerd.status.explain.circumstances import Circumstances
from controllerd.status.explain.conditions import SEVERITIES, condition_of, rules_of
from controllerd.status.explain.cures import advise_about
from controllerd.status.explain.deleting import judge_deletion
from controllerd.status.explain.facts import facts_of
from controllerd.status.explain.headlines import headline_of, since_of
from controllerd.status.explain.leading import judge_leader, judge_preferred
from controllerd.status.explain.leaving import judge_leaving
from controllerd.status.explain.missing import because_quarantined, judge_missing
from controllerd.status.explain.moving import judge_move
from controllerd.status.explain.offline import judge_offline, judge_waiting
from controllerd.status.explain.replication import judge_replication, judge_unclean
from controllerd.status.explain.scene import OK, WARNING, Subject, Verdict, quarantine_of, set_scene
from controllerd.status.explain.surroundings import judge_surroundings
from controllerd.status.schema.why import Why

_WORRYING: Final = {
    "unclean-election",
    "broker-unreachable",
    "broker-slow",
    "broker-refuses",
    "leader-shutting-down",
}
"""Causes for which not even a healthy partition is all right."""


async def explain_partition(around: Circumstances, tp: TopicPartition, pace: Pace | None = None) -> Why:
    """The answer for one partition, whether it exists or not. Gives the event loop its turns."""
    scene = await set_scene(around, pace)
    topic, view = scene.snapshot.topics.get(tp.topic), scene.snapshot.partition(tp)
    if topic is None or view is None:
        verdict = await judge_missing(scene, tp.topic, tp.partition)
        judge_surroundings(scene, verdict)
        return answer(str(tp), verdict, [])
    subject = Subject(scene, tp, view, await scene.history.partition(tp))
    verdict = await judge_partition(subject, topic)
    judge_surroundings(scene, verdict)
    return answer(str(tp), verdict, facts_of(subject))


def answer(subject: str, verdict: Verdict, facts: list[str], others: list[str] | None = None) -> Why:
    """A verdict as it is published."""
    return Why(
        subject=subject,
        condition=verdict.condition,
        severity=verdict.severity,
        headline=verdict.headline,
        since=iso(verdict.since.at_ms) if verdict.since is not None else None,
        causes=verdict.causes,
        facts=facts,
        next=verdict.next,
        others=others or [],
    )


async def judge_partition(subject: Subject, topic: TopicView) -> Verdict:
    """The verdict on a partition that exists, surroundings left out."""
    scene, around = subject.scene, subject.scene.around
    rules = rules_of(topic, around.min_isr(topic.name), scene.snapshot.quarantine)
    condition = condition_of(subject.view, rules)
    since = since_of(subject, condition)
    verdict = Verdict(condition, SEVERITIES[condition], headline_of(subject, condition, since), since)
    _judge_quarantine(subject, verdict)
    await _judge_condition(subject, topic, verdict)
    await _judge_the_rest(subject, topic, verdict)
    return verdict


def _judge_quarantine(subject: Subject, verdict: Verdict) -> None:
    left_alone = quarantine_of(subject.scene.snapshot, subject.tp.topic, subject.tp.partition)
    if left_alone is not None:
        because_quarantined(verdict, *left_alone)


async def _judge_condition(subject: Subject, topic: TopicView, verdict: Verdict) -> None:
    match verdict.condition:
        case conditions.DELETING:
            await judge_deletion(subject.scene, topic, verdict)
        case conditions.OFFLINE:
            judge_offline(subject, verdict)
        case conditions.WAITING:
            judge_waiting(subject, verdict)
        case conditions.UNDER_MIN_ISR | conditions.AT_MIN_ISR | conditions.UNDER_REPLICATED:
            judge_replication(subject, verdict)
        case conditions.NON_PREFERRED:
            await judge_leader(subject, verdict)
        case _:
            pass


async def _judge_the_rest(subject: Subject, topic: TopicView, verdict: Verdict) -> None:
    """What is the matter besides, for whichever condition."""
    is_led = subject.leader is not None and subject.leader != NO_LEADER
    if verdict.condition != conditions.DELETING:
        if is_led and subject.view.assignment.is_being_reassigned:
            judge_move(subject, verdict)
            _warn_if(verdict, {"reassignment-target-down", "reassignment-refused"})
        if is_led:
            judge_preferred(subject, verdict)
        if topic.deletion is not None:
            await judge_deletion(subject.scene, topic, verdict)
        _judge_obedience(subject, verdict)
        judge_leaving(subject, verdict)
    judge_unclean(subject, verdict)
    _warn_if(verdict, _WORRYING)


def _judge_obedience(subject: Subject, verdict: Verdict) -> None:
    """Live replicas that do not hear, or do not do, what the controller decided: the picture is not theirs."""
    for broker in subject.view.assignment.replicas:
        if why_not_online(subject.scene, subject.view, subject.tp, broker) is None:
            verdict.because(why_not_obeying(subject.scene, subject.tp, broker, subject.decided))
    if {"broker-unreachable", "broker-slow", "broker-refuses"} & {each.code for each in verdict.causes}:
        advise_about(verdict)


def _warn_if(verdict: Verdict, codes: set[str]) -> None:
    if verdict.severity == OK and codes & {each.code for each in verdict.causes}:
        verdict.severity = WARNING
