"""Who may ask for what: the way of every request before its handler.

A browser can be made to send requests by any page that it shows: to a loopback address under a name of that page's
own (rebinding), with forms, or with what the browser remembers of a password. So requests under a foreign name, from
another site, and verbs that are not JSON are refused, whoever seems to send them.
"""

import asyncio
import ipaddress
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from controllerd.status.connection import Connection
from controllerd.status.limits import Door
from controllerd.status.peers import Peer, peer_of
from controllerd.status.problems import Refused
from controllerd.status.routing import Access, Handler, Route, route_of
from controllerd.status.tokens import Credentials, Rank, Tokens, credentials_of

log = structlog.get_logger(__name__)

PRINCIPAL: Final[web.RequestKey[str]] = web.RequestKey("principal", str)
"""Under this key of a request is the name of whoever was let through, for the audit log; absent for anybody."""
RANK: Final[web.RequestKey[Rank]] = web.RequestKey("rank", Rank)
"""And under this one what they may do, for pages that are open to everybody and show more to some."""
_ASK: Final = {"WWW-Authenticate": 'Bearer realm="controllerd", Basic realm="controllerd", charset="UTF-8"'}
_NEEDED: Final = {Access.OPEN: Rank.NONE, Access.READ: Rank.READ, Access.ADMIN: Rank.ADMIN}
_LOG_EVERY_S: Final = 10.0
_CLOSING: Final = {"Connection": "close"}
_JSON: Final = '{"reason": "why, for the audit log"}'


