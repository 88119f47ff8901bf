"""Access control: a middleware that checks every request before its handler runs.

Any page in a browser can make that browser send requests: to a loopback address under the host name of the page (DNS
rebinding), with forms, or with a password that the browser remembers. So three kinds of requests are refused whatever
credentials they carry: requests under a foreign host name, requests from another site, and verbs that are not JSON.
"""

import asyncio
import ipaddress
import time
from collections import Counter
from contextlib import nullcontext
from http import HTTPStatus
from typing import Final
from urllib.parse import SplitResult, urlsplit

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from controllerd.status.http.connection import Connection
from controllerd.status.http.credentials import Credentials, Peer, Rank, Tokens, credentials_of, peer_of
from controllerd.status.http.limits import ConnectionLimiter
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Access, Route, route_of
from events.admin import Requester

log = structlog.get_logger(__name__)

PRINCIPAL: Final[web.RequestKey[str]] = web.RequestKey("principal", str)
"""The request key of the client's name in the audit log; absent for an anonymous client."""
RANK: Final[web.RequestKey[Rank]] = web.RequestKey("rank", Rank)
"""The request key of the client's rank, for pages that are open to every client and show more to some clients."""
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="controllerd", Basic realm="controllerd", charset="UTF-8"'}
_NEEDED: Final = {Access.OPEN: Rank.NONE, Access.READ: Rank.READ, Access.ADMIN: Rank.ADMIN}
_LOG_EVERY_S: Final = 10.0
_CLOSING: Final = {"Connection": "close"}
_JSON: Final = '{"reason": "why, for the audit log"}'
_CLIENT_ID: Final = "http"
_API_VERSION: Final = 100
"""Higher than every version of Kafka's requests: quotas then refuse a call instead of delaying it."""


class AccessControl:
    """Checks the host name, the credentials, the origin and the body of each request."""

    def __init__(
        self, tokens: Tokens, limiter: ConnectionLimiter, *, is_local: bool, names: frozenset[str] = frozenset()
    ) -> None:
        """``is_local``: only this machine can connect. Then ``names`` and ``localhost`` are the accepted host names."""
        self.tokens = tokens
        self.refusals: Final[Counter[str]] = Counter()
        """The number of refused requests by code."""
        self._limiter = limiter
        self._is_local = is_local
        self._names = {name.lower() for name in names} | {"localhost"}
        self._logged_at = -_LOG_EVERY_S
        self._unlogged = 0

    @web.middleware
    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Call the handler of a permitted request. :raises Refused: access is denied, or a limit is reached."""
        connection = request.protocol
        with connection.busy() if isinstance(connection, Connection) else nullcontext():
            route = self._check_access(request)
            if route is None:
                return await handler(request)
            request = await self._with_body(request, route)
            is_stream = route.is_stream and "text/event-stream" in request.headers.get("Accept", "")
            with self._limiter.streaming(str(_connected_peer(request))) if is_stream else nullcontext():
                return await self._serve(request, handler)

    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Call the handler, and count the refusals of handlers that check tokens themselves."""
        try:
            return await handler(request)
        except Refused as refused:
            if refused.problem.status == HTTPStatus.UNAUTHORIZED:
                self._count_refusal(refused, request)
            raise

    def _check_access(self, request: web.Request) -> Route | None:
        try:
            self._check_host(request)
            route = route_of(request)
            if route is not None:
                self._check_rank(request, route)
                _check_origin(request)
        except Refused as refused:
            self._count_refusal(refused, request)
            raise
        return route

    def _check_host(self, request: web.Request) -> None:
        """Check the Host header. Clients that send none, and clients on the unix socket, are not browsers."""
        names = request.headers.getall("Host", [])
        if len(names) > 1:
            raise Refused(HTTPStatus.BAD_REQUEST, "two_hosts", "the request has more than one Host header")
        can_be_browser = self._is_local and names and not _connected_peer(request).is_local_user
        if can_be_browser and not self._is_own_name(names[0]):
            detail = f"the Host header names {names[0]!r}, which is not a name of this server"
            raise Refused(HTTPStatus.FORBIDDEN, "foreign_host", detail, "address this server by its IP address")

    def _is_own_name(self, authority: str) -> bool:
        name = _split(f"//{authority}").hostname or ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def _check_rank(self, request: web.Request, route: Route) -> None:
        needed = _NEEDED[route.access]
        peer, sent = _connected_peer(request), credentials_of(request.headers.get("Authorization"))
        rank = self._rank(peer, sent)
        request[RANK] = rank
        if rank >= needed:
            _keep_principal(request, peer, sent if rank is not self._anonymous else None, rank)
            return
        if rank is Rank.READ and sent is not None:
            detail = "this request requires the admin token; the read token was sent"
            raise Refused(HTTPStatus.FORBIDDEN, "read_token", detail, "use http.admin_token, or the unix socket")
        if needed is Rank.ADMIN and not self.tokens.has(Rank.ADMIN):
            detail = "no admin token is configured: verbs are served on the unix socket only"
            raise Refused(HTTPStatus.FORBIDDEN, "no_admin_token", detail, "use http.socket, or set http.admin_token")
        detail = "this request requires a token" if sent is None else "the token is not valid"
        hint = "send Authorization: Bearer TOKEN, or the token as a password"
        raise Refused(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, hint, headers=_CHALLENGE)

    def _rank(self, peer: Peer, sent: Credentials | None) -> Rank:
        if peer.is_local_user:  # the permissions of the socket file decide which users can connect
            return Rank.ADMIN
        return self._anonymous if sent is None else max(self.tokens.rank_of(sent), self._anonymous)

    @property
    def _anonymous(self) -> Rank:
        """The rank of a client without credentials."""
        if not self._is_local or self.tokens.has(Rank.READ):
            return Rank.NONE
        return Rank.READ if self.tokens.has(Rank.ADMIN) else Rank.ADMIN

    async def _with_body(self, request: web.Request, route: Route) -> web.Request:
        """Return the request with its body read, within the limits of time and size."""
        if not request.can_read_body:
            return request
        limit, seconds = route.body_limit, self._limiter.limits.body_s
        if (request.content_length or 0) > limit:
            raise _too_long(limit)
        request = request.clone(client_max_size=limit)
        try:
            async with asyncio.timeout(seconds):
                await request.read()
        except TimeoutError as error:
            detail = f"the body was not complete within {seconds:g} s"
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "slow_body", detail, "repeat", headers=_CLOSING) from error
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_long(limit) from error
        except web.RequestPayloadError as error:
            detail = "the body is incomplete, or does not match its headers"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_body", detail) from error
        return request

    def _count_refusal(self, refused: Refused, request: web.Request) -> None:
        """Count a refusal, and log at most one line in ten seconds, however many requests are refused."""
        self.refusals[refused.problem.code] += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_EVERY_S:
            self._unlogged += 1
            return
        details = {"code": refused.problem.code, "method": request.method, "path": request.path[:200]}
        log.warning("access refused", peer=str(_connected_peer(request)), unlogged_before=self._unlogged, **details)
        self._logged_at, self._unlogged = now, 0


