"""One replica on one broker: leader, follower or neither, and as leader the rules by which its ISR changes.

Without a data plane every log is empty, so all end offsets are equal for ever. What tells an in-sync follower from one
that is not is therefore the time of its last fetch alone, where a stock broker looks at end offsets first.
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
"""After these the leader waits for a LeaderAndIsr that tells it what holds."""
_NOT_DONE: Final = frozenset({KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA})
"""After these the last committed ISR holds for sure."""


class Role(Enum):
    """The role of the replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(eq=False, slots=True)
class IsrChange:
    """A change of the ISR that the controller has not confirmed yet; compared by identity."""

    isr: tuple[BrokerId, ...]
    leader_epoch: int
    partition_epoch: int
    recovery_state: LeaderRecoveryState
    stuck: bool = False
    """The change was refused, or overtaken: nothing more is sent until the next LeaderAndIsr."""


@dataclass(slots=True)
class Partition:
    """A replica. Times are monotonic seconds."""

    tp: TopicPartition
    broker: BrokerId
    topic_id: str | None = None
    role: Role = Role.NONE
    leader: BrokerId = NO_LEADER
    leader_epoch: int = -1
    partition_epoch: int = 0
    controller_epoch: int = 0
    assignment: ReplicaAssignment = field(default_factory=lambda: ReplicaAssignment(()))
    isr: tuple[BrokerId, ...] = ()
    """As the controller confirmed it last; empty on followers."""
    recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    pending: IsrChange | None = None
    fetching: bool = False
    """A follower that asks its leader; false after StopReplica, or once the leader said that it is fenced."""
    _caught_up: dict[BrokerId, float] = field(default_factory=dict)

    def make_leader(self, told: LeaderAndIsrPartition, now: float) -> bool:
        """Become leader with this state; false (and nothing changed) if the partition epoch is older than ours."""
        if not self._take(told):
            return False
        self.role, self.fetching = Role.LEADER, False
        self.isr = told.state.isr
        self._caught_up = {replica: now for replica in self.isr if replica != self.broker}
        return True

    def make_follower(self, told: LeaderAndIsrPartition) -> bool:
        """Become follower with this state; false (and nothing changed) if the partition epoch is older than ours."""
        if not self._take(told):
            return False
        self.role, self.fetching = Role.FOLLOWER, True
        self.isr = ()
        self._caught_up.clear()
        return True

    def stop(self) -> None:
        """Stop fetching, and stay what we are otherwise (StopReplica without delete)."""
        self.fetching = False

    def fetched(self, replica: BrokerId, now: float, *, live: bool) -> None:
        """A follower of our assignment fetched. One outside of the ISR that the metadata calls live is let in."""
        self._caught_up[replica] = now
        if self.pending is None and live and replica not in self.isr:
            self._propose((*self.isr, replica))

    def shrink(self, now: float, lag_s: float) -> None:
        """Take those out of the ISR that have not fetched for ``lag_s``."""
        if self.role is not Role.LEADER or self.pending is not None:
            return
        in_sync = tuple(r for r in self.isr if r == self.broker or now - self._caught_up.get(r, 0.0) <= lag_s)
        if in_sync != self.isr:
            self._propose(in_sync)

    def answered(self, change: IsrChange, error: KafkaError, state: LeaderAndIsr) -> None:
        """The controller's answer to ``change``; ``state`` counts only without error. A late one changes nothing."""
        if change is not self.pending:
            return
        if error in _REFUSED_FOR_GOOD:
            change.stuck = True
        elif error in _NOT_DONE:
            self.pending = None
        elif error is KafkaError.NONE:
            self._committed(change, state)

    def _committed(self, change: IsrChange, state: LeaderAndIsr) -> None:
        if state.leader_epoch != self.leader_epoch or state.partition_epoch < self.partition_epoch:
            change.stuck = True
            return
        self.isr, self.partition_epoch = state.isr, state.partition_epoch
        self.recovery_state = state.recovery_state
        self.pending = None

    def _propose(self, isr: tuple[BrokerId, ...]) -> None:
        # A leader that was elected uncleanly has recovered by the time that it lets others in (KIP-704).
        self.pending = IsrChange(isr, self.leader_epoch, self.partition_epoch, LeaderRecoveryState.RECOVERED)

    def _take(self, told: LeaderAndIsrPartition) -> bool:
        state = told.state
        if state.partition_epoch < self.partition_epoch:
            return False
        self.leader, self.leader_epoch, self.partition_epoch = state.leader, state.leader_epoch, state.partition_epoch
        self.controller_epoch, self.recovery_state = state.controller_epoch, state.recovery_state
        self.assignment = told.assignment
        self.pending = None
        return True
