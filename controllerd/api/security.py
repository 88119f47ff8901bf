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


def principal_of(identity: str | None) -> Principal:
    """Whom a connection stands for, by the name that its transport proved."""
    return ANONYMOUS if identity is None else Principal("User", identity)


class Operation(Enum):
    """What a request does, as far as permission to do it differs."""

    CLUSTER_ACTION = "act as a broker of this cluster"
    DESCRIBE = "read the metadata of the cluster"
    ALTER = "change the cluster: leaders, assignments, features, credentials"
    CREATE = "create topics; for a topic, one of this name"
    DELETE_TOPIC = "delete a topic"
    DESCRIBE_TOPIC = "read the metadata of a topic"
    ALTER_TOPIC = "give a topic more partitions"
    DESCRIBE_TOPIC_CONFIGS = "read the configuration of a topic"
    IDEMPOTENT_WRITE = "get a producer id"
    DESCRIBE_CONFIGS = "read this node's configuration"
    ALTER_CONFIGS = "change this node's configuration"
    RELAY = "have a broker answer in this node's name, which loses the identity"


class Authorizer(Protocol):
    """Decides before an event is queued or a frame is relayed."""

    def allows(self, principal: Principal, operation: Operation, topic: str | None = None) -> bool:
        """Whether this principal may do this, to this topic or to the cluster as a whole. Must not block.

        It is asked for each topic of a request, so that it must be quick.
        """
        ...


class AllowAll:
    """A cluster without an authorizer: everybody may do everything, as with Kafka's default."""

    def allows(
        self,
        principal: Principal,  # noqa: ARG002 (the protocol's signature, as below)
        operation: Operation,  # noqa: ARG002
        topic: str | None = None,  # noqa: ARG002
    ) -> bool:
        """Always."""
        return True
