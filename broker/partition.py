"""One replica on one broker: leader, follower or neither, and the rules by which a leader changes its ISR.

Every log is empty, so all end offsets are always equal. A follower is therefore in sync by the time of its last fetch
alone; a stock broker compares end offsets first.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import (
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controllerd.core.requests import LeaderAndIsrPartition

_REFUSED_FOR_GOOD: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.INVALID_UPDATE_VERSION,
        KafkaError.INVALID_REQUEST,
        KafkaError.NEW_LEADER_ELECTED,
    }
)
"""Errors after which the leader waits for a LeaderAndIsr with the valid state."""
_NOT_DONE: Final = frozenset({KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA})
"""Errors after which the last committed ISR is certainly valid."""


class ReplicaRole(Enum):
    """The role of the replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(eq=False, slots=True)
class PendingIsrChange:
    """A change of the ISR that the controller has not confirmed yet; compared by identity."""

    isr: tuple[BrokerId, ...]
    leader_epoch: int
    partition_epoch: int
    recovery_state: LeaderRecoveryState
    stuck: bool = False
    """The change was refused or superseded: the leader sends no change until the next LeaderAndIsr."""


@dataclass(slots=True)
class HostedPartition:
    """A replica. Times are monotonic seconds."""

    tp: TopicPartition
    broker: BrokerId
    topic_id: str | None = None
    role: ReplicaRole = ReplicaRole.NONE
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = 0
    controller_epoch: int = 0
    assignment: ReplicaAssignment = field(default_factory=lambda: ReplicaAssignment(()))
    isr: tuple[BrokerId, ...] = ()
    """The ISR that the controller confirmed last; empty on followers."""
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    pending: PendingIsrChange | None = None
    fetching: bool = False
    """Whether a follower fetches; false after StopReplica, or after its leader answered FENCED_LEADER_EPOCH."""
    _caught_up: dict[BrokerId, float] = field(default_factory=dict)

    def make_leader(self, requested: LeaderAndIsrPartition, now: float) -> bool:
        """Become leader with this state; false (and nothing changed) if the partition epoch is older than ours."""
        if not self._take(requested):
            return False
        self.role, self.fetching = ReplicaRole.LEADER, False
        self.isr = requested.state.isr
        self._caught_up = {replica: now for replica in self.isr if replica != self.broker}
        return True

    def make_follower(self, requested: LeaderAndIsrPartition) -> bool:
        """Become follower with this state; false (and nothing changed) if the partition epoch is older than ours."""
        if not self._take(requested):
            return False
        self.role, self.fetching = ReplicaRole.FOLLOWER, True
        self.isr = ()
        self._caught_up.clear()
        return True

    def stop(self) -> None:
        """Stop fetching, and keep the role (StopReplica without delete)."""
        self.fetching = False

    def fetched(self, replica: BrokerId, now: float, *, live: bool) -> None:
        """Note a fetch of a follower. Propose to add it to the ISR if it is outside, and live by the metadata."""
        self._caught_up[replica] = now
        if self.pending is None and live and replica not in self.isr:
            self._propose((*self.isr, replica))

    def shrink(self, now: float, lag_s: float) -> None:
        """Propose an ISR without the followers that have not fetched for ``lag_s``."""
        if self.role is not ReplicaRole.LEADER or self.pending is not None:
            return
        in_sync = tuple(r for r in self.isr if r == self.broker or now - self._caught_up.get(r, 0.0) <= lag_s)
        if in_sync != self.isr:
            self._propose(in_sync)

    def answered(self, change: PendingIsrChange, error: KafkaError, state: LeaderAndIsr) -> None:
        """Apply the controller's answer to ``change``; without an error, ``state`` is the new state.

        An answer to an earlier change has no effect.
        """
        if change is not self.pending:
            return
        if error in _REFUSED_FOR_GOOD:
            change.stuck = True
        elif error in _NOT_DONE:
            self.pending = None
        elif error is KafkaError.NONE:
            self._committed(change, state)

    def _committed(self, change: PendingIsrChange, state: LeaderAndIsr) -> None:
        if state.leader_epoch != self.leader_epoch or state.partition_epoch < self.partition_epoch:
            change.stuck = True
            return
        self.isr, self.partition_epoch = state.isr, state.partition_epoch
        self.recovery_state = state.recovery_state
        self.pending = None

    def _propose(self, isr: tuple[BrokerId, ...]) -> None:
        # A leader that was elected uncleanly has recovered before it proposes another ISR (KIP-704).
        self.pending = PendingIsrChange(isr, self.leader_epoch, self.partition_epoch, LeaderRecoveryState.RECOVERED)

    def _take(self, requested: LeaderAndIsrPartition) -> bool:
        state = requested.state
        if state.partition_epoch < self.partition_epoch:
            return False
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        self.controller_epoch, self.recovery_state = state.controller_epoch, state.recovery_state
        self.assignment = requested.assignment
        self.pending = None
        return True
