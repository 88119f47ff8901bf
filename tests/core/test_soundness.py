"""Flaws of values that parsed well."""

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment
from controllerd.core.soundness import (
    AssignmentFlaw,
    LeadershipFlaw,
    assignment_flaw,
    leadership_flaw,
    topic_name_problem,
)


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


@pytest.mark.parametrize(
    ("assignment", "flaw"),
    [
        (ReplicaAssignment(ids(1, 2)), None),
        (ReplicaAssignment(ids(3, 2, 1), ids(3), ids(1)), None),
        (ReplicaAssignment(ids(1, 1)), AssignmentFlaw.DUPLICATE_REPLICAS),
        (ReplicaAssignment(()), AssignmentFlaw.NO_REPLICAS),
        (ReplicaAssignment(ids(1, 2), adding=ids(3)), AssignmentFlaw.REASSIGNMENT_OUTSIDE_REPLICAS),
        (ReplicaAssignment(ids(1, 2), removing=ids(3)), AssignmentFlaw.REASSIGNMENT_OUTSIDE_REPLICAS),
    ],
)
def test_assignment_flaw(assignment: ReplicaAssignment, flaw: AssignmentFlaw | None) -> None:
    assert assignment_flaw(assignment) is flaw


@pytest.mark.parametrize(
    ("leader", "isr", "flaw"),
    [
        (1, ids(1, 2), None),
        (-1, ids(1, 2), None),
        (-1, ids(), LeadershipFlaw.EMPTY_ISR),
        (9, ids(9), LeadershipFlaw.ISR_OUTSIDE_REPLICAS),
        (2, ids(1), LeadershipFlaw.LEADER_OUTSIDE_ISR),
        (1, ids(1, 1), LeadershipFlaw.DUPLICATE_ISR),
    ],
)
def test_leadership_flaw(leader: int, isr: tuple[BrokerId, ...], flaw: LeadershipFlaw | None) -> None:
    leadership = LeaderAndIsr(BrokerId(leader), 0, isr, 1, 0)

    assert leadership_flaw(leadership, ids(1, 2, 3)) is flaw


@pytest.mark.parametrize("name", ["orders", "__consumer_offsets", "a.b-c_D9", "x" * 249, "..."])
def test_legal_topic_name(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a/b", "a b", "é", "a\n"])
def test_illegal_topic_name(name: str) -> None:
    assert topic_name_problem(name) is not None
