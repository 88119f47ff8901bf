"""Why a replica is not in sync, and what an election outside the ISR has cost."""

from typing import Final

from controllerd.core.model import BrokerId, LeaderRecoveryState
from controllerd.recent import Entry
from controllerd.status.explain.brokers import came_back, why_not_obeying, why_not_online
from controllerd.status.explain.conditions import UNDER_MIN_ISR
from controllerd.status.explain.cures import advise_about
from controllerd.status.explain.scene import Subject, Verdict, cause
from controllerd.status.schema.why import Cause

FRESH_MS: Final = 24 * 3_600_000
"""For so long after an unclean election it is a warning; later on, only for as long as the leader recovers."""


def judge_replication(subject: Subject, verdict: Verdict) -> None:
    """Which of its replicas are missing in the ISR, and why."""
    assignment = subject.view.assignment
    missing = [broker for broker in assignment.origin if broker not in subject.isr]
    if len(subject.isr) == 1:
        text = f"broker {subject.isr[0]} alone has every record: if it fails, the partition is offline"
        verdict.because(cause("isr-of-one", text, broker=subject.isr[0]))
    for broker in missing:
        verdict.because(why_missing(subject, broker))
    if not missing and verdict.condition == UNDER_MIN_ISR:
        _judge_minimum(subject, verdict)
    advise_about(verdict)


def _judge_minimum(subject: Subject, verdict: Verdict) -> None:
    """Every replica is in sync and writes are refused all the same: more are asked for than there are."""
    topic, replicas = subject.tp.topic, len(subject.view.assignment.origin)
    needed = subject.scene.around.min_isr(topic)
    text = f"all its replicas are in sync, and yet too few: {replicas} where min.insync.replicas asks for {needed}"
    verdict.because(cause("min-isr-above-replicas", text))
    verdict.advise(
        "give the topic more replicas:", f"controllerctl reassign plan --topics {topic} --rf {needed} -f plan.json"
    )
    verdict.advise("or lower its min.insync.replicas with kafka-configs.sh")


def judge_unclean(subject: Subject, verdict: Verdict) -> None:
    """Whether an election outside the ISR is remembered, or shows in the state of the partition."""
    leadership = subject.view.leadership
    lost = next((decided for decided in subject.story.decided if decided.unclean), None)
    if lost is not None and subject.scene.around.now_ms - lost.entry.at_ms > FRESH_MS:
        lost = None
    is_recovering = leadership is not None and leadership.recovery_state is LeaderRecoveryState.RECOVERING
    if lost is None and not is_recovering:
        return
    if lost is None:
        text = f"{subject.tp} was led on by a broker outside the ISR, and recovers: records may be lost"
        verdict.because(cause("unclean-election", text))
        return
    text = f"broker {lost.leader} was elected outside the ISR at {subject.scene.clock(lost.entry.at_ms)}"
    verdict.because(cause("unclean-election", f"{text}: records may be lost", broker=lost.leader, since=lost.entry))
    verdict.advise("tell the owners of the topic: what was acknowledged before that time may be gone")


def why_missing(subject: Subject, broker: BrokerId) -> Cause:
    """Why a replica is not in the ISR."""
    down = why_not_online(subject.scene, subject.view, subject.tp, broker)
    if down is not None:
        return down
    deaf = why_not_obeying(subject.scene, subject.tp, broker, subject.decided)
    return deaf if deaf is not None else _lagging(subject, broker)


def _lagging(subject: Subject, broker: BrokerId) -> Cause:
    """It is alive and does as it is told, so it has not fetched up to the leader's end."""
    scene, left = subject.scene, _left_isr(subject, broker)
    back = came_back(scene, broker)
    if back is not None and (left is None or left.number < back.number):
        text = f"broker {broker} is back since {scene.clock(back.at_ms)} and catches up with leader {subject.leader}"
        return cause("replica-catching-up", text, broker=broker, since=back)
    when = f" since {scene.at(left)}" if left is not None else ""
    unseen = " (or lost its log directory, which ZooKeeper does not tell)" if scene.is_watching else ""
    text = f"broker {broker} is alive and lags behind leader {subject.leader}{unseen}: out of the ISR{when}"
    return cause("replica-lagging", text, broker=broker, since=left)


def _left_isr(subject: Subject, broker: BrokerId) -> Entry | None:
    """When it was last taken out of the ISR; None when that is longer ago than what is remembered."""
    return subject.story.led_since(lambda led: broker not in led.isr)
