"""What a connection is to the requests that come over it, and what one of them is answered."""

from dataclasses import dataclass

from controllerd.api.relay import Relay
from controllerd.api.security import Principal
from controllerd.core.model import Endpoint
from events.admin import Requester
from wire.api_codec import Request
from wire.framing import decode_request_header


@dataclass(frozen=True, slots=True)
class Session:
    """What a connection is to its requests: who, on which listener of ours, and its own way to the brokers."""

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
    """Who asks. :raises MalformedMessage: the header of the request cannot be read."""
    header, _ = decode_request_header(request.frame)
    who = session.principal
    return Requester(str(who), who.name, header.client_id or "", header.version, session.peer)
