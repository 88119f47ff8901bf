"""Counts the requests to the status endpoint, by route and never by path, of which there are any number."""

import time
from http import HTTPStatus

from aiohttp import web

from controllerd.status.metrics.meters import Meters
from controllerd.status.routing import Handler, route_of

CLIENT_LEFT = 499
"""What others call it when nobody is there any more to be answered: no fault of ours."""
_NO_ROUTE = "none"


class Served:
    """The outermost middleware."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters.http

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Let the request through, and count how it was answered."""
        began, code = time.monotonic(), int(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            response = await handler(request)
            code = response.status
        except web.HTTPException as answered:
            code = answered.status
            raise
        except ConnectionError:
            code = CLIENT_LEFT
            raise
        finally:
            self._count(request, code, time.monotonic() - began)
        return response

    def _count(self, request: web.Request, code: int, took_s: float) -> None:
        route = route_of(request)
        if route is None:
            self._meters.count("any", _NO_ROUTE, code, took_s)
        else:
            self._meters.count(route.method, route.path, code, None if route.is_stream else took_s)
