"""Who asks over HTTP: the name that access control found out, or the local user behind a unix socket."""

from typing import Final

from aiohttp import web

from controllerd.status.access import PRINCIPAL
from controllerd.status.peers import peer_of
from events.admin import Requester

CLIENT_ID: Final = "http"
_VERSION: Final = 100
"""Later than every version of the wire's requests: quotas refuse, and do not only slow down."""
_NOBODY: Final = "anonymous"


def requester_of(request: web.Request) -> Requester:
    """Who asks, for events and for the audit log."""
    assert request.transport is not None, "the request is being served"
    peer = peer_of(request.transport)
    local = None if peer.user_id is None else f"unix:{peer.user_id}"
    name = str(request.get(PRINCIPAL) or local or _NOBODY)
    kind, _, user = name.partition(":")
    return Requester(name if user else f"User:{name}", user or kind, CLIENT_ID, _VERSION, peer.address)
