"""Values and lines as Kafka 3.9 prints them in ``state-change.log`` and ``controller.log``. Pure."""

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple

File = Literal["state-change.log", "controller.log"]
STATE_CHANGE: Final[File] = "state-change.log"
CONTROLLER: Final[File] = "controller.log"
_RECOVERY: Final = ("RECOVERED", "RECOVERING")


class Line(NamedTuple):
    """One line without its time."""

    file: File
    level: str
    text: str
    logger: str
    cause: str = ""
    """The line of the exception, which Kafka prints below the text; the stack trace is left out."""


class Leadership(NamedTuple):
    """One row of a leadership record."""

    leader: int
    leader_epoch: int
    isr: list[int]
    controller_epoch: int
    partition_epoch: int
    recovery: int

    def as_leader_and_isr(self) -> str:
        """Format as Kafka's ``LeaderAndIsr``, as in a line about an election."""
        brokers = ", ".join(f"BrokerState(brokerId={broker}, brokerEpoch=-1)" for broker in self.isr)
        return (
            f"LeaderAndIsr(leader={self.leader}, leaderEpoch={self.leader_epoch}, isrWithBrokerEpoch=List({brokers}), "
            f"leaderRecoveryState={_RECOVERY[self.recovery]}, partitionEpoch={self.partition_epoch})"
        )

    def as_leader_isr_and_controller_epoch(self) -> str:
        """Format as Kafka's ``LeaderIsrAndControllerEpoch``, as in a line about a replica that left the ISR."""
        return (
            f"(Leader:{self.leader},ISR:{commas(self.isr)},LeaderRecoveryState:{_RECOVERY[self.recovery]},"
            f"LeaderEpoch:{self.leader_epoch},ZkVersion:{self.partition_epoch},ControllerEpoch:{self.controller_epoch})"
        )


def commas(values: Iterable[object]) -> str:
    """Format as ``1,2,3``."""
    return ",".join(map(str, values))


def scala_set(values: Iterable[object]) -> str:
    """Format as ``Set(1, 2, 3)``."""
    return f"Set({', '.join(map(str, values))})"


def assignment(replicas: list[int], adding: list[int], removing: list[int]) -> str:
    """Format as ``ReplicaAssignment(...)``."""
    return (
        f"ReplicaAssignment(replicas={commas(replicas)}, addingReplicas={commas(adding)}, "
        f"removingReplicas={commas(removing)})"
    )
