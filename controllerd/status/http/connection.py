"""One connection to the HTTP endpoint: aiohttp's protocol with limits, and with TLS where it is configured."""

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

from controllerd.status.http.credentials import peer_of
from controllerd.status.http.limits import ConnectionLimiter, ConnectionSlot
from controllerd.status.http.problems import Refused, respond

log = structlog.get_logger(__name__)

HEAD_LINE: Final = 8 * 1024
HEADERS: Final = 64
_LINGER_S: Final = 2.0
"""Seconds for which the rest of a refused body is read, so that the client can read the response."""


class Connection(web.RequestHandler):
    """The protocol of one accepted connection."""

    __slots__ = ("_context", "_handshake", "_head_timer", "_limiter", "_slot", "_unread_timer")

    def __init__(
        self, server: web.Server, limiter: ConnectionLimiter, context: Callable[[], ssl.SSLContext] | None
    ) -> None:
        """``context`` returns the TLS context for this connection; None: plain HTTP."""
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limiter.limits.keep_alive_s,
            lingering_time=_LINGER_S,
            max_line_size=HEAD_LINE,
            max_field_size=HEAD_LINE,
            max_headers=HEADERS,
            logger=_AIOHTTP,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for no log; its annotation does not
        )
        self._limiter = limiter
        self._context = context
        self._slot: ConnectionSlot | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread_timer: asyncio.TimerHandle | None = None

    # -- opened and closed ---------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection, if the limits permit it, and begin the TLS handshake where TLS is configured."""
        slot = ConnectionSlot(str(peer_of(transport)), transport)
        if not self._limiter.add(slot):
            slot.abort()
            return
        self._slot = slot
        if self._context is None:
            self._open(transport)
        else:
            self._handshake = asyncio.create_task(self._secure(transport, self._context()))

    async def _secure(self, transport: asyncio.BaseTransport, context: ssl.SSLContext) -> None:
        assert isinstance(transport, asyncio.Transport), "sockets are read and written"
        assert self._slot is not None, "it was counted"
        try:
            secure = await asyncio.get_running_loop().start_tls(
                transport, self, context, server_side=True, ssl_handshake_timeout=self._limiter.limits.handshake_s
            )
        except OSError:  # TLS errors and time-outs are subclasses
            secure = None
        if secure is None:  # the handshake failed, or the connection was lost meanwhile
            self._limiter.closed["TLS handshake failed"] += 1
            self._limiter.remove(self._slot)
            self._slot.abort()
            return
        self._slot.transport = secure
        self._open(secure)

    def _open(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timers, and give the place of the connection back."""
        self._stop_timers()
        if self._handshake is not None:
            self._handshake.cancel()
        if self._slot is not None:
            self._limiter.remove(self._slot)
        super().connection_lost(exc)

    # -- time --------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Start the timer of the head at the first byte of a request, and stop it when the head is complete.

        A head that arrived in time is served even if the loop was too busy to read it in time.
        """
        if self._head_timer is None and self._current_request is None:
            self._expect_head()
        super().data_received(data)
        if self._messages:
            self._end_head()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark the connection as busy while a request is served."""
        assert self._slot is not None, "it was counted"
        self._end_head()
        self._limiter.mark_busy(self._slot)
        try:
            yield
        finally:
            self._limiter.mark_idle(self._slot)

    def _expect_head(self) -> None:
        self._end_head()
        self._head_timer = self._loop.call_later(self._limiter.limits.head_s, self._abort, "head too slow")

    def _end_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def pause_writing(self) -> None:
        """Start the timer for a client that reads too slowly."""
        super().pause_writing()
        self._unread_timer = self._loop.call_later(self._limiter.limits.unread_s, self._abort, "answer not read")

    def resume_writing(self) -> None:
        """Stop the timer: the client has read."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _stop_timers(self) -> None:
        self._end_head()
        if self._unread_timer is not None:
            self._unread_timer.cancel()

    def _abort(self, cause: str) -> None:
        self._limiter.closed[cause] += 1
        if self._slot is not None:
            self._slot.abort()

    # -- errors -------------------------------------------------------------------------------------------------------

    def handle_error(
        self,
        request: BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Count input that is not HTTP, without a log line each; log a defect, without details for the client."""
        if isinstance(exc, ConnectionError):
            self._limiter.closed["left early"] += 1
            answer = respond(Refused(HTTPStatus.BAD_REQUEST, "left", "the client closed the connection").problem)
        elif status == HTTPStatus.BAD_REQUEST:
            self._limiter.closed["not HTTP"] += 1
            answer = respond(
                Refused(HTTPStatus.BAD_REQUEST, "not_http", message or "this is not an HTTP request").problem
            )
        else:
            super().handle_error(request, status, exc, message)
            hint = "the cause is in the log of the daemon"
            answer = respond(Refused(HTTPStatus(status), "defect", "the request could not be served", hint).problem)
        answer.force_close()
        return answer


_AIOHTTP: Final = logging.getLogger("controllerd.status.aiohttp")
