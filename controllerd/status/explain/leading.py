"""Why a partition is not led by its preferred replica."""

from controllerd.core.imbalance import is_imbalanced
from controllerd.core.model import BrokerId
from controllerd.core.pauses import AUTO_REBALANCE, drain_of
from controllerd.snapshot import say_pause
from controllerd.status.explain.brokers import why_not_online
from controllerd.status.explain.cures import advise_about
from controllerd.status.explain.scene import Scene, Subject, Verdict, cause
from controllerd.status.explain.words import ids, sentence, span
from controllerd.status.schema.why import Cause

_PERCENT = 100


async def judge_leader(subject: Subject, verdict: Verdict) -> None:
    """What keeps the preferred replica from leading."""
    preferred = subject.view.assignment.replicas[0]
    down = why_not_online(subject.scene, subject.view, subject.tp, preferred)
    if down is not None:
        verdict.because(down)
    else:
        await _judge_rebalance(subject, verdict, preferred)
    advise_about(verdict)


def judge_preferred(subject: Subject, verdict: Verdict) -> None:
    """Where something worse is the matter: whether the preferred replica cannot lead for that reason."""
    preferred = next(iter(subject.view.assignment.replicas), None)
    if preferred is not None and is_imbalanced(subject.view) and preferred not in subject.isr:
        text = f"preferred replica {preferred} does not lead {subject.tp}: it is not in the ISR {ids(subject.isr)}"
        verdict.because(cause("preferred-not-in-isr", text, broker=preferred))


async def _judge_rebalance(subject: Subject, verdict: Verdict, preferred: BrokerId) -> None:
    """It could lead at once; elections are held every few minutes, where they are needed and allowed."""
    verdict.because(_paused(subject.scene, preferred) or await _why_not_yet(subject, preferred))
    if any(each.code in {"auto-rebalance-paused", "broker-drained"} for each in verdict.causes):
        verdict.advise(f"controllerctl resume {_pause_of(subject.scene, preferred)}")
    verdict.advise(f"controllerctl elect preferred --topic {subject.tp.topic} --partition {subject.tp.partition}")


def _pause_of(scene: Scene, preferred: BrokerId) -> str | None:
    names = (AUTO_REBALANCE, drain_of(preferred))
    return next((name for name in names if name in scene.snapshot.pauses), None)


def _paused(scene: Scene, preferred: BrokerId) -> Cause | None:
    name = _pause_of(scene, preferred)
    if name is None:
        return None
    pause = scene.snapshot.pauses[name]
    if name == AUTO_REBALANCE:
        return cause(
            "auto-rebalance-paused", f"the automatic rebalance is {sentence(say_pause(pause))}", broker=preferred
        )
    text = f"broker {preferred} is drained and gets no leaderships back: {sentence(say_pause(pause))}"
    return cause("broker-drained", text, broker=preferred)


async def _why_not_yet(subject: Subject, preferred: BrokerId) -> Cause:
    policy = subject.scene.around.policy
    able = f"replica {preferred} is in sync and could lead"
    if subject.scene.is_watching:
        text = f"{able}: the controller's automatic rebalance elects it, where that is on and the imbalance too great"
        return cause("rebalance-by-controller", text, broker=preferred)
    if not policy.auto_leader_rebalance_enable:
        text = f"{able}: the automatic rebalance is off (auto.leader.rebalance.enable=false)"
        return cause("auto-rebalance-off", text, broker=preferred)
    share = await imbalance_of(subject.scene, preferred)
    if share * _PERCENT <= policy.leader_imbalance_per_broker_percentage:
        limit = policy.leader_imbalance_per_broker_percentage
        text = f"{able}; only {share:.1%} of broker {preferred}'s partitions are led by others"
        rule = f"rebalanced above {limit}% (leader.imbalance.per.broker.percentage)"
        return cause("imbalance-tolerated", f"{text}, {rule}", broker=preferred)
    every = span(policy.leader_imbalance_check_interval_s)
    return cause("rebalance-due", f"{able}: the automatic rebalance elects it within {every}", broker=preferred)


async def imbalance_of(scene: Scene, broker: BrokerId) -> float:
    """The share of the partitions which a broker should lead that others lead (0 to 1), as the rebalance counts."""
    preferred = led_by_others = 0
    for name, topic in list(scene.snapshot.topics.items()):
        if topic.is_hidden or name not in scene.snapshot.topics:
            continue
        for view in topic.partitions:
            replicas = view[2][0]
            if replicas and replicas[0] == broker:
                preferred += 1
                led_by_others += view[3] is not None and view[3][0] != broker
        await scene.pace.breathe()
    return led_by_others / preferred if preferred else 0.0
