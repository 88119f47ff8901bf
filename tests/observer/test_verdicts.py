"""Verdicts, by tables."""

from typing import Final

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment
from controllerd.observer.verdicts import (
    EQUAL,
    ISR_MOVED_AGAIN,
    ISR_MOVED_BEFORE,
    MORE_CHANGES,
    NOT_SETTLED,
    PartitionVerdict,
    Ruling,
    deliberate,
    judge,
    judge_deleted,
    judge_reassigned,
)
from tests.fakes.world import ids


def state(leader: int, leader_epoch: int, isr: tuple[int, ...], partition_epoch: int = 1) -> LeaderAndIsr:
    return LeaderAndIsr(BrokerId(leader), leader_epoch, ids(*isr), 4, partition_epoch)


BEFORE: Final = state(1, 0, (1, 2, 3), 0)
WOULD: Final = state(2, 1, (2, 3))


@pytest.mark.parametrize(
    ("after", "verdict"),
    [
        (WOULD, EQUAL),
        (state(2, 1, (3, 2)), EQUAL),
        (WOULD._replace(controller_epoch=9), EQUAL),
        (state(2, 1, (2, 3), 3), EQUAL),
        (state(3, 2, (3, 2)), MORE_CHANGES),
        (state(2, 2, (2, 3)), MORE_CHANGES),
        (state(2, 1, (2,), 2), ISR_MOVED_AGAIN),
        (state(2, 1, (2,)), PartitionVerdict(Ruling.DIFFERENT, ("isr",))),
        (state(3, 1, (2, 3)), PartitionVerdict(Ruling.DIFFERENT, ("leader",))),
        (state(3, 1, (2, 3), 5), ISR_MOVED_BEFORE),
        (BEFORE, PartitionVerdict(Ruling.DIFFERENT, ("leader", "leader_epoch", "isr"))),
        (state(2, 0, (2, 3), 0), PartitionVerdict(Ruling.DIFFERENT, ("leader_epoch",))),
        (state(1, 0, (1, 3)), ISR_MOVED_BEFORE),
        (None, PartitionVerdict(Ruling.UNCLEAR, reason="the state is gone")),
    ],
)
def test_a_state_is_compared_with_the_state_of_the_dry_run(
    after: LeaderAndIsr | None, verdict: PartitionVerdict
) -> None:
    assert judge(BEFORE, WOULD, after) == verdict


@pytest.mark.parametrize(
    ("would", "after", "ruling"),
    [
        (None, None, Ruling.EQUAL),
        (WOULD, None, Ruling.DIFFERENT),
        (None, WOULD, Ruling.DIFFERENT),
        (WOULD, WOULD, Ruling.EQUAL),
    ],
)
def test_a_new_partition_is_initialised_or_not(
    would: LeaderAndIsr | None, after: LeaderAndIsr | None, ruling: Ruling
) -> None:
    assert judge(None, would, after).ruling is ruling


@pytest.mark.parametrize(
    ("after", "ruling"),
    [
        (state(1, 0, (1, 2, 3)), Ruling.EQUAL),
        (state(2, 0, (2, 3)), Ruling.UNCLEAR),
        (state(1, 0, (1, 3)), Ruling.UNCLEAR),
        (state(3, 0, (2, 3)), Ruling.DIFFERENT),
        (state(2, 0, (1, 2, 3)), Ruling.DIFFERENT),
        (state(2, 0, (2, 4)), Ruling.DIFFERENT),
    ],
)
def test_a_broker_may_be_missing_in_a_new_isr_because_of_its_shutdown(after: LeaderAndIsr, ruling: Ruling) -> None:
    assert judge(None, state(1, 0, (1, 2, 3)), after).ruling is ruling


def test_an_uncleanly_elected_leader_must_recover() -> None:
    recovering = WOULD._replace(recovery_state=LeaderRecoveryState.RECOVERING)

    assert judge(BEFORE, recovering, WOULD) == PartitionVerdict(Ruling.DIFFERENT, ("leader_recovery_state",))
    assert judge(BEFORE, recovering, WOULD._replace(partition_epoch=2)) == EQUAL


@pytest.mark.parametrize(
    ("assignment", "after", "verdict"),
    [
        (ReplicaAssignment(ids(2, 3)), state(2, 3, (2, 3)), EQUAL),
        (ReplicaAssignment(ids(2, 3)), state(2, 3, (2,)), EQUAL),
        (ReplicaAssignment(ids(2, 3)), state(1, 3, (2, 3)), PartitionVerdict(Ruling.DIFFERENT, ("leader",))),
        (ReplicaAssignment(ids(2, 3)), state(2, 3, (2, 1)), PartitionVerdict(Ruling.DIFFERENT, ("isr",))),
        (ReplicaAssignment(ids(2, 3, 1), ids(3), ids(1)), state(2, 3, (2, 1)), NOT_SETTLED),
        (None, state(2, 3, (2,)), PartitionVerdict(Ruling.UNCLEAR, reason="the partition is gone")),
    ],
)
def test_a_reassignment_ends_with_its_target(
    assignment: ReplicaAssignment | None, after: LeaderAndIsr, verdict: PartitionVerdict
) -> None:
    assert judge_reassigned(assignment, after) == verdict


@pytest.mark.parametrize(
    ("is_topic_there", "is_marker_there", "ruling"),
    [
        (True, True, Ruling.UNCLEAR),
        (True, False, Ruling.UNCLEAR),
        (False, True, Ruling.DIFFERENT),
        (False, False, Ruling.EQUAL),
    ],
)
def test_a_deletion_ends_with_the_marker(*, is_topic_there: bool, is_marker_there: bool, ruling: Ruling) -> None:
    assert judge_deleted(is_topic_there=is_topic_there, is_marker_there=is_marker_there).ruling is ruling


def test_only_a_difference_can_be_deliberate() -> None:
    different = PartitionVerdict(Ruling.DIFFERENT, ("leader",))

    assert deliberate(different, "a row") == PartitionVerdict(Ruling.DELIBERATE, ("leader",), "a row")
    assert deliberate(EQUAL, "a row") == EQUAL


def test_a_verdict_names_its_reason() -> None:
    verdicts = [EQUAL, NOT_SETTLED, PartitionVerdict(Ruling.DIFFERENT, ("leader", "isr"))]

    assert list(map(str, verdicts)) == ["equal", "unclear: not settled", "different: leader, isr"]
