"""The second line of an answer: what ZooKeeper says of the partition, in one glance."""

from controllerd.core.model import NO_LEADER
from controllerd.status.explain.circumstances import Circumstances
from controllerd.status.explain.scene import Subject
from controllerd.status.explain.words import ids


def facts_of(subject: Subject) -> list[str]:
    """``replicas 3,5,6   isr 5   leader -1 (was 5, epoch 41)   unclean election: disabled (topic)``."""
    assignment, around = subject.view.assignment, subject.scene.around
    facts = [f"replicas {ids(assignment.replicas)}"]
    if assignment.is_being_reassigned:
        facts.append(f"adding {ids(assignment.adding)}   removing {ids(assignment.removing)}")
    facts += [f"isr {ids(subject.isr)}", _leader(subject)]
    if (min_isr := around.min_isr(subject.tp.topic)) is not None:
        facts.append(f"min.insync.replicas {min_isr}")
    facts.append(f"unclean election: {unclean_of(around, subject.tp.topic)}")
    return ["   ".join(facts)]


def unclean_of(around: Circumstances, topic: str) -> str:
    """The setting, and who says so."""
    unclean = around.unclean(topic)
    if unclean is None:
        return "not known here"
    return f"{'enabled' if unclean.is_allowed else 'disabled'} ({unclean.origin})"


def _leader(subject: Subject) -> str:
    leadership = subject.view.leadership
    if leadership is None:
        return "leader none yet"
    epoch = f"epoch {leadership.leader_epoch}"
    before = next((led for led in subject.story.led if led.leader != NO_LEADER), None)
    if leadership.leader == NO_LEADER and before is not None:
        return f"leader -1 (was {before.leader}, epoch {before.leader_epoch})"
    return f"leader {leadership.leader} ({epoch})"
