"""What a reassignment waits for."""

from collections.abc import Sequence

from controllerd.core.model import BrokerId
from controllerd.status.explain.brokers import why_not_obeying, why_not_online
from controllerd.status.explain.cures import advise_about
from controllerd.status.explain.scene import Subject, Verdict, cause
from controllerd.status.explain.words import ids
from controllerd.status.schema.why import Cause


def judge_move(subject: Subject, verdict: Verdict) -> None:
    """Which of the replicas that are added have not caught up, and why; or why the last step is not taken."""
    target = subject.view.assignment.target
    behind = [broker for broker in target if broker not in subject.isr]
    for broker in behind:
        verdict.because(*_why_behind(subject, broker))
    if not behind:
        verdict.because(_why_not_over(subject, target))
    advise_about(verdict)
    if any(each.code == "reassignment-target-down" for each in verdict.causes):
        verdict.advise("or give the reassignment up:", f"controllerctl reassign cancel {subject.tp}")


def _why_behind(subject: Subject, broker: BrokerId) -> Sequence[Cause]:
    down = why_not_online(subject.scene, subject.view, subject.tp, broker)
    if down is not None:
        text = f"the reassignment of {subject.tp} is stuck: its target broker {broker} is not online"
        return cause("reassignment-target-down", text, broker=broker), down
    text = f"the reassignment of {subject.tp} waits for replica {broker} to join the ISR"
    waits = cause("reassignment-waits-for-isr", text, broker=broker)
    deaf = why_not_obeying(subject.scene, subject.tp, broker, subject.decided)
    return (deaf, waits) if deaf is not None else (waits,)


def _why_not_over(subject: Subject, target: tuple[BrokerId, ...]) -> Cause:
    """The whole target is in sync."""
    down = [why_not_online(subject.scene, subject.view, subject.tp, broker) for broker in target]
    if target and all(down):
        text = f"its targets {ids(target)} are in sync and none is online: it ends when one is"
        return cause("reassignment-target-down", text, broker=target[0])
    refused = next((each for each in subject.story.declined if each.what.startswith("reassignment")), None)
    if refused is not None:
        text = f"its last step was refused at {subject.scene.at(refused.entry)}: {refused.reason}"
        return cause("reassignment-refused", text, since=refused.entry)
    return cause("reassignment-ending", "all its targets are in sync: the last step is about to be taken")
