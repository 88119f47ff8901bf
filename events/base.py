"""The base of events: frozen data, mapped to the state that the controller is in while it handles them."""

from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Generic, TypeVar

Reply = TypeVar("Reply")


class ControllerState(IntEnum):
    """The state of the controller, with Kafka's codes (gauge ``ControllerState``)."""

    IDLE = 0
    CONTROLLER_CHANGE = 1
    BROKER_CHANGE = 2
    TOPIC_CHANGE = 3
    TOPIC_DELETION = 4
    ALTER_PARTITION_REASSIGNMENT = 5
    AUTO_LEADER_BALANCE = 6
    MANUAL_LEADER_BALANCE = 7
    CONTROLLED_SHUTDOWN = 8
    ISR_CHANGE = 9
    LEADER_AND_ISR_RESPONSE_RECEIVED = 10
    LOG_DIR_CHANGE = 11
    CONTROLLER_SHUTDOWN = 12
    UNCLEAN_LEADER_ELECTION_ENABLE = 13
    TOPIC_UNCLEAN_LEADER_ELECTION_ENABLE = 14
    LIST_PARTITION_REASSIGNMENT = 15
    UPDATE_METADATA_RESPONSE_RECEIVED = 16
    UPDATE_FEATURES = 17


@dataclass(frozen=True, slots=True)
class Event:
    """An event. It carries data only: never a callback, never state that a watch could make stale."""

    state: ClassVar[ControllerState]
    """The state of the controller while it handles the event."""
    requires_active: ClassVar[bool] = True
    """Whether only the active controller handles it. Another instance refuses a call, and ignores any other event."""
    failures: ClassVar[str]
    """The effects of failures, beyond the rules that hold for every event; for ``docs/events.md``."""

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the reply."""
        return False


@dataclass(frozen=True, slots=True)
class Call(Event, Generic[Reply]):
    """An event with a caller that waits; the handler's return value is the reply."""

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for the reply."""
        return True
