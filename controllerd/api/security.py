"""Who asks and what they may: the seam where authentication and ACLs attach. Today everybody is anonymous."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity that a connection proved."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""Whoever comes over a plaintext listener."""


class Operation(Enum):
    """What a request does, as far as permission to do it differs."""

    CLUSTER_ACTION = "act as a broker of this cluster"
    DESCRIBE = "read the metadata of the cluster"
    ALTER = "change the cluster: leaders, assignments, features"
    IDEMPOTENT_WRITE = "get a producer id"
    DESCRIBE_CONFIGS = "read this node's configuration"
    ALTER_CONFIGS = "change this node's configuration"
    RELAY = "have a broker answer in this node's name, which loses the identity"


class Authorizer(Protocol):
    """Decides before an event is queued or a frame is relayed."""

    def allows(self, principal: Principal, operation: Operation) -> bool:
        """Whether this principal may do this. Must not block."""
        ...


class AllowAll:
    """A cluster without an authorizer: everybody may do everything, as with Kafka's default."""

    def allows(self, principal: Principal, operation: Operation) -> bool:  # noqa: ARG002 (the protocol's signature)
        """Always."""
        return True
