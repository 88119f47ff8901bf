"""What the controller that is watched did with a partition, beside what ours would have done. Pure.

Between two looks more may have happened than shows. So nothing counts as equal or different unless it must be: whatever
could be explained by something that was not seen is unclear.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from controllerd.core.model import LeaderAndIsr, ReplicaAssignment


class Ruling(Enum):
    """How a partition compares."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNCLEAR = "unclear"
    DELIBERATE = "deliberate"
    """Different, and a row of ``docs/deviations.md`` says why."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A ruling and what it rests on."""

    ruling: Ruling
    fields: tuple[str, ...] = ()
    """What differs, by the names of the state znode."""
    reason: str = ""
    """Why it is unclear, or the name of the deviation."""

    def __str__(self) -> str:
        told = ", ".join(self.fields) or self.reason
        return f"{self.ruling.value}: {told}" if told else self.ruling.value


EQUAL: Final = Verdict(Ruling.EQUAL)
MORE_CHANGES: Final = Verdict(
    Ruling.UNCLEAR, reason="leader epoch rose by more than ours would: more than one change between two looks"
)
ISR_MOVED_BEFORE: Final = Verdict(Ruling.UNCLEAR, reason="ISR moved, maybe before it happened")
ISR_MOVED_AGAIN: Final = Verdict(Ruling.UNCLEAR, reason="ISR moved again")
LEFT_OUT: Final = Verdict(Ruling.UNCLEAR, reason="begun without a registered broker: it may be shutting down")
NOT_SETTLED: Final = Verdict(Ruling.UNCLEAR, reason="not settled")


def judge(before: LeaderAndIsr | None, would: LeaderAndIsr | None, after: LeaderAndIsr | None) -> Verdict:
    """Compare the state that was found with the one that ours would have written over ``before``."""
    if would is None or after is None:
        return _judge_existence(before, would, after)
    if before is None and _is_begun_on_fewer(would, after):
        return LEFT_OUT
    if after.leader_epoch > would.leader_epoch:
        return MORE_CHANGES
    if after.leader_epoch < would.leader_epoch or after.leader != would.leader:
        is_explained = _moved_before(before, would, after)
        return ISR_MOVED_BEFORE if is_explained else Verdict(Ruling.DIFFERENT, _differing(would, after))
    if set(after.isr) == set(would.isr):
        return _judge_recovery(would, after)
    moved_again = after.partition_epoch > would.partition_epoch
    return ISR_MOVED_AGAIN if moved_again else Verdict(Ruling.DIFFERENT, ("isr",))


def _is_begun_on_fewer(would: LeaderAndIsr, after: LeaderAndIsr) -> bool:
    """Whether it began on some of the replicas that ours would have begun it on, and on nobody else.

    A broker that was allowed to shut down begins nothing, though it is registered until it has closed its logs.
    """
    is_fewer, first = set(after.isr) < set(would.isr), next((r for r in would.isr if r in after.isr), None)
    return is_fewer and after.leader == first and after.leader_epoch == would.leader_epoch


def _moved_before(before: LeaderAndIsr | None, would: LeaderAndIsr, after: LeaderAndIsr) -> bool:
    """Whether leaders asked for other ISRs meanwhile, maybe before the cause: then it was decided from another one."""
    if after.leader_epoch < would.leader_epoch:  # of a controller there is no write among those, if there are any
        return before is not None and after.partition_epoch > before.partition_epoch
    return after.partition_epoch > would.partition_epoch


def _judge_existence(before: LeaderAndIsr | None, would: LeaderAndIsr | None, after: LeaderAndIsr | None) -> Verdict:
    if would is None and after is None:
        return EQUAL
    if before is not None and after is None:  # not the work of an election: its topic went
        return Verdict(Ruling.UNCLEAR, reason="the state is gone")
    return Verdict(Ruling.DIFFERENT, ("state",))


def _judge_recovery(would: LeaderAndIsr, after: LeaderAndIsr) -> Verdict:
    """Who recovers says so at the same leader epoch, by a later partition epoch (KIP-704)."""
    if after.recovery_state == would.recovery_state or after.partition_epoch > would.partition_epoch:
        return EQUAL
    return Verdict(Ruling.DIFFERENT, ("leader_recovery_state",))


def _differing(would: LeaderAndIsr, after: LeaderAndIsr) -> tuple[str, ...]:
    pairs = {
        "leader": (would.leader, after.leader),
        "leader_epoch": (would.leader_epoch, after.leader_epoch),
        "isr": (set(would.isr), set(after.isr)),
    }
    return tuple(name for name, (ours, theirs) in pairs.items() if ours != theirs)


def judge_reassigned(assignment: ReplicaAssignment | None, after: LeaderAndIsr | None) -> Verdict:
    """The end of a reassignment: the target serves, and nobody else is in sync."""
    if assignment is None or after is None:
        return Verdict(Ruling.UNCLEAR, reason="the partition is gone")
    if assignment.is_being_reassigned:
        return NOT_SETTLED
    wrong = {"leader": after.leader not in assignment.replicas, "isr": not {*after.isr} <= {*assignment.replicas}}
    fields = tuple(name for name, is_wrong in wrong.items() if is_wrong)
    return Verdict(Ruling.DIFFERENT, fields) if fields else EQUAL


def judge_deleted(*, is_topic_there: bool, is_marker_there: bool) -> Verdict:
    """The end of a deletion: the topic is gone, and then what asked for it."""
    if is_topic_there:
        return NOT_SETTLED
    return Verdict(Ruling.DIFFERENT, ("marker",)) if is_marker_there else EQUAL


def deliberate(verdict: Verdict, name: str) -> Verdict:
    """The verdict where a named deviation explains a difference."""
    return Verdict(Ruling.DELIBERATE, verdict.fields, name) if verdict.ruling is Ruling.DIFFERENT else verdict
