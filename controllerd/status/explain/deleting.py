"""What the deletion of a topic waits for: Kafka's three reasons, and who is behind each."""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, TopicPartition
from controllerd.core.pauses import DELETIONS
from controllerd.snapshot import PartitionView, TopicView, say_pause
from controllerd.status.explain.brokers import why_not_heard, why_not_online
from controllerd.status.explain.cures import advise_about
from controllerd.status.explain.scene import SEVERITY_ORDER, WARNING, Scene, Verdict, cause
from controllerd.status.explain.words import brokers_of, count, ids, sentence, some
from controllerd.status.schema.why import Cause

OFFLINE_REPLICAS: Final = "offline replicas"
REASSIGNMENT: Final = "topic reassignment in progress"
FAILURE: Final = "replica deletion failure"
"""Kafka's own three words for why a deletion is halted."""
_REFUSED_BY: Final = re.compile(r"broker (\d+) could not delete")


async def judge_deletion(scene: Scene, topic: TopicView, verdict: Verdict) -> None:
    """Why the topic is not gone yet."""
    deletion = topic.deletion
    assert deletion is not None, "only asked about topics that are to be deleted"
    if DELETIONS in scene.snapshot.pauses:
        pause = sentence(say_pause(scene.snapshot.pauses[DELETIONS]))
        verdict.because(cause("deletions-paused", f"deletions are {pause}"))
        verdict.advise("controllerctl resume deletions")
    if deletion.is_queued and deletion.held_up_by is not None:
        verdict.severity = max(verdict.severity, WARNING, key=SEVERITY_ORDER.index)
        for reason in deletion.held_up_by.split("; "):
            await _explain(scene, topic, reason, verdict)
    elif scene.is_watching:
        await _as_far_as_seen(scene, topic, verdict)
    elif not verdict.causes:
        verdict.because(*_under_way(scene, deletion.deleting))
        if len(verdict.causes) > 1:
            verdict.severity = max(verdict.severity, WARNING, key=SEVERITY_ORDER.index)
    advise_about(verdict)
    _advise_forget(verdict)


async def _explain(scene: Scene, topic: TopicView, reason: str, verdict: Verdict) -> None:
    """One reason as the deletion manager words it, with what stands behind it."""
    if reason.endswith("not online"):
        await _explain_offline(scene, topic, verdict)
    elif reason.startswith("waits for the reassignment"):
        await _explain_moves(scene, topic, verdict)
    elif "could not delete" in reason or "could not be stopped" in reason:
        found = _REFUSED_BY.search(reason)
        broker = int(found[1]) if found else None
        verdict.because(cause("deletion-failed", f"{FAILURE}: {sentence(reason)}", broker=broker))
        verdict.advise("remove what the broker complains of (its log says why); it is asked again by itself")
    elif reason.startswith("its znode"):
        verdict.because(cause("quarantined", f"/brokers/topics/{topic.name} cannot be understood"))
    else:
        verdict.because(cause("deletion-held-up", sentence(reason)))


async def _explain_offline(scene: Scene, topic: TopicView, verdict: Verdict) -> None:
    found = Counter[BrokerId]()
    sample = dict[BrokerId, PartitionView]()
    for view in topic.partitions:
        for broker in view.offline_replicas:
            if broker not in scene.snapshot.shutting_down and broker not in OUR_IDS:
                found[broker] += 1
                sample.setdefault(broker, view)
        await scene.pace.breathe()
    for broker, replicas in sorted(found.items()):
        text = f"{OFFLINE_REPLICAS}: {count(replicas, 'replica')} on broker {broker} cannot be deleted"
        verdict.because(cause("deletion-offline-replicas", text, broker=broker))
        tp = TopicPartition(topic.name, sample[broker].partition)
        verdict.because(why_not_online(scene, sample[broker], tp, broker))


def _advise_forget(verdict: Verdict) -> None:
    gone = [each.broker for each in verdict.causes if each.code == "broker-gone"]
    if gone and any(each.code == "deletion-offline-replicas" for each in verdict.causes):
        verdict.advise(f"or, if {'it never returns' if len(gone) == 1 else 'they never return'}:")
        verdict.advise(*(f'controllerctl brokers forget {broker} --reason "never returns"' for broker in gone))


async def _explain_moves(scene: Scene, topic: TopicView, verdict: Verdict) -> None:
    moving = list[str]()
    for view in topic.partitions:
        if view.assignment.is_being_reassigned:
            isr = () if view.leadership is None else view.leadership.isr
            behind = [broker for broker in view.assignment.target if broker not in isr]
            waits = f" (waits for the ISR of replica {ids(behind)})" if behind else ""
            moving.append(f"{topic.name}-{view.partition}{waits}")
        await scene.pace.breathe()
    text = f"{REASSIGNMENT}: {some(moving, 3)}; it ends first, and then the topic goes"
    verdict.because(cause("deletion-waits-for-reassignment", text))
    first = moving[0].partition(" ")[0] if moving else topic.name
    verdict.advise("wait for it, or give it up:", f"controllerctl reassign cancel {first}")


async def _as_far_as_seen(scene: Scene, topic: TopicView, verdict: Verdict) -> None:
    """Somebody else deletes it, and how far that is does not stand in ZooKeeper; what must hold it up does."""
    before = len(verdict.causes)
    if any(view.assignment.is_being_reassigned for view in topic.partitions):
        await _explain_moves(scene, topic, verdict)
    await _explain_offline(scene, topic, verdict)
    if len(verdict.causes) == before:
        text = "its deletion was asked for; how far the controller is with it does not stand in ZooKeeper"
        verdict.because(cause("deletion-under-way", text))
    else:
        verdict.severity = max(verdict.severity, WARNING, key=SEVERITY_ORDER.index)


def _under_way(scene: Scene, deleting: tuple[BrokerId, ...]) -> Iterator[Cause]:
    if not deleting:
        yield cause("deletion-under-way", "nothing holds it up: the next step is about to be taken")
        return
    text = f"{brokers_of(deleting)} had to delete replicas, and the answer is waited for"
    yield cause("deletion-under-way", text)
    yield from filter(None, (why_not_heard(scene, broker) for broker in deleting))
