"""Which state may follow which, in the partition and in the replica state machine.

A move that the tables forbid is refused for its partition alone, recorded, and does not stop the others of the call.

**Partitions.** ``New`` means that the assignment is known and no state znode exists; ``Online`` that the partition has
a leader; ``Offline`` that it has none; ``NonExistent`` that it is unknown, deleted, or that its state znode was in
quarantine when the controller loaded.

* NonExistent to New: a topic or a partition was created.
* New to Online: the first leadership was written. New to Offline: a state znode existed already (of a write in an
  earlier term), so an election has to choose the leader; or the topic is deleted before the partition ever started.
* Online to Online: an election replaces a leader that still leads (preferred, controlled shutdown, reassignment).
* Online to Offline: the leader is gone, or the topic is deleted. Offline to Online: an election found a leader.
* Offline to Offline: another broker dies while the partition has no leader. Without this edge each such death would
  record a refusal for every partition without leader.
* Offline to NonExistent: the topic is deleted.

There is no edge back to New. A partition with a state znode that counted as New would get a first leadership again: a
leader epoch of 0 and an ISR of all live replicas, whatever records they lack. There is none from NonExistent to Online
or Offline: an election would write over a state that could not be read. And none from New or Online to NonExistent: the
end of the service comes first, and is recorded, before the partition ends.

**Replicas.** ``Online`` and ``Offline`` say whether the replica is served, and the three deletion states how far its
broker is with deleting it. ``NonExistent`` means that it was never started, or is gone.

* NonExistent to New: the replica was assigned, by a new topic or by a reassignment.
* New to Online: its partition was started, or its reassignment completes. New to Offline: its broker died, or the
  topic is deleted, before that.
* Online to Online: the broker registered again, and gets LeaderAndIsr for everything once more.
* Online to Offline: the broker died or shuts down, its log directory failed, or the replica is removed.
* Offline to Online: the broker is back. Offline to Offline: a broker in controlled shutdown dies, or asks again.
* Offline to DeletionStarted: the broker is asked to delete. There is no such edge from Online or New: going Offline
  takes the replica out of the ISR and stops it. Without that, an ISR could name a replica whose data is deleted, and an
  election could choose it.
* Offline to DeletionIneligible: the broker cannot be asked now. Every offline replica begins in DeletionIneligible at
  a failover, to be on the safe side if its topic is being deleted.
* DeletionStarted to DeletionSuccessful or DeletionIneligible: the broker's answer, or its death. There is none from
  DeletionStarted to Offline: the deletion is not tried again while a request for it is unanswered.
* DeletionIneligible to Offline: the deletion is tried again; at a failover, the replica leaves its ISR.
  DeletionIneligible to Online: the broker of a topic that is not deleted is back.
* DeletionSuccessful to NonExistent: the replica leaves the assignment in memory. There is none from DeletionSuccessful
  to Online: a broker that returns during a deletion would create again what it has deleted, and nothing would delete
  that any more. And NonExistent has no other predecessor: a replica is forgotten only when its broker has deleted it,
  or when its deletion is pending in ZooKeeper (``machines/pending_deletions.py``).
"""

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
"""The states that each state of a partition can be reached from."""

REPLICA_VALID_PREVIOUS: Final[Mapping[R, frozenset[R]]] = MappingProxyType({
    R.NEW:                 frozenset({R.NON_EXISTENT}),
    R.ONLINE:              frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.OFFLINE:             frozenset({R.NEW, R.ONLINE, R.OFFLINE, R.DELETION_INELIGIBLE}),
    R.DELETION_STARTED:    frozenset({R.OFFLINE}),
    R.DELETION_SUCCESSFUL: frozenset({R.DELETION_STARTED}),
    R.DELETION_INELIGIBLE: frozenset({R.OFFLINE, R.DELETION_STARTED}),
    R.NON_EXISTENT:        frozenset({R.DELETION_SUCCESSFUL}),
})  # fmt: skip
"""The states that each state of a replica can be reached from."""


def is_valid_partition_move(before: P, after: P) -> bool:
    """Whether a partition in ``before`` may go to ``after``."""
    return before in PARTITION_VALID_PREVIOUS[after]


def is_valid_replica_move(before: R, after: R) -> bool:
    """Whether a replica in ``before`` may go to ``after``."""
    return before in REPLICA_VALID_PREVIOUS[after]


def is_valid(before: P | R, after: P | R) -> bool:
    """Whether the move is legal in the machine that both states belong to; a move between two machines never is."""
    if isinstance(before, P) and isinstance(after, P):
        return is_valid_partition_move(before, after)
    if isinstance(before, R) and isinstance(after, R):
        return is_valid_replica_move(before, after)
    return False