class Gate:
    """The middleware."""

    def __init__(self, tokens: Tokens, door: Door, *, is_local: bool, names: frozenset[str] = frozenset()) -> None:
        """``is_local``: only this machine can connect; then ``names`` are ours besides ``localhost``."""
        self.tokens = tokens
        self.refusals: Final[Counter[str]] = Counter()
        """How often access was refused, by code."""
        self._door = door
        self._is_local = is_local
        self._names = {name.lower() for name in names} | {"localhost"}
        self._logged_at = -_LOG_EVERY_S
        self._unlogged = 0

    @web.middleware
    async def admit(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let a request through to its handler. :raises Refused: it may not be asked, or not like this, or not now."""
        with self._at_work(request):
            route = self._let_through(request)
            if route is None:
                return await handler(request)
            request = await self._with_body(request, route)
            peer = str(_peer(request))
            goes_on = route.is_stream and "text/event-stream" in request.headers.get("Accept", "")
            with self._door.streaming(peer) if goes_on else nullcontext():
                return await self._served(request, handler)

    async def _served(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pages that are open to everybody, and show more to some, judge tokens themselves: those count as well."""
        try:
            return await handler(request)
        except Refused as refused:
            if refused.problem.status == HTTPStatus.UNAUTHORIZED:
                self._count(refused, request)
            raise

    def _let_through(self, request: web.Request) -> Route | None:
        try:
            self._check_name(request)
            route = route_of(request)
            if route is not None:
                self._check_rank(request, route)
                _check_origin(request)
        except Refused as refused:
            self._count(refused, request)
            raise
        return route

    def _check_name(self, request: web.Request) -> None:
        """Whoever sends no name is no browser, nor is who came through the unix socket."""
        names = request.headers.getall("Host", [])
        if len(names) > 1:
            raise Refused(HTTPStatus.BAD_REQUEST, "two_hosts", "the request has more than one Host header")
        can_be_browser = self._is_local and names and not _peer(request).is_local_user
        if can_be_browser and not self._is_ours(names[0]):
            detail = f"the request is addressed to {names[0]!r}, which is not us"
            raise Refused(HTTPStatus.FORBIDDEN, "foreign_host", detail, "address this server by its IP address")

    def _is_ours(self, authority: str) -> bool:
        name = _host(authority)
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self._names
        return True

    def _check_rank(self, request: web.Request, route: Route) -> None:
        needed = _NEEDED[route.access]
        peer, sent = _peer(request), credentials_of(request.headers.get("Authorization"))
        rank = self._rank(peer, sent)
        request[RANK] = rank
        if rank >= needed:
            _name(request, peer, sent if rank is not self._anonymous else None, rank)
            return
        if rank is Rank.READ and sent is not None:
            detail = "this token is for reading, and this needs the admin token"
            raise Refused(HTTPStatus.FORBIDDEN, "read_token", detail, "use http.admin_token, or the unix socket")
        if needed is Rank.ADMIN and not self.tokens.has(Rank.ADMIN):
            detail = "there is no admin token: verbs are for the unix socket"
            raise Refused(HTTPStatus.FORBIDDEN, "no_admin_token", detail, "use http.socket, or set http.admin_token")
        detail = "this needs a token" if sent is None else "this token is not one of ours"
        hint = "send Authorization: Bearer TOKEN, or the token as a password"
        raise Refused(HTTPStatus.UNAUTHORIZED, "unauthorized", detail, hint, headers=_ASK)

    def _rank(self, peer: Peer, sent: Credentials | None) -> Rank:
        """Permissions of the socket's file decide who may open it."""
        if peer.is_local_user:
            return Rank.ADMIN
        if sent is not None:
            return max(self.tokens.rank_of(sent), self._anonymous)
        return self._anonymous

    @property
    def _anonymous(self) -> Rank:
        """What those may do who do not say who they are."""
        if not self._is_local or self.tokens.has(Rank.READ):
            return Rank.NONE
        return Rank.READ if self.tokens.has(Rank.ADMIN) else Rank.ADMIN

    async def _with_body(self, request: web.Request, route: Route) -> web.Request:
        """The body is read here, within its time and size; handlers find it there."""
        if not request.can_read_body:
            return request
        limit, seconds = route.body_limit, self._door.limits.body_s
        if (request.content_length or 0) > limit:
            raise _too_long(limit)
        request = request.clone(client_max_size=limit)
        try:
            async with asyncio.timeout(seconds):
                await request.read()
        except TimeoutError as error:
            detail = f"the body did not come within {seconds:g} s"
            raise Refused(HTTPStatus.REQUEST_TIMEOUT, "slow_body", detail, "repeat", headers=_CLOSING) from error
        except web.HTTPRequestEntityTooLarge as error:
            raise _too_long(limit) from error
        except web.RequestPayloadError as error:
            raise Refused(
                HTTPStatus.BAD_REQUEST, "bad_body", "the body breaks off, or is not as its head says"
            ) from error
        return request

    @contextmanager
    def _at_work(self, request: web.Request) -> Iterator[None]:
        connection = request.protocol
        if isinstance(connection, Connection):
            with connection.at_work():
                yield
        else:
            yield

    def _count(self, refused: Refused, request: web.Request) -> None:
        """One line in the log now and then, however many are refused."""
        self.refusals[refused.problem.code] += 1
        now = time.monotonic()
        if now - self._logged_at < _LOG_EVERY_S:
            self._unlogged += 1
            return
        what = {"code": refused.problem.code, "method": request.method, "path": request.path[:200]}
        log.warning("access refused", peer=str(_peer(request)), unlogged_before=self._unlogged, **what)
        self._logged_at, self._unlogged = now, 0


def _too_long(limit: int) -> Refused:
    detail, status = f"no more than {limit} bytes are read of a body here", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
    return Refused(status, "request_entity_too_large", detail, "ask for less at once", headers=_CLOSING)


def _check_origin(request: web.Request) -> None:
    """Verbs are not for other sites' pages. :raises Refused: it is one, or it is not JSON."""
    if request.method in {"GET", "HEAD"}:
        return
    site, origin = request.headers.get("Sec-Fetch-Site", "none"), request.headers.get("Origin")
    is_foreign = origin is not None and _authority(origin) != request.headers.get("Host", "").lower()
    if site not in {"none", "same-origin"} or is_foreign:
        detail = f"a page of another site ({origin or site}) may not ask for this"
        raise Refused(HTTPStatus.FORBIDDEN, "cross_site", detail, "use controllerctl, or our own page")
    if request.content_type != "application/json" and (request.method == "POST" or request.can_read_body):
        detail = f"the body must be application/json, not {request.content_type}"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", detail, _JSON)


def _name(request: web.Request, peer: Peer, sent: Credentials | None, rank: Rank) -> None:
    """Users of the unix socket are found by whoever wants their name."""
    if peer.is_local_user:
        return
    names = [f"token:{rank.name.lower()}"] if sent is not None else []
    names += [f"as {sent.user}"] if sent is not None and sent.user else []
    names += [f"certificate {peer.certificate}"] if peer.certificate else []
    if names:
        request[PRINCIPAL] = " ".join(names)


def _peer(request: web.Request) -> Peer:
    return peer_of(request.transport) if request.transport is not None else Peer("gone")


def _host(authority: str) -> str:
    try:
        return urlsplit(f"//{authority}").hostname or ""
    except ValueError:
        return ""


def _authority(origin: str) -> str:
    """Host and port of an origin; empty for ``null``."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
