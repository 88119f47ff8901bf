"""Events of operators: pauses, drained brokers and throttled reassignments (all ours)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from controllerd.core.intents import PauseView
from controllerd.core.model import BrokerId, TopicPartition
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class Pause(Call[PauseView]):
    """Pause ``auto-rebalance`` or ``deletions`` until a wall-clock time; replaces a pause of the same name.

    Brokers go on with requests that they were sent before. The reply to another name, or to a time that is over, is
    ``CallRefused``.
    """

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = (
        "Refused: a name that cannot be paused, a time in the past or more than 7 days away, a znode that cannot be "
        "decoded (it is not changed, and deletions wait until it is repaired or deleted)."
    )

    what: str
    until_ms: int
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Resume(Call[PauseView | None]):
    """End a pause (also ``drain-<id>``); the reply is the pause that ended, None if there was none."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = "Nothing of that name is paused: nothing happens. Refused as Pause is."

    what: str
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class PauseCheck(Event):
    """The time of a pause may be over: end each pause that is over, and go on with the work that waited."""

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = "The end cannot be written: the pause goes on, and is checked again after 10 s."

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

    With ``leaders_only`` the broker stays a follower in the ISRs. Otherwise the drain does the same as its controlled
    shutdown: the broker leaves the ISRs as well, and cannot lead until it registers anew.

    In both cases the automatic rebalance gives the broker no leaderships back before ``until_ms`` (None: for a week,
    with ``leaders_only`` for an hour), ``Resume("drain-<id>")``, or its next registration. That also holds for another
    controllerd instance that becomes active.

    For a broker that is not registered the reply is ``CallRefused``.
    """

    state: ClassVar[ControllerState] = ControllerState.CONTROLLED_SHUTDOWN
    failures: ClassVar[str] = (
        "A broker that is not registered: refused. Leaderships that no other replica can take stay, with the reason "
        "in the answer. After a failover a broker that was drained as a whole is in sync again, and the automatic "
        "rebalance moves no leadership back to it."
    )

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
    """Throttle the replication of reassignments that are requested next; the controller removes it at their end.

    ``rate`` is in bytes per second. ``targets`` are the replicas that the partitions are to have, as in
    ``ApiPartitionReassignment``. If another client has set a throttle with another value, the reply is ``CallRefused``;
    with ``override``, that value is replaced, and restored at the end.
    """

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = (
        "Refused, with nothing set: another throttle with another value (unless overridden), an unknown partition, a "
        "configuration or a stored throttle that cannot be decoded. Settings that were written before a write failed "
        "are removed again after a minute."
    )

    rate: int
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]] = field(repr=False)
    by: str
    override: bool = False


@dataclass(frozen=True, slots=True)
class ThrottleCheck(Event):
    """The reassignments of a throttle may have ended: remove it then."""

    state: ClassVar[ControllerState] = ControllerState.ALTER_PARTITION_REASSIGNMENT
    failures: ClassVar[str] = (
        "Settings that cannot be removed are remembered and tried again after 30 s, by the controller that is active "
        "then."
    )

    set_ms: int = 0
    """The ``set_ms`` of the throttle whose reassignments may not have begun in time; 0 in any other check."""


OperatorEvent = Pause | Resume | PauseCheck | DrainBroker | ThrottleReassignments | ThrottleCheck
