"""One replica on one simulated broker, as leader or follower, with a log: the rules of ``wire.md`` E, without I/O."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderAndIsr
from tests.sim.broker_frames import RELEASE_3_0, Key, PartitionRow, ReleaseNumber
from tests.sim.broker_log import Record, ReplicaLog

_REFUSED_FOR_GOOD: Final = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.INVALID_UPDATE_VERSION,
    KafkaError.INVALID_REQUEST,
    KafkaError.NEW_LEADER_ELECTED,
})  # fmt: skip
"""After these errors the proposed ISR stays pending until a LeaderAndIsr has a higher leader epoch."""
_NOT_DONE: Final = frozenset({KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA})
"""After these errors the committed ISR holds for certain."""


class Role(Enum):
    """The role of the replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


@dataclass(eq=False, slots=True)
class IsrChange:
    """A change of the ISR that the controller has not confirmed; compared by identity."""

    isr: tuple[int, ...]
    leader_epoch: int
    partition_epoch: int
    stuck: bool = False


@dataclass(slots=True)
class FollowerState:
    """The state of a follower as its leader tracks it."""

    end: int = -1
    """The follower's log end offset, -1 until it fetched from this leader."""
    caught_up_at: float = float("-inf")
    fetched_at: float = float("-inf")
    leader_end_then: int = -1


class Fetched(NamedTuple):
    """The answer to a fetch: an error, or where the logs diverge, or records."""

    error: KafkaError
    diverges_at: tuple[int, int] | None = None
    records: tuple[Record, ...] = ()
    high_watermark: int = -1


