"""Sessions and permissions: the identity of a connection, and the authorizer that decides what it may do."""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from controllerd.api.relay import Relay
from controllerd.core.model import Endpoint
from events.admin import Requester
from wire.api_codec import Request
from wire.framing import decode_request_header


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
    """The context of the requests of one connection: the principal, our listener, and its relay to the brokers."""

    peer: str
    principal: Principal
    own: Endpoint
    """Our endpoint of the listener that the connection came in on."""
    relay: Relay


@dataclass(frozen=True, slots=True)
class Answered:
    """The pieces of a response; the connection is not read for ``mute_ms`` after it, whatever its client does."""

    pieces: list[bytes]
    mute_ms: int = 0


def requester(request: Request, session: Session) -> Requester:
    """Return the requester of a request. :raises MalformedMessage: its header cannot be read."""
    header, _ = decode_request_header(request.frame)
    principal = session.principal
    return Requester(str(principal), principal.name, header.client_id or "", header.version, session.peer)
