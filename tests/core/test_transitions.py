"""The tables must equal matrices that are written down a second time, target by column, cell by cell."""

from types import MappingProxyType

import pytest

from controllerd.core.model import PartitionState, ReplicaState
from controllerd.core.transitions import PARTITION_VALID_PREVIOUS, REPLICA_VALID_PREVIOUS, is_valid

PARTITION_MATRIX = """
                      NewPartition  OnlinePartition  OfflinePartition  NonExistentPartition
NewPartition          -             yes              yes               -
OnlinePartition       -             yes              yes               -
OfflinePartition      -             yes              yes               yes
NonExistentPartition  yes           -                -                 -
"""

REPLICA_MATRIX = """
                           NewReplica OnlineReplica OfflineReplica ReplicaDeletionStarted ReplicaDeletionSuccessful ReplicaDeletionIneligible NonExistentReplica
NewReplica                 -          yes           yes            -                      -                         -                         -
OnlineReplica              -          yes           yes            -                      -                         -                         -
OfflineReplica             -          yes           yes            yes                    -                         yes                       -
ReplicaDeletionStarted     -          -             -              -                      yes                       yes                       -
ReplicaDeletionSuccessful  -          -             -              -                      -                         -                         yes
ReplicaDeletionIneligible  -          yes           yes            -                      -                         -                         -
NonExistentReplica         yes        -             -              -                      -                         -                         -
"""  # noqa: E501  # a matrix is read at one glance or not at all


def cells(matrix: str) -> list[tuple[str, str, bool]]:
    """(before, after, legal) of every cell; rows are the states before, columns those after."""
    header, *rows = matrix.strip().splitlines()
    columns = header.split()
    return [
        (before, after, mark == "yes")
        for before, *marks in (row.split() for row in rows)
        for after, mark in zip(columns, marks, strict=True)
    ]


@pytest.mark.parametrize(("before", "after", "legal"), cells(PARTITION_MATRIX))
def test_partition_move(before: str, after: str, legal: bool) -> None:
    assert is_valid(PartitionState(before), PartitionState(after)) is legal


@pytest.mark.parametrize(("before", "after", "legal"), cells(REPLICA_MATRIX))
def test_replica_move(before: str, after: str, legal: bool) -> None:
    assert is_valid(ReplicaState(before), ReplicaState(after)) is legal


def test_the_matrices_are_complete() -> None:
    assert [sum(legal for *_, legal in cells(m)) for m in (PARTITION_MATRIX, REPLICA_MATRIX)] == [8, 14]
    assert [len(cells(m)) for m in (PARTITION_MATRIX, REPLICA_MATRIX)] == [16, 49]


def test_states_of_two_machines_never_follow_each_other() -> None:
    assert not is_valid(PartitionState.NON_EXISTENT, ReplicaState.NEW)
    assert not is_valid(ReplicaState.NON_EXISTENT, PartitionState.NEW)


def test_the_tables_cannot_be_changed() -> None:
    assert isinstance(PARTITION_VALID_PREVIOUS, MappingProxyType)
    assert isinstance(REPLICA_VALID_PREVIOUS, MappingProxyType)
