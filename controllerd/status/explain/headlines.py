"""The first line of an answer: what is the matter, for how long, and in the course of which event it began."""

from controllerd.core.model import NO_LEADER
from controllerd.recent import Entry
from controllerd.status.explain import conditions
from controllerd.status.explain.history import Led
from controllerd.status.explain.scene import Subject, quarantine_of
from controllerd.status.explain.words import ids


def since_of(subject: Subject, condition: str) -> Entry | None:
    """The change by which the condition began; None when that is longer ago than what is remembered."""
    story, origin = subject.story, subject.view.assignment.origin
    match condition:
        case conditions.OFFLINE:
            return story.led_since(lambda led: led.leader == NO_LEADER) or _became(subject, "OfflinePartition")
        case conditions.WAITING:
            return _became(subject, "NewPartition")
        case conditions.UNDER_MIN_ISR | conditions.AT_MIN_ISR:
            return story.led_since(lambda led: len(led.isr) <= len(subject.isr))
        case conditions.UNDER_REPLICATED:
            return story.led_since(lambda led: not set(origin) <= set(led.isr))
        case conditions.NON_PREFERRED:
            return story.led_since(lambda led: _is_led_by_other(led, subject))
        case conditions.DELETING:
            return subject.scene.deletion_asked_for(subject.tp.topic)
        case conditions.REASSIGNING:
            return next((each.entry for each in story.assigned if not each.is_loaded), None)
        case _:
            return None


def headline_of(subject: Subject, condition: str, since: Entry | None) -> str:
    """One sentence; the loud words are the conditions that an operator has to act upon."""
    lasting = subject.scene.lasting(since)
    said = f"{subject.tp} {_said(subject, condition)}"
    return f"{said}{lasting}" if lasting else said.rstrip(",")


def _said(subject: Subject, condition: str) -> str:
    isr, assignment = subject.isr, subject.view.assignment
    in_sync = f"{len(isr)} of {len(assignment.origin)} replicas in sync"
    match condition:
        case conditions.OFFLINE:
            return "is OFFLINE"
        case conditions.WAITING:
            return "is WAITING for its first leader"
        case conditions.UNDER_MIN_ISR:
            needed = subject.scene.around.min_isr(subject.tp.topic)
            return f"is UNDER MIN ISR and takes no writes with acks=all ({in_sync}, {needed} needed)"
        case conditions.AT_MIN_ISR:
            return f"is AT MIN ISR ({in_sync}: no other may fail)"
        case conditions.UNDER_REPLICATED:
            return f"is UNDER-REPLICATED ({in_sync})"
        case conditions.QUARANTINED:
            left_alone = quarantine_of(subject.scene.snapshot, subject.tp.topic, subject.tp.partition)
            return f"is LEFT ALONE: {left_alone[0] if left_alone else 'a znode'} cannot be understood"
        case conditions.DELETING:
            return "is BEING DELETED"
        case conditions.REASSIGNING:
            return f"is being reassigned from {ids(assignment.origin)} to {ids(assignment.target)}"
        case conditions.NON_PREFERRED:
            return f"is led by broker {subject.leader}, not by its preferred replica {assignment.replicas[0]},"
        case _:
            return f"is healthy, led by broker {subject.leader}"


def _became(subject: Subject, state: str) -> Entry | None:
    latest = next(iter(subject.story.moved), None)
    return latest.entry if latest is not None and latest.after == state and not latest.is_loaded else None


def _is_led_by_other(led: Led, subject: Subject) -> bool:
    return led.leader != subject.view.assignment.replicas[0]
