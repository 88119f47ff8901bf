"""Verdicts: the state that the observed controller wrote, compared with the state of the dry run. Pure.

There may be more changes between two images than the images show. So a partition counts as equal or different only if
no unobserved change could explain it; otherwise it is unclear.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

from controllerd.core.model import LeaderAndIsr, ReplicaAssignment


class Ruling(Enum):
    """The result of the comparison of a partition."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNCLEAR = "unclear"
    DELIBERATE = "deliberate"
    """Different, for a reason in ``docs/deviations.md``."""


@dataclass(frozen=True, slots=True)
class PartitionVerdict:
    """A ruling and its reason."""

    ruling: Ruling
    fields: tuple[str, ...] = ()
    """The fields that differ, by their names in the state znode."""
    reason: str = ""
    """The reason why it is unclear, or the name of the deviation."""

    def __str__(self) -> str:
        detail = ", ".join(self.fields) or self.reason
        return f"{self.ruling.value}: {detail}" if detail else self.ruling.value


EQUAL: Final = PartitionVerdict(Ruling.EQUAL)
MORE_CHANGES: Final = PartitionVerdict(
    Ruling.UNCLEAR, reason="leader epoch rose by more than ours would: more than one change between two looks"
)
ISR_MOVED_BEFORE: Final = PartitionVerdict(Ruling.UNCLEAR, reason="ISR moved, maybe before it happened")
ISR_MOVED_AGAIN: Final = PartitionVerdict(Ruling.UNCLEAR, reason="ISR moved again")
ISR_WITHOUT_BROKER: Final = PartitionVerdict(
    Ruling.UNCLEAR, reason="begun without a registered broker: it may be shutting down"
)
NOT_SETTLED: Final = PartitionVerdict(Ruling.UNCLEAR, reason="not settled")


def judge(before: LeaderAndIsr | None, would: LeaderAndIsr | None, after: LeaderAndIsr | None) -> PartitionVerdict:
    """Compare the state that was written with the one that the dry run wrote over ``before``."""
    if would is None or after is None:
        return _judge_existence(before, would, after)
    if before is None and _is_begun_on_fewer(would, after):
        return ISR_WITHOUT_BROKER
    if after.leader_epoch > would.leader_epoch:
        return MORE_CHANGES
    if after.leader_epoch < would.leader_epoch or after.leader != would.leader:
        is_explained = _moved_before(before, would, after)
        return ISR_MOVED_BEFORE if is_explained else PartitionVerdict(Ruling.DIFFERENT, _differing(would, after))
    if set(after.isr) == set(would.isr):
        return _judge_recovery(would, after)
    moved_again = after.partition_epoch > would.partition_epoch
    return ISR_MOVED_AGAIN if moved_again else PartitionVerdict(Ruling.DIFFERENT, ("isr",))


def _is_begun_on_fewer(would: LeaderAndIsr, after: LeaderAndIsr) -> bool:
    """Return whether the partition was initialised on a part of the ISR of the dry run.

    The ISR lacks a broker in a controlled shutdown, which is registered until it has closed its logs.
    """
    is_fewer, first = set(after.isr) < set(would.isr), next((r for r in would.isr if r in after.isr), None)
    return is_fewer and after.leader == first and after.leader_epoch == would.leader_epoch


def _moved_before(before: LeaderAndIsr | None, would: LeaderAndIsr, after: LeaderAndIsr) -> bool:
    """Return whether the ISR may have changed before the cause, so that the decision was made from another ISR."""
    if after.leader_epoch < would.leader_epoch:  # no controller wrote the state
        return before is not None and after.partition_epoch > before.partition_epoch
    return after.partition_epoch > would.partition_epoch


def _judge_existence(
    before: LeaderAndIsr | None, would: LeaderAndIsr | None, after: LeaderAndIsr | None
) -> PartitionVerdict:
    if would is None and after is None:
        return EQUAL
    if before is not None and after is None:  # not by an election: its topic was deleted
        return PartitionVerdict(Ruling.UNCLEAR, reason="the state is gone")
    return PartitionVerdict(Ruling.DIFFERENT, ("state",))


def _judge_recovery(would: LeaderAndIsr, after: LeaderAndIsr) -> PartitionVerdict:
    """Compare the recovery state: a recovered leader changes it at the same leader epoch (KIP-704)."""
    if after.recovery_state == would.recovery_state or after.partition_epoch > would.partition_epoch:
        return EQUAL
    return PartitionVerdict(Ruling.DIFFERENT, ("leader_recovery_state",))


def _differing(would: LeaderAndIsr, after: LeaderAndIsr) -> tuple[str, ...]:
    pairs = {
        "leader": (would.leader, after.leader),
        "leader_epoch": (would.leader_epoch, after.leader_epoch),
        "isr": (set(would.isr), set(after.isr)),
    }
    return tuple(name for name, (ours, theirs) in pairs.items() if ours != theirs)


def judge_reassigned(assignment: ReplicaAssignment | None, after: LeaderAndIsr | None) -> PartitionVerdict:
    """Judge the end of a reassignment: the target replicas serve, and no other replica is in sync."""
    if assignment is None or after is None:
        return PartitionVerdict(Ruling.UNCLEAR, reason="the partition is gone")
    if assignment.is_being_reassigned:
        return NOT_SETTLED
    wrong = {"leader": after.leader not in assignment.replicas, "isr": not {*after.isr} <= {*assignment.replicas}}
    fields = tuple(name for name, is_wrong in wrong.items() if is_wrong)
    return PartitionVerdict(Ruling.DIFFERENT, fields) if fields else EQUAL


def judge_deleted(*, is_topic_there: bool, is_marker_there: bool) -> PartitionVerdict:
    """Judge the end of a deletion: the topic is removed, and then the request."""
    if is_topic_there:
        return NOT_SETTLED
    return PartitionVerdict(Ruling.DIFFERENT, ("marker",)) if is_marker_there else EQUAL


def deliberate(verdict: PartitionVerdict, name: str) -> PartitionVerdict:
    """Return the verdict, as deliberate where a named deviation explains a difference."""
    return PartitionVerdict(Ruling.DELIBERATE, verdict.fields, name) if verdict.ruling is Ruling.DIFFERENT else verdict
