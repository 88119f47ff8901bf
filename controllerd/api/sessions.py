"""Sessions and permissions: the identity of a connection, and the authorizer that decides what it may do."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from controllerd.api.hang_up import HangUp, Reason
from controllerd.api.relay import Relay
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Endpoint
from wire.api_codec import Request


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated identity of a connection."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")
"""The principal of every client on a plaintext listener."""


def principal_of(identity: str | None) -> Principal:
    """Return the principal of a connection, by the name that its transport authenticated."""
    return ANONYMOUS if identity is None else Principal("User", identity)


class AclOperation(Enum):
    """The operations of requests for which permissions differ."""

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
    """The authorizer, which is called before an event is queued or a frame is relayed."""

    def allows(self, principal: Principal, operation: AclOperation, topic: str | None = None) -> bool:
        """Return whether a principal may do this to a topic, or to the cluster as a whole. Must not block.

        The server calls it for each topic of a request, so it must be fast.
        """
        ...


class AllowAll:
    """A cluster without an authorizer: every client may do everything, as with Kafka's default."""

    def allows(
        self,
        principal: Principal,  # noqa: ARG002 (the protocol's signature, as below)
        operation: AclOperation,  # noqa: ARG002
        topic: str | None = None,  # noqa: ARG002
    ) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class Session:
    """The context of the requests of one connection: the principal with its rights, our listener, and the relay."""

    peer: str
    principal: Principal
    own: Endpoint
    """Our endpoint of the listener that the connection came in on."""
    relay: Relay
    authorizer: Authorizer

    def allows(self, operation: AclOperation, topic: str | None = None) -> bool:
        """Return whether the principal may do this to a topic, or to the cluster as a whole."""
        return self.authorizer.allows(self.principal, operation, topic)

    def denied(self, operation: AclOperation) -> KafkaError | None:
        """Return the error for a principal that may not do this to the cluster; None: it may."""
        return None if self.allows(operation) else KafkaError.CLUSTER_AUTHORIZATION_FAILED

    async def forward(self, request: Request) -> bytes:
        """Return a broker's response. :raises HangUp: the principal may not be relayed, or no broker responds."""
        if not self.allows(AclOperation.RELAY):
            raise HangUp(Reason.NOT_AUTHORIZED, f"{self.principal} may not be relayed")
        return await self.relay.forward(request)


@dataclass(frozen=True, slots=True)
class Answered:
    """The pieces of a response; the connection is not read for ``mute_ms`` after it, whatever its client does."""

    pieces: list[bytes]
    mute_ms: int = 0
