"""One connection to the HTTP endpoint: aiohttp's protocol behind the limits, and behind TLS where that is served."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import structlog
from aiohttp import web
from aiohttp.web_request import BaseRequest

from controllerd.status.limits import Door, Visit
from controllerd.status.peers import peer_of
from controllerd.status.problems import Refused, respond

log = structlog.get_logger(__name__)

HEAD_LINE: Final = 8 * 1024
HEADERS: Final = 64
_LINGER_S: Final = 2.0
"""For how long the rest of a body that nobody wants is read, so that its sender gets to read the answer."""


class Connection(web.RequestHandler):
    """Made for each connection that is accepted, before a byte was read."""

    __slots__ = ("_context", "_door", "_handshake", "_head_timer", "_unread_timer", "_visit")

    def __init__(self, server: web.Server, door: Door, context: Callable[[], ssl.SSLContext] | None) -> None:
        """``context`` says with which certificate to begin; None is plain HTTP."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=door.limits.keep_alive_s,
            lingering_time=_LINGER_S,
            max_line_size=HEAD_LINE,
            max_field_size=HEAD_LINE,
            max_headers=HEADERS,
            logger=_AIOHTTP,
            access_log=None,  # type: ignore[arg-type]  # none is kept; aiohttp says so, its annotation does not
        )
        self._door = door
        self._context = context
        self._visit: Visit | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    # -- coming and going --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enter, if there is room; with TLS there is a handshake first."""
        visit = Visit(str(peer_of(transport)), transport)
        if not self._door.enter(visit):
            visit.end()
            return
        self._visit = visit
        if self._context is None:
            self._open(transport)
        else:
            self._handshake = asyncio.create_task(self._secure(transport, self._context()))

    async def _secure(self, transport: asyncio.BaseTransport, context: ssl.SSLContext) -> None:
        assert isinstance(transport, asyncio.Transport), "sockets are read and written"
        assert self._visit is not None, "it entered"
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=self._door.limits.handshake_s
            )
        except OSError:  # errors of TLS and time-outs are of this kind, too
            secure = None
        if secure is None:  # it was lost meanwhile
            self._door.turned_away["TLS handshake failed"] += 1
            self._door.leave(self._visit)
            self._visit.end()
            return
        self._visit.transport = secure
        self._open(secure)

    def _open(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Leave."""
        self._stop_timers()
        if self._handshake is not None:
            self._handshake.cancel()
        if self._visit is not None:
            self._door.leave(self._visit)
        super().connection_lost(exc)

    # -- time --------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """The first byte of a request starts the time for its head, and the last one ends it.

        However busy the loop is: what came in time waits for its turn, and is answered.
        """
        if self._head_timer is None and self._current_request is None:
            self._expect_head()
        super().data_received(data)
        if self._messages:
            self._end_head()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """While a request whose head is complete is answered."""
        assert self._visit is not None, "it entered"
        self._end_head()
        self._door.work(self._visit)
        try:
            yield
        finally:
            self._door.rest(self._visit)

    def _expect_head(self) -> None:
        self._end_head()
        self._head_timer = self._loop.call_later(self._door.limits.head_s, self._give_up, "head too slow")

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        """The client does not read as fast as it is written to."""
        super().pause_writing()
        self._unread_timer = self._loop.call_later(self._door.limits.unread_s, self._give_up, "answer not read")

    def resume_writing(self) -> None:
        """It did read."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _stop_timers(self) -> None:
        self._end_head()
        if self._unread_timer is not None:
            self._unread_timer.cancel()

    def _give_up(self, cause: str) -> None:
        self._door.turned_away[cause] += 1
        if self._visit is not None:
            self._visit.end()

    # -- what is no request ------------------------------------------------------------------------------------------

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """What is not HTTP is counted, not logged line by line; a defect is logged, and not shown."""
        if isinstance(exc, ConnectionError):
            self._door.turned_away["left early"] += 1
            answer = respond(Refused(HTTPStatus.BAD_REQUEST, "left", "nobody is there to read this").problem)
        elif status == HTTPStatus.BAD_REQUEST:
            self._door.turned_away["not HTTP"] += 1
            answer = respond(Refused(HTTPStatus.BAD_REQUEST, "not_http", message or "this is no HTTP request").problem)
        else:
            super().handle_error(request, status, exc, message)
            hint = "the cause is in the log of the daemon"
            answer = respond(Refused(HTTPStatus(status), "defect", "the request could not be served", hint).problem)
        answer.force_close()
        return answer


_AIOHTTP: Final = logging.getLogger("controllerd.status.aiohttp")
