"""``/metrics``: for Prometheus, in its text format, or as OpenMetrics for whoever accepts that."""

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, Metric, ProcessCollector, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

from controllerd.config.model import MetricsConfig
from controllerd.pace import Pace, sliced
from controllerd.status.metrics.own import own_families
from controllerd.status.metrics.peer import peer_families
from controllerd.status.metrics.picture import Figures, PictureCounter
from controllerd.status.reads.context import Reading
from controllerd.status.routing import Access, Route

OPEN_METRICS: Final = "application/openmetrics-text"
TEXT: Final = "text/plain"
_END: Final = b"# EOF\n"
_AT_ONCE: Final = 8
"""Families that are written down before the event loop may have a turn."""


class MetricsApi:
    """Everything that is counted, and what is looked up when it is asked for."""

    def __init__(self, reading: Reading, config: MetricsConfig) -> None:
        """``reading``: shares what it has counted."""
        self._reading = reading
        self._sources = reading.sources
        self._config = config
        self._picture = PictureCounter(reading.counter)
        self._process = ProcessCollector(registry=None)

    def routes(self) -> list[Route]:
        """One."""
        return [
            Route(
                method="GET",
                path="/metrics",
                handler=self.metrics,
                summary="Metrics for Prometheus, or OpenMetrics for whoever accepts that",
                access=Access.OPEN if self._config.open else Access.READ,
                answers={HTTPStatus.OK: TEXT},
            )
        ]

    async def metrics(self, request: web.Request) -> web.Response:
        """In the format that is accepted."""
        pace = await self._reading.pace()
        figures = await self._picture.figures(self._sources.snapshot(), pace)
        families = list(self.families(figures))
        if OPEN_METRICS in request.headers.get("Accept", ""):
            body = [part.removesuffix(_END) for part in await _written(families, openmetrics.generate_latest, pace)]
            return _answer([*body, _END], openmetrics.CONTENT_TYPE_LATEST)
        return _answer(await _written(families, generate_latest, pace), CONTENT_TYPE_PLAIN_0_0_4)

    def families(self, figures: Figures) -> Iterator[Metric]:
        """Every metric, with what was counted in the picture."""
        meters = self._sources.meters
        yield from peer_families(self._sources, meters, figures, self._config.dialects)
        yield from own_families(self._sources, meters)
        yield from self._process.collect()


class _Families(Collector):
    """Some metrics that are there already."""

    def __init__(self, families: Sequence[Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[Metric]:
        """These."""
        return self._families


async def _written(families: Sequence[Metric], encode: Callable[[Collector], bytes], pace: Pace) -> list[bytes]:
    """In parts, because a large cluster has many brokers."""
    parts = []
    for some in sliced(families, _AT_ONCE):
        parts.append(encode(_Families(some)))
        await pace.breathe()
    return parts


def _answer(parts: list[bytes], kind: str) -> web.Response:
    return web.Response(body=b"".join(parts), headers={"Content-Type": kind})
