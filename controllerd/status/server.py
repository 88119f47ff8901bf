"""The HTTP endpoint of the daemon: health for supervisors, status for people and tools, and the admin verbs.

Handlers read the published snapshot on the event loop of the controller. The sources also give the settings of topics,
which are read from ZooKeeper, and the sizes of replicas, which are read from brokers.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from controllerd.config.model import DEFAULT_METRICS, HttpConfig, MetricsConfig
from controllerd.status.dashboard.page import DashboardApi
from controllerd.status.http.limits import DEFAULT_LIMITS, Limits
from controllerd.status.http.listener import HttpListener
from controllerd.status.http.openapi import DocumentationApi
from controllerd.status.http.problems import describe_problems
from controllerd.status.http.routing import Api, Route, check_query, register
from controllerd.status.metrics.api import MetricsApi, RequestCounter
from controllerd.status.reads.api import ReadApi
from controllerd.status.reads.diff import DiffApi
from controllerd.status.reads.health import HealthApi
from controllerd.status.sources import StatusSources
from controllerd.status.verbs.api import VerbsApi


class StatusServer:
    """Serves ``sources`` over HTTP."""

    def __init__(
        self,
        sources: StatusSources,
        http: HttpConfig,
        *,
        metrics: MetricsConfig = DEFAULT_METRICS,
        stuck_after_s: float = 30.0,
        admin_timeout_s: float = 30.0,
        limits: Limits = DEFAULT_LIMITS,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """``stuck_after_s``: an event worker without progress for this time counts as stuck.

        ``environment`` names the credentials and sockets that systemd passes to the daemon.
        :raises ConfigError: a token or a certificate cannot be read.
        """
        self.listener: Final = HttpListener(http, environment, limits)
        self._requests = RequestCounter(sources.meters)
        self._verbs = VerbsApi(sources, require_reason=http.require_reason, timeout_s=admin_timeout_s)
        self._diff = DiffApi(sources)
        reads = ReadApi(sources)
        self._apis: list[Api] = [
            HealthApi(sources, stuck_after_s),
            reads,
            DashboardApi(sources, reads),
            self._diff,
            MetricsApi(reads.context, metrics),
            DocumentationApi(self.routes),
            self._verbs,
        ]

    async def start(self) -> int:
        """Listen, and return the bound TCP port.

        :raises OSError: an address cannot be bound. :raises ConfigError: a socket from systemd cannot be used.
        """
        return await self.listener.open(lambda access: self.application([access]))

    async def close(self) -> None:
        """Stop listening, and end the requests that are being served. Harmless when nothing was started."""
        await self.listener.close()
        await self._diff.close()
        await self._verbs.close()

    def routes(self) -> list[Route]:
        """Return all routes."""
        return [route for api in self._apis for route in api.routes()]

    def application(self, middlewares: Sequence[Middleware] = ()) -> web.Application:
        """Return the application with all routes behind these middlewares, which may call ``route_of``."""
        app = web.Application(middlewares=[self._requests.count, describe_problems, *middlewares, check_query])
        app.on_response_prepare.append(_add_headers)
        register(app, self.routes())
        return app


async def _add_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers["Server"] = "controllerd"
    response.headers["X-Content-Type-Options"] = "nosniff"
