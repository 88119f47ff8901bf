"""Whether the leader of a partition is about to be stopped, and nobody can take over."""

from controllerd.core.model import BrokerId
from controllerd.status.explain.brokers import why_leaving
from controllerd.status.explain.scene import Subject, Verdict, cause
from controllerd.status.explain.words import brokers_of, ids


def judge_leaving(subject: Subject, verdict: Verdict) -> None:
    """Put it before everything else: it is the only trouble that somebody can still keep from happening.

    A broker that is shutting down leads on only what it could not hand over.
    """
    leader = None if subject.leader is None else BrokerId(subject.leader)
    if leader is None or leader not in subject.scene.snapshot.shutting_down:
        return
    leaving = why_leaving(subject.scene, leader).sentence.removeprefix("broker ")
    text = f"leader {leaving} and nobody else in the ISR can lead: the partition is offline when it stops"
    verdict.causes.insert(0, cause("leader-shutting-down", text, broker=leader))
    verdict.next[:0] = _cure(subject, leader)


def _cure(subject: Subject, leader: int) -> list[str]:
    behind = [broker for broker in subject.view.assignment.origin if broker not in subject.isr]
    if behind:
        replicas = f"{'replica' if len(behind) == 1 else 'one of the replicas'} {ids(behind)}"
        return [f"let {brokers_of([leader])} run until {replicas} is in sync"]
    return [
        f"give it a replica on another broker before {brokers_of([leader])} stops:",
        f"controllerctl reassign plan --topics {subject.tp.topic} --from {leader}",
    ]
