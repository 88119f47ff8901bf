"""Events by which operators hold the controller back: pauses, drained brokers, throttled reassignments (all ours)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.pauses import PauseView
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class Pause(Call[PauseView]):
    """Leave ``auto-rebalance`` or ``deletions`` alone until a wall-clock time; replaces a pause of the same name.

    What brokers were told already goes on. A name that does not exist, or a time that is over, is ``CallRefused``.
    """

    state: ClassVar[ControllerState] = ControllerState.IDLE

    what: str
    until_ms: int
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Resume(Call[PauseView | None]):
    """End a pause (also ``drain-<id>``); the reply is what ended, None when there was nothing."""

    state: ClassVar[ControllerState] = ControllerState.IDLE

    what: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class PauseCheck(Event):
    """The time of a pause may be over: end those that are, and go on with what waited."""

    state: ClassVar[ControllerState] = ControllerState.IDLE

    until_ms: int = 0
    """The time that may be over."""


@dataclass(frozen=True, slots=True)
class DrainReply:
    """What became of the partitions that the broker led; ``remaining`` says why each could not be moved."""

    moved: tuple[TopicPartition, ...]
    remaining: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class DrainBroker(Call[DrainReply]):
    """MoveLeadershipAway a broker of its leaderships before somebody stops it.

    As its controlled shutdown would: it is out of the ISRs as well, and may not lead until it registers anew. Or with
    ``leaders_only``: it goes on as a follower in the ISR. In both cases the automatic rebalance gives it nothing back
    before ``until_ms`` (None: for a week, with ``leaders_only`` for an hour), ``Resume("drain-<id>")``, or its next
    registration, whoever is controller then.

    A broker that is not registered is ``CallRefused``.
    """

    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN

    broker: BrokerId
    leaders_only: bool
    reason: str
    by: str
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ThrottleReply:
    """On which brokers the rate is set, and on which topics replicas are named."""

    brokers: tuple[BrokerId, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThrottleReassignments(Call[ThrottleReply]):
    """Bound the copying of reassignments that are asked for next; the controller takes the bounds away at their end.

    ``rate`` is in bytes per second. ``targets`` are the replicas that the partitions are to have, as in
    ``ApiPartitionReassignment``. Somebody else's throttle with another value is ``CallRefused`` without ``override``;
    with it, it is put back in the end.
    """

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    rate: int
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]] = field(repr=False)
    by: str
    override: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleCheck(Event):
    """Reassignments may have ended that a throttle was set for: take away what nobody needs any more."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    set_ms: int = 0
    """The throttle that was waited for, where its reassignments may not have begun in time."""
