"""Which state may follow which, in the partition and in the replica state machine: one glance, immutable."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from controllerd.core.model import PartitionState as P
from controllerd.core.model import ReplicaState as R

PARTITION_VALID_PREVIOUS: Final[Mapping[P, frozenset[P]]] = MappingProxyType({
    P.NEW:          frozenset({P.NON_EXISTENT}),
    P.ONLINE:       frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.OFFLINE:      frozenset({P.NEW, P.ONLINE, P.OFFLINE}),
    P.NON_EXISTENT: frozenset({P.OFFLINE}),
})  # fmt: skip
"""Target state of a partition -> the states it may be reached from."""

REPLICA_VALID_PREVIOUS: Final[Mapping[R, frozenset[R]]] = MappingProxyType({
    R.NEW:                 frozenset({R.NON_EXISTENT}),
    R.ONLINE:              frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE:             frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED:    frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT:        frozenset({R.DELETION_SUCCESSFUL}),
})  # fmt: skip
"""Target state of a replica -> the states it may be reached from."""


def is_valid_partition_move(before: P, after: P) -> bool:
    """Whether a partition in ``before`` may go to ``after``."""
    return before in PARTITION_VALID_PREVIOUS[after]


def is_valid_replica_move(before: R, after: R) -> bool:
    """Whether a replica in ``before`` may go to ``after``."""
    return before in REPLICA_VALID_PREVIOUS[after]


def is_valid(before: P | R, after: P | R) -> bool:
    """Whether the move is legal in the machine that both states belong to; states of two machines never are."""
    if isinstance(before, P) and isinstance(after, P):
        return is_valid_partition_move(before, after)
    if isinstance(before, R) and isinstance(after, R):
        return is_valid_replica_move(before, after)
    return False
