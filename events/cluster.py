"""Events of the controller's own role and of the brokers."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from controllerd.core.model import BrokerId
from events.base import Call, ControllerState, Event


@dataclass(frozen=True, slots=True)
class Startup(Event):
    """The daemon started: watch ``/controller`` and try to be elected. Enqueued once."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = (
        "Refused to lead (secured ZooKeeper, migration, the node id is a broker's): alarm, standby, tried again every "
        "30 s. A damaged topic, state or registration znode is put in quarantine and everything else is served."
    )


@dataclass(frozen=True, slots=True)
class ControllerChange(Event):
    """``/controller`` was created or its data changed: resign if it is no longer ours."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "ZooKeeper away: the event waits with the session."


@dataclass(frozen=True, slots=True)
class Reelect(Event):
    """``/controller`` was deleted: resign if it was ours, then try to be elected."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "As Startup. Another process wins the election: standby."


@dataclass(frozen=True, slots=True)
class RegisterBrokerAndReelect(Event):
    """A new ZooKeeper session was established: elect. A registration among the brokers comes later, if needed."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "As Reelect."


@dataclass(frozen=True, slots=True)
class Expire(Event):
    """The ZooKeeper session ``generation`` has expired: resign. The event enters the queue by ``clear_and_put``."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "Nothing can fail: the handler only stops the senders and drops the state."

    generation: int = 0


@dataclass(frozen=True, slots=True)
class ShutdownEventThread(Event):
    """The daemon stops: resign, give the role back, end the loop. Enters the queue by ``clear_and_put``."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_SHUTDOWN
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = (
        "The role was lost before: logged. After one second the event is cancelled, and the end of the session gives "
        "the role back."
    )


@dataclass(frozen=True, slots=True)
class Resync(Call[None]):
    """Connected again within the session: every watch was lost, so everything is read and armed anew (ours)."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "As each of the events whose reads it repeats."


@dataclass(frozen=True, slots=True)
class TakeoverResult:
    """The outcome of a takeover: the controller epoch before and after, and the holder of the role before."""

    epoch_before: int
    epoch_after: int
    held_by: str


@dataclass(frozen=True, slots=True)
class Takeover(Call[TakeoverResult]):
    """An operator wants this instance to take the role, whichever controller holds it (ours)."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = (
        "The holder is another controllerd, or `/controller` cannot be decoded: refused with the reason."
    )

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resign(Call[None]):
    """An operator wants this instance to give the role away and stand by (ours)."""

    state: ClassVar[ControllerState] = ControllerState.CONTROLLER_CHANGE
    requires_active: ClassVar[bool] = False
    failures: ClassVar[str] = "Not active: refused."

    reason: str = ""


@dataclass(frozen=True, slots=True)
class BrokerChange(Event):
    """The children of ``/brokers/ids`` changed.

    The event has no list of brokers, because one watch may stand for several changes: its handler reads the znodes.
    """

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    failures: ClassVar[str] = (
        "A registration that cannot be used is put in quarantine with an alarm, and its broker keeps its known state; "
        "a broker without the required listener gets no channel. Partitions without an electable replica stay "
        "offline."
    )


@dataclass(frozen=True, slots=True)
class BrokerModifications(Event):
    """The registration of a broker changed in place (endpoints or features)."""

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    failures: ClassVar[str] = "As BrokerChange, for one broker."

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class BrokerRefresh(Event):
    """A broker's queue was dropped, or its sender failed: send the broker the full state, as when it starts (ours)."""

    state: ClassVar[ControllerState] = ControllerState.BROKER_CHANGE
    failures: ClassVar[str] = "The broker was removed meanwhile: nothing happens."

    broker: BrokerId
    reopen: bool = False
    """The channel itself is broken and is opened anew."""


class Difference(NamedTuple):
    """A znode whose content differs between the context and ZooKeeper, with both contents.

    Two values of ``known`` are equal only if no event took the znode in between; None: the znode is
    not known.
    """

    path: str
    known: Hashable
    found: Hashable


@dataclass(frozen=True, slots=True)
class SelfAudit(Event):
    """Time to compare the context with ZooKeeper, without a change that was announced (ours).

    ``after`` is the last topic of this round so far. ``suspects`` are the differences of the first
    look; with them only their paths are read.
    """

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = (
        "A znode that differs is read again after 5 s. If it still differs, and no event handled it in between, an "
        "alarm is raised and the events that were missing are queued. For a state znode that was deleted only the "
        "alarm is raised."
    )

    after: str = ""
    suspects: frozenset[Difference] = frozenset()


@dataclass(frozen=True, slots=True)
class DelegationTokenExpiryCheck(Event):
    """Time to delete expired delegation tokens (in Kafka a scheduled task, not an event).

    The event is repeated while there are any tokens.
    """

    state: ClassVar[ControllerState] = ControllerState.IDLE
    failures: ClassVar[str] = (
        "A token that cannot be decoded is put in quarantine and not changed. A token that changed meanwhile is "
        "examined by the next check."
    )


@dataclass(frozen=True, slots=True)
class QuarantineCheck(Event):
    """Time to check whether partition states in quarantine were repaired (ours; repeated while there are any)."""

    state: ClassVar[ControllerState] = ControllerState.TOPIC_CHANGE
    failures: ClassVar[str] = "Still damaged: the znode stays in quarantine until the next check in 10 s."


RoleEvent = (
    Startup
    | ControllerChange
    | Reelect
    | RegisterBrokerAndReelect
    | Expire
    | ShutdownEventThread
    | Resync
    | Takeover
    | Resign
)
BrokerEvent = BrokerChange | BrokerModifications | BrokerRefresh
CheckEvent = SelfAudit | DelegationTokenExpiryCheck | QuarantineCheck
