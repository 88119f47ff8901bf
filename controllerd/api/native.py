"""The APIs that this node serves itself, as data: the catalog and the dispatcher derive everything else from them.

The decorator ``serves`` makes a row of a method: the API, its versions, and the permission that its requests need. A
method may serve several APIs.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from controllerd.api.sessions import AclOperation, Answered, Session
from controllerd.core.kafka_error import KafkaError
from events.admin import Requester
from wire.api_codec import Request
from wire.framing import decode_request_header
from wire.versions import ApiKey, VersionRange

_DECLARED: Final = "native_apis"


@dataclass(frozen=True, slots=True)
class NativeRequest(Request):
    """A request that this node serves itself, in a version that it supports."""

    session: Session
    denied: KafkaError | None = None
    """The error for a requester without the permission that the API needs."""

    @property
    def by(self) -> Requester:
        """The requester. :raises MalformedMessage: the header cannot be read."""
        header, _ = decode_request_header(self.frame)
        principal = self.session.principal
        return Requester(str(principal), principal.name, header.client_id or "", header.version, self.session.peer)


CallType = TypeVar("CallType", bound=Callable[[Any, NativeRequest], Awaitable[bytes | Answered]])


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeApi:
    """One API that this node serves itself."""

    key: ApiKey
    versions: VersionRange
    call: Callable[..., Awaitable[bytes | Answered]]
    """The method that serves it; the dispatcher binds it to its object.

    It raises MalformedMessage for bad bytes, and HangUp if no response is possible.
    """
    needs: AclOperation | None
    """The permission on the cluster that a requester needs; None: none, or one for each topic of the request."""
    is_forwarded: bool = False
    """Whether brokers may pass its requests on in an envelope."""
    is_partly_relayed: bool = False
    """Whether some of its requests are relayed to a broker, so that only versions that brokers know are advertised."""


def serves(
    key: ApiKey, versions: VersionRange, *, needs: AclOperation | None, **details: bool
) -> Callable[[CallType], CallType]:
    """Declare a method as the one that serves an API; ``details`` has further fields of ``NativeApi``."""

    def declare(call: CallType) -> CallType:
        made = NativeApi(key=key, versions=versions, call=call, needs=needs, **details)
        setattr(call, _DECLARED, (*getattr(call, _DECLARED, ()), made))
        return call

    return declare


def apis_of(family: type) -> list[NativeApi]:
    """Return the APIs that the methods of a class serve."""
    return [api for method in vars(family).values() for api in getattr(method, _DECLARED, ())]
