"""One replica on one simulated broker, as leader or follower, with a log: the rules of ``wire.md`` E, without I/O."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import LeaderAndIsr
from tests.sim.broker_frames import RELEASE_3_0, Key, ReleaseNumber, Told
from tests.sim.broker_log import Record, ReplicaLog

_REFUSED_FOR_GOOD: Final = frozenset({
    KafkaError.UNKNOWN_TOPIC_OR_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.INVALID_UPDATE_VERSION,
    KafkaError.INVALID_REQUEST,
    KafkaError.NEW_LEADER_ELECTED,
})  # fmt: skip
"""After these the leader keeps what it proposed in mind, and waits for a LeaderAndIsr with a higher leader epoch."""
_NOT_DONE: Final = frozenset({KafkaError.OPERATION_NOT_ATTEMPTED, KafkaError.INELIGIBLE_REPLICA})
"""After these the committed ISR holds for sure."""


class Role(Enum):
    """What the replica does."""

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
    """What a leader knows of a follower."""

    end: int = -1
    """Its log end offset, -1 until it fetched from this leader."""
    caught_up_at: float = float("-inf")
    fetched_at: float = float("-inf")
    leader_end_then: int = -1


class Fetched(NamedTuple):
    """The answer to a fetch: an error, or where the logs part, or records."""

    error: KafkaError
    parts_from: tuple[int, int] | None = None
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
    """On a leader: as the controller confirmed it last. On a follower: as it was told (for the end of the story)."""
    pending: IsrChange | None = None
    fetching: bool = False
    stopped: bool = False
    """StopReplica without delete, and nothing since."""
    waiting: list[int] = field(default_factory=list)
    """Offsets whose producers wait for all of the ISR."""
    followers: dict[int, FollowerState] = field(default_factory=dict)
    epoch_start: int = 0

    # -- what the controller says ------------------------------------------------------------------------------------

    def lead(self, told: Told, now: float) -> bool:
        """Lead as told; False, and nothing changed, if the partition epoch is older than what is known."""
        if told.partition_epoch < self.partition_epoch:
            return False
        led_before = self.role is Role.LEADER
        self._take(told)
        self.role, self.fetching = Role.LEADER, False
        self.epoch_start = self.log.end
        before, self.followers = self.followers, {}
        for replica in told.replicas:
            if replica != self.broker:
                state = self.followers[replica] = FollowerState(end=-1)
                if led_before and replica in before:
                    state.end = before[replica].end
                if replica in told.isr:
                    state.caught_up_at = now
        return True

    def follow(self, told: Told) -> bool:
        """Follow as told; False, and nothing changed, if the partition epoch is older than what is known."""
        if told.partition_epoch < self.partition_epoch:
            return False
        self._take(told)
        self.role, self.fetching = Role.FOLLOWER, True
        self.waiting.clear()
        self.followers.clear()
        return True

    def _take(self, told: Told) -> None:
        self.leader, self.leader_epoch, self.partition_epoch = told.leader, told.leader_epoch, told.partition_epoch
        self.replicas, self.isr = told.replicas, told.isr
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
            return KafkaError.UNKNOWN_SERVER_ERROR  # NOT_ENOUGH_REPLICAS; the controller never sees its code
        end = self.log.end
        for state in self.followers.values():
            if state.end == end:
                state.caught_up_at = now
        self.log.records.append(Record(self.leader_epoch, value))
        self.waiting.append(end)
        return KafkaError.NONE

    def serve(self, follower: int, leader_epoch: int, end: int, last_epoch: int, now: float) -> Fetched:
        """A follower fetches from the end of its log."""
        if leader_epoch != self.leader_epoch:
            older = leader_epoch < self.leader_epoch
            return Fetched(KafkaError.FENCED_LEADER_EPOCH if older else KafkaError.UNKNOWN_LEADER_EPOCH)
        if self.role is not Role.LEADER:
            return Fetched(KafkaError.NOT_LEADER_OR_FOLLOWER)
        state = self.followers.get(follower)
        if state is None:
            return Fetched(KafkaError.UNKNOWN_LEADER_EPOCH)
        parts = self.log.parts_from(last_epoch, end)
        if parts is not None:
            return Fetched(KafkaError.NONE, parts)
        if end >= self.log.end:
            state.caught_up_at = now
        elif end >= state.leader_end_then >= 0:
            state.caught_up_at = max(state.caught_up_at, state.fetched_at)
        state.end, state.fetched_at, state.leader_end_then = end, now, self.log.end
        return Fetched(KafkaError.NONE, None, tuple(self.log.records[end:]), self.log.high_watermark)

    def advance(self, min_insync: int) -> list[int]:
        """Move the high watermark as far as it may go; the offsets that producers may be told of now.

        What is proposed but not confirmed counts as in sync; under too small an ISR it stays where it is.
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
        """Whether a follower that fetched has come far enough to be let into the ISR."""
        if self.role is not Role.LEADER or self.pending is not None or follower in self.isr:
            return False
        state = self.followers.get(follower)
        return state is not None and state.end >= max(self.log.high_watermark, self.epoch_start)

    def lagging(self, now: float, lag_s: float) -> tuple[int, ...]:
        """Members of the ISR that were not caught up for so long."""
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
        """Whether every member of the ISR has everything."""
        end = self.log.end
        return all(state.end == end for replica, state in self.followers.items() if replica in self.isr)

    @property
    def waits_in_vain(self) -> bool:
        """Whether it leads and cannot change its ISR until it is told a new leader epoch."""
        return self.role is Role.LEADER and self.pending is not None and self.pending.stuck

    @property
    def outsiders(self) -> list[int]:
        """Followers that are not in the ISR."""
        return [replica for replica in self.followers if replica not in self.isr]

    def propose(self, isr: tuple[int, ...]) -> None:
        """Want this ISR."""
        self.pending = IsrChange(isr, self.leader_epoch, self.partition_epoch)

    def answered(self, change: IsrChange, outcome: LeaderAndIsr | KafkaError, release: ReleaseNumber) -> None:
        """The controller's answer to a change; a late one changes nothing, an unknown error means to ask again.

        A leader of a release before 3.1 means to ask again on whatever it does not know, and cannot:
        the change waits for good. So it does where one of 2.8.0 is answered with the partition epoch
        that it has.
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
        """Truncate or append as the leader answered (no error); whether to fetch again at once."""
        log = self.log
        if answer.parts_from is not None:
            epoch, end = answer.parts_from
            own_epoch, own_end = log.end_of_epoch(epoch)
            log.truncate_to(min(own_end, end) if own_epoch == epoch else own_end)
            return True
        log.records += answer.records
        log.high_watermark = max(log.high_watermark, min(answer.high_watermark, log.end))
        return bool(answer.records)
