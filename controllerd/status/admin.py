"""The verbs that change something, each an event in the queue like every other cause."""

import asyncio
import ipaddress
import time
from collections.abc import Awaitable
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
import structlog
from aiohttp import web

from controllerd.core.model import BrokerId
from controllerd.status.problems import Refused
from controllerd.status.schema import (
    AdminRequest,
    ForgetRequest,
    ForgetResponse,
    ResignResponse,
    TakeoverRequest,
    TakeoverResponse,
)
from controllerd.status.sources import RoleMemory, StatusSources
from events.admin import ForgetBroker
from events.cluster import Resign, Takeover

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")
Body = TypeVar("Body", AdminRequest, ForgetRequest, TakeoverRequest)

_MAX_REASON: Final = 500
_BODY: Final = '{"reason": "why, for the audit log"}'


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to a socket that is bound to ``host``."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AdminApi:
    """Takeover, resign, and forgetting a broker."""

    def __init__(self, sources: StatusSources, host: str, *, allow_remote: bool, timeout_s: float) -> None:
        """``host`` is what the server listens on; ``timeout_s`` how long a caller waits for the event's answer."""
        self._sources = sources
        self._is_open = allow_remote or is_loopback(host)
        self._host = host
        self._timeout_s = timeout_s

    async def takeover(self, request: web.Request) -> web.Response:
        """Take the role, whoever holds it, and remember that if asked to."""
        asked = await self._admit(request, TakeoverRequest)
        reason, memory = _checked(asked.reason), self._memory() if asked.remember else None
        started = time.monotonic()
        log.info("takeover was asked for", reason=reason, by=request.remote)
        result = await self._result(self._sources.queue.call(Takeover(reason)))
        if memory is not None:
            await memory.remember()
        return _json(
            TakeoverResponse(
                epoch_before=result.epoch_before,
                epoch_after=result.epoch_after,
                held_by=result.held_by,
                took_s=time.monotonic() - started,
            )
        )

    async def resign(self, request: web.Request) -> web.Response:
        """Give the role away and stand by."""
        reason = _checked((await self._admit(request, AdminRequest)).reason)
        started = time.monotonic()
        log.info("resignation was asked for", reason=reason, by=request.remote)
        await self._result(self._sources.queue.call(Resign(reason)))
        return _json(ResignResponse(took_s=time.monotonic() - started))

    async def forget_broker(self, request: web.Request) -> web.Response:
        """A broker never returns; the body repeats its id."""
        asked, broker = await self._admit(request, ForgetRequest), int(request.match_info["id"])
        reason = _checked(asked.reason)
        if not reason or asked.confirm != broker:
            detail = f"forgetting broker {broker} needs a reason, and its id once more in the field confirm"
            hint = f'{{"reason": "why, for the audit log", "confirm": {broker}}}'
            raise Refused(HTTPStatus.BAD_REQUEST, "not_confirmed", detail, hint)
        started = time.monotonic()
        log.info("forgetting a broker was asked for", broker=broker, reason=reason, by=request.remote)
        result = await self._result(self._sources.queue.call(ForgetBroker(BrokerId(broker), reason)))
        return _json(
            ForgetResponse(
                broker=broker, topics=list(result.topics), replicas=result.replicas, took_s=time.monotonic() - started
            )
        )

    def _memory(self) -> RoleMemory:
        """:raises Refused: nothing can be remembered here."""
        memory = self._sources.memory
        why_not = "this instance remembers nothing" if memory is None else memory.why_not
        if memory is None or why_not is not None:
            hint = "change it there, or take over without remembering"
            raise Refused(HTTPStatus.CONFLICT, "not_remembered", f"{why_not}", hint)
        return memory

    async def _result(self, call: Awaitable[Answer]) -> Answer:
        try:
            return await asyncio.wait_for(call, self._timeout_s)
        except TimeoutError as error:
            detail = f"no result within {self._timeout_s:g} s; the operation continues"
            hint = "ask GET /v1/status for the outcome"
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, "still_in_progress", detail, hint) from error

    async def _admit(self, request: web.Request, kind: type[Body]) -> Body:
        """What the caller asks for. :raises Refused: the caller may not ask for this, or not like this, or not here."""
        if not self._is_open:
            detail = f"admin verbs are served on a loopback address only, and this server listens on {self._host}"
            hint = "set http.listen to 127.0.0.1, or http.allow_remote_admin = true behind your own access control"
            raise Refused(HTTPStatus.FORBIDDEN, "remote_admin_refused", detail, hint)
        # A web page can make a browser post forms to a loopback address, but neither JSON nor (by rebinding a name of
        # its own to that address) under a name of ours.
        if request.content_type != "application/json":
            detail = f"the body must be application/json, not {request.content_type}"
            raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", detail, _BODY)
        if is_loopback(self._host) and not self._is_our_name(request):
            detail = f"the request is addressed to {request.host}, which is not us"
            raise Refused(HTTPStatus.FORBIDDEN, "foreign_host", detail, "address this server by its IP address")
        if self._sources.observations() is not None:
            detail = "this instance observes: it never takes or gives away the role, and changes nothing"
            hint = 'ask another instance, or restart this one with controller.mode = "active"'
            raise Refused(HTTPStatus.CONFLICT, "observer", detail, hint)
        try:
            return msgspec.json.decode(await request.read() or b"{}", type=kind)
        except msgspec.DecodeError as error:
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", str(error), _BODY) from error

    def _is_our_name(self, request: web.Request) -> bool:
        name = request.url.host or ""
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in {"localhost", self._host}
        return True


def _checked(reason: str) -> str:
    if len(reason) > _MAX_REASON:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", f"the reason is longer than {_MAX_REASON} characters")
    return reason


def _json(content: msgspec.Struct) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json")
