"""``/metrics`` for Prometheus, in its text format or as OpenMetrics, and the counter of HTTP requests."""

import time
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, ProcessCollector, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from controllerd.config.model import MetricsConfig
from controllerd.slicer import Slicer, sliced
from controllerd.status.http.routing import Access, Api, Route, route_of
from controllerd.status.metrics.meters import Meters
from controllerd.status.metrics.own import own_families
from controllerd.status.metrics.peer import ClusterFigures, figures_of, peer_families
from controllerd.status.reads.context import ReadContext

OPEN_METRICS: Final = "application/openmetrics-text"
TEXT: Final = "text/plain"
_END: Final = b"# EOF\n"
_AT_ONCE: Final = 8
"""Metrics that are encoded in one slice, after which the event loop may run."""
_CLIENT_LEFT: Final = 499
"""nginx's status code for a client that disconnected before the response."""


class MetricsApi(Api):
    """All metrics: those that are counted all the time, and those that are computed at the request."""

    def __init__(self, context: ReadContext, config: MetricsConfig) -> None:
        """``context``: its figures are shared with the other readers."""
        self._context = context
        self._sources = context.sources
        self._config = config
        self._process = ProcessCollector(registry=None)

    def routes(self) -> list[Route]:
        """Return the route of this API."""
        return [
            Route(
                path="/metrics",
                handler=self.metrics,
                summary="Metrics for Prometheus, or OpenMetrics if the client accepts that",
                access=Access.OPEN if self._config.open else Access.READ,
                answers={HTTPStatus.OK: TEXT},
            )
        ]

    async def metrics(self, request: web.Request) -> web.Response:
        """Answer in the format that the client accepts."""
        slicer = await self._context.slicer()
        figures = await figures_of(self._sources.snapshot(), self._context.counts, slicer)
        families = list(self.families(figures))
        if OPEN_METRICS in request.headers.get("Accept", ""):
            body = [part.removesuffix(_END) for part in await _encoded(families, openmetrics.generate_latest, slicer)]
            return _answer([*body, _END], openmetrics.CONTENT_TYPE_LATEST)
        return _answer(await _encoded(families, generate_latest, slicer), CONTENT_TYPE_PLAIN_0_0_4)

    def families(self, figures: ClusterFigures) -> Iterator[Metric]:
        """Yield every metric; ``figures``: those of the snapshot."""
        meters = self._sources.meters
        yield from peer_families(self._sources, meters, figures, self._config.dialects)
        yield from own_families(self._sources, meters)
        yield from self._process.collect()


class _Families(Collector):
    """Metrics in the form that the encoders take."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        return self._families


async def _encoded(families: Sequence[Metric], encode: Callable[[Collector], bytes], slicer: Slicer) -> list[bytes]:
    """Encode in slices, because a large cluster has many brokers."""
    parts = []
    for some in sliced(families, _AT_ONCE):
        parts.append(encode(_Families(some)))
        await slicer.yield_to_loop()
    return parts


def _answer(parts: list[bytes], kind: str) -> web.Response:
    return web.Response(body=b"".join(parts), headers={"Content-Type": kind})


class RequestCounter:
    """The outermost middleware. It counts requests by route and not by path, as the number of paths is not bounded."""

    def __init__(self, meters: Meters) -> None:
        self._meters = meters.http

    @web.middleware
    async def count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Pass the request on, and count its response."""
        began, code = time.monotonic(), int(HTTPStatus.INTERNAL_SERVER_ERROR)
        try:
            response = await handler(request)
            code = response.status
        except web.HTTPException as answered:
            code = answered.status
            raise
        except ConnectionError:
            code = _CLIENT_LEFT
            raise
        finally:
            self._count(request, code, time.monotonic() - began)
        return response

    def _count(self, request: web.Request, code: int, took_s: float) -> None:
        route = route_of(request)
        if route is None:
            self._meters.count("any", "none", code, took_s)
        else:
            self._meters.count(route.method, route.path, code, None if route.is_stream else took_s)