def requester_of(request: web.Request) -> Requester:
    """Return the name and address of the client, for events and for the audit log."""
    assert request.transport is not None, "the request is being served"
    peer = peer_of(request.transport)
    local = None if peer.user_id is None else f"unix:{peer.user_id}"
    name = str(request.get(PRINCIPAL) or local or "anonymous")
    kind, _, user = name.partition(":")
    return Requester(name if user else f"User:{name}", user or kind, _CLIENT_ID, _API_VERSION, peer.address)


def _too_long(limit: int) -> Refused:
    detail, status = f"the body is longer than {limit} bytes", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return Refused(status, "request_entity_too_large", detail, "send smaller requests", headers=_CLOSING)


def _check_origin(request: web.Request) -> None:
    """Check that no page of another site sent the verb. :raises Refused: one did, or the body is not JSON."""
    if request.method in {"GET", "HEAD"}:
        return
    site, origin = request.headers.get("Sec-Fetch-Site", "none"), request.headers.get("Origin")
    is_foreign = origin is not None and _split(origin).netloc.lower() != request.headers.get("Host", "").lower()
    if site not in {"none", "same-origin"} or is_foreign:
        detail = f"pages of another site ({origin or site}) may not send this request"
        raise Refused(HTTPStatus.FORBIDDEN, "cross_site", detail, "use controllerctl, or the page of this server")
    if request.content_type != "application/json" and (request.method == "POST" or request.can_read_body):
        detail = f"the body must be application/json, not {request.content_type}"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", detail, _JSON)


def _keep_principal(request: web.Request, peer: Peer, sent: Credentials | None, rank: Rank) -> None:
    """Keep the client's name in the request; ``requester_of`` finds the name of a user of the unix socket."""
    if peer.is_local_user:
        return
    names = [f"token:{rank.name.lower()}"] if sent is not None else []
    names += [f"as {sent.user}"] if sent is not None and sent.user else []
    names += [f"certificate {peer.certificate}"] if peer.certificate else []
    if names:
        request[PRINCIPAL] = " ".join(names)


def _connected_peer(request: web.Request) -> Peer:
    return peer_of(request.transport) if request.transport is not None else Peer("gone")


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; empty parts for ``null`` and for text that is not a URL."""
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
