"""Events by which operators hold the controller back: pauses, drained brokers, throttled reassignments (all ours)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from controllerd.core.intents import PauseView
from controllerd.core.model import BrokerId, TopicPartition
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class Pause(Call[PauseView]):
    """Leave ``auto-rebalance`` or ``deletions`` alone until a wall-clock time; replaces a pause of the same name.

    Brokers go on with requests that they have. A name that does not exist, or a time that is over, is ``CallRefused``.
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
    """The time of a pause may be over: end each pause that is over, and go on with the work that waited."""

    state: ClassVar[ControllerState] = ControllerState.IDLE

    until_ms: int = 0
    """The time that may be over."""


@dataclass(frozen=True, slots=True)
class DrainReply:
    """The outcome for the partitions that the broker led; ``remaining`` says why each could not be moved."""

    moved: tuple[TopicPartition, ...]
    remaining: Mapping[TopicPartition, str]


@dataclass(frozen=True, slots=True)
class DrainBroker(Call[DrainReply]):
    """Move the leaderships of a broker away before it is stopped.

    As its controlled shutdown would: it is out of the ISRs as well, and may not lead until it registers anew. Or with
    ``leaders_only``: it goes on as a follower in the ISR. In both cases the automatic rebalance gives it nothing back
    before ``until_ms`` (None: for a week, with ``leaders_only`` for an hour), ``Resume("drain-<id>")``, or its next
    registration, whichever controller leads then.

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
    """The brokers on which the rate is set, and the topics on which replicas are named."""

    brokers: tuple[BrokerId, ...]
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThrottleReassignments(Call[ThrottleReply]):
    """Bound the copying of reassignments that are asked for next; the controller takes the bounds away at their end.

    ``rate`` is in bytes per second. ``targets`` are the replicas that the partitions are to have, as in
    ``ApiPartitionReassignment``. Another client's throttle with another value is ``CallRefused`` without ``override``;
    with it, it is put back in the end.
    """

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    rate: int
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]] = field(repr=False)
    by: str
    override: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleCheck(Event):
    """The reassignments of a throttle may have ended: remove it then."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT

    set_ms: int = 0
    """The throttle that was waited for, where its reassignments may not have begun in time."""
