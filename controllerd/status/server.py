"""The HTTP endpoint of the daemon: health for supervisors, status for people and tools, a few admin verbs.

It reads the published snapshot on the event loop of the controller and never asks ZooKeeper.
"""

from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from controllerd.snapshot import Role
from controllerd.status.admin import AdminApi
from controllerd.status.counts import PartitionCounter
from controllerd.status.health import liveness, readiness
from controllerd.status.observations import view_observations
from controllerd.status.problems import describe_problems
from controllerd.status.schema import Check, Health
from controllerd.status.sources import StatusSources
from controllerd.status.view import view_status

_MAX_BODY: Final = 16 * 1024
_CLOSE_WAIT_S: Final = 0.5
"""Requests in work may end within this time; the daemon has two seconds to stop."""


class StatusServer:
    """Serves ``sources`` over HTTP."""

    def __init__(
        self,
        sources: StatusSources,
        host: str,
        port: int,
        *,
        allow_remote_admin: bool = False,
        stuck_after_s: float = 30.0,
        admin_timeout_s: float = 30.0,
    ) -> None:
        """``stuck_after_s``: without progress for so long the event worker counts as stuck; ``port`` may be 0."""
        self._sources = sources
        self._address = (host, port)
        self._stuck_after_s = stuck_after_s
        self._counter = PartitionCounter()
        self._admin = AdminApi(sources, host, allow_remote=allow_remote_admin, timeout_s=admin_timeout_s)
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Listen; the bound port. :raises OSError: the address cannot be bound."""
        runner = web.AppRunner(
            self.application(), access_log=None, handle_signals=False, shutdown_timeout=_CLOSE_WAIT_S
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, *self._address).start()
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        return int(runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening and end what is in work. Harmless when nothing was started."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application(middlewares=[describe_problems], client_max_size=_MAX_BODY)
        app.on_response_prepare.append(_protect)
        app.router.add_get("/livez", self._livez)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/controller", self._controller)
        app.router.add_get("/standby", self._standby)
        app.router.add_get("/v1/status", self._status)
        app.router.add_get("/v1/observations", self._observations)
        app.router.add_post("/v1/takeover", self._admin.takeover)
        app.router.add_post("/v1/resign", self._admin.resign)
        app.router.add_post(r"/v1/brokers/{id:\d{1,10}}/forget", self._admin.forget_broker)
        return app

    async def _livez(self, _request: web.Request) -> web.Response:
        health = liveness(self._sources, self._stuck_after_s)
        return _answer(health, health.checks)

    async def _readyz(self, request: web.Request) -> web.Response:
        health = readiness(self._sources, self._stuck_after_s)
        shown = health.checks if "verbose" in request.query else [check for check in health.checks if not check.ok]
        return _answer(health, shown)

    async def _controller(self, _request: web.Request) -> web.Response:
        return self._only_as(Role.ACTIVE)

    async def _standby(self, _request: web.Request) -> web.Response:
        return self._only_as(Role.STANDBY)

    def _only_as(self, role: Role) -> web.Response:
        snapshot = self._sources.snapshot()
        body = {"role": snapshot.role.value, "controller_epoch": snapshot.controller_epoch, "reason": snapshot.reason}
        return _json(body, HTTPStatus.OK if snapshot.role is role else HTTPStatus.SERVICE_UNAVAILABLE)

    async def _status(self, _request: web.Request) -> web.Response:
        await self._counter.prepare(self._sources.snapshot())
        return _json(view_status(self._sources, self._counter), HTTPStatus.OK)

    async def _observations(self, _request: web.Request) -> web.Response:
        return _json(view_observations(self._sources), HTTPStatus.OK)


def _answer(health: Health, shown: list[Check]) -> web.Response:
    status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return _json(Health(ok=health.ok, degraded=health.degraded, checks=shown), status)


def _json(content: object, status: HTTPStatus) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


async def _protect(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers["Cache-Control"] = "no-store"
    response.headers["Server"] = "controllerd"
    response.headers["X-Content-Type-Options"] = "nosniff"