@dataclass(slots=True)
class SimReplica:
    """A replica in the memory of a broker. Times are virtual seconds."""

    key: Key
    broker: int
    log: ReplicaLog
    role: Role = Role.NONE
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = 0
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    """On a leader the ISR that the controller confirmed last, on a follower the one of the last LeaderAndIsr."""
    pending: IsrChange | None = None
    fetching: bool = False
    stopped: bool = False
    """Whether StopReplica without delete came last."""
    waiting: list[int] = field(default_factory=list)
    """Offsets whose producers wait for all members of the ISR."""
    followers: dict[int, FollowerState] = field(default_factory=dict)
    epoch_start: int = 0

    # -- requests of the controller ----------------------------------------------------------------------------------

    def lead(self, row: PartitionRow, now: float) -> bool:
        """Become leader; False without effect if the partition epoch is older than the known one."""
        if row.partition_epoch < self.partition_epoch:
            return False
        led_before = self.role is Role.LEADER
        self._take(row)
        self.role, self.fetching = Role.LEADER, False
        self.epoch_start = self.log.end
        before, self.followers = self.followers, {}
        for replica in row.replicas:
            if replica != self.broker:
                state = self.followers[replica] = FollowerState(end=-1)
                if led_before and replica in before:
                    state.end = before[replica].end
                if replica in row.isr:
                    state.caught_up_at = now
        return True

    def follow(self, row: PartitionRow) -> bool:
        """Become follower; False without effect if the partition epoch is older than the known one."""
        if row.partition_epoch < self.partition_epoch:
            return False
        self._take(row)
        self.role, self.fetching = Role.FOLLOWER, True
        self.waiting.clear()
        self.followers.clear()
        return True

    def _take(self, row: PartitionRow) -> None:
        self.leader, self.leader_epoch, self.partition_epoch = row.leader, row.leader_epoch, row.partition_epoch
        self.replicas, self.isr = row.replicas, row.isr
        self.pending, self.stopped = None, False

    def stop(self) -> None:
        """Stop fetching."""
        self.fetching, self.stopped = False, True

    # -- as leader ---------------------------------------------------------------------------------------------------

    def append(self, value: int, now: float, min_insync: int) -> KafkaError:
        """Append for a producer that wants acks from all; its offset waits until the high watermark passes it."""
        if self.role is not Role.LEADER:
            return KafkaError.NOT_LEADER_OR_FOLLOWER
        if len(self.isr) < min(min_insync, len(self.replicas)):
            return KafkaError.UNKNOWN_SERVER_ERROR  # NOT_ENOUGH_REPLICAS; the controller never gets its code
        end = self.log.end
        for state in self.followers.values():
            if state.end == end:
                state.caught_up_at = now
        self.log.records.append(Record(self.leader_epoch, value))
        self.waiting.append(end)
        return KafkaError.NONE

    def serve(self, follower: int, leader_epoch: int, end: int, last_epoch: int, now: float) -> Fetched:
        """Answer a follower that fetches from the end of its log."""
        if leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            return Fetched(KafkaError.FENCED_LEADER_EPOCH if older else KafkaError.UNKNOWN_LEADER_EPOCH)
        if self.role is not Role.LEADER:
            return Fetched(KafkaError.NOT_LEADER_OR_FOLLOWER)
        state = self.followers.get(follower)
        if state is None:
            return Fetched(KafkaError.UNKNOWN_LEADER_EPOCH)
        parts = self.log.diverges_at(last_epoch, end)
        if parts is not None:
            return Fetched(KafkaError.NONE, parts)
        if end >= self.log.end:
            state.caught_up_at = now
        elif end >= state.leader_end_then >= 0:
            state.caught_up_at = max(state.caught_up_at, state.fetched_at)
        state.end, state.fetched_at, state.leader_end_then = end, now, self.log.end
        return Fetched(KafkaError.NONE, None, tuple(self.log.records[end:]), self.log.high_watermark)

    def advance(self, min_insync: int) -> list[int]:
        """Move the high watermark as far as possible; return the offsets that can be acknowledged now.

        Proposed members of the ISR count as in sync before they are confirmed. With too small an ISR the mark stays.
        """
        if len(self.isr) < min(min_insync, len(self.replicas)):
            return []
        end = self.log.end
        for replica in self.isr if self.pending is None else (*self.isr, *self.pending.isr):
            if replica != self.broker:
                state = self.followers.get(replica)
                end = min(end, -1 if state is None else state.end)
        self.log.high_watermark = max(self.log.high_watermark, end)
        mark = self.log.high_watermark
        safe = [offset for offset in self.waiting if offset < mark]
        if safe:
            del self.waiting[: len(safe)]
        return safe

    def may_join(self, follower: int) -> bool:
        """Whether a follower that fetched has caught up enough to be added to the ISR."""
        if self.role is not Role.LEADER or self.pending is not None or follower in self.isr:
            return False
        state = self.followers.get(follower)
        return state is not None and state.end >= max(self.log.high_watermark, self.epoch_start)

    def lagging(self, now: float, lag_s: float) -> tuple[int, ...]:
        """Members of the ISR that have not been caught up for ``lag_s``."""
        end = self.log.end
        states = self.followers
        return tuple(
            replica
            for replica in self.isr
            if replica != self.broker and (state := states.get(replica)) is not None
            and state.end != end and now - state.caught_up_at > lag_s
        )  # fmt: skip

    @property
    def is_settled(self) -> bool:
        """Whether every member of the ISR has all records."""
        end = self.log.end
        return all(state.end == end for replica, state in self.followers.items() if replica in self.isr)

    @property
    def is_isr_change_stuck(self) -> bool:
        """Whether it leads and cannot change its ISR until a request has a new leader epoch."""
        return self.role is Role.LEADER and self.pending is not None and self.pending.stuck

    @property
    def outsiders(self) -> list[int]:
        """Followers outside of the ISR."""
        return [replica for replica in self.followers if replica not in self.isr]

    def propose(self, isr: tuple[int, ...]) -> None:
        """Propose this ISR."""
        self.pending = IsrChange(isr, self.leader_epoch, self.partition_epoch)

    def answered(self, change: IsrChange, outcome: LeaderAndIsr | KafkaError, release: ReleaseNumber) -> None:
        """Take the controller's answer to a change.

        A late answer changes nothing. After an unknown error the change is sent again.

        A leader of a release before 3.1 wants to retry after every error that it does not know, and cannot:
        the change stays pending for good. The same happens to a 2.8.0 leader whose answer has the partition epoch
        that it already has.
        """
        if change is not self.pending:
            return
        if isinstance(outcome, LeaderAndIsr):
            oldest = self.partition_epoch + (release < RELEASE_3_0)
            if outcome.leader_epoch != self.leader_epoch or outcome.partition_epoch < oldest:
                change.stuck = True
                return
            self.isr, self.partition_epoch = outcome.isr, outcome.partition_epoch
            self.pending = None
        elif release <= RELEASE_3_0 or outcome in _REFUSED_FOR_GOOD:
            change.stuck = True
        elif outcome in _NOT_DONE:
            self.pending = None

    # -- as follower -------------------------------------------------------------------------------------------------

    def take_fetched(self, answer: Fetched) -> bool:
        """Truncate or append as the leader answered (no error); return whether to fetch again at once."""
        log = self.log
        if answer.diverges_at is not None:
            epoch, end = answer.diverges_at
            own_epoch, own_end = log.end_of_epoch(epoch)
            log.truncate_to(min(own_end, end) if own_epoch == epoch else own_end)
            return True
        log.records += answer.records
        log.high_watermark = max(log.high_watermark, min(answer.high_watermark, log.end))
        return bool(answer.records)
