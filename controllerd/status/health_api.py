"""Health URLs: what supervisors and load balancers ask."""

from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from controllerd.status.answers import answer
from controllerd.status.health import liveness, readiness
from controllerd.status.routing import Access, Handler, Parameter, Route
from controllerd.status.schema.common import Check, Health, RoleAnswer
from controllerd.status.sources import StatusSources
from controllerd.views import Role

_VERBOSE: Final = Parameter(name="verbose", kind=str, description="Whatever its value: list every check.")


class HealthApi:
    """Alive, ready, and which role: each answer is 200 or 503, so that plain load balancers understand it."""

    def __init__(self, sources: StatusSources, stuck_after_s: float) -> None:
        """``stuck_after_s``: without progress for so long the event worker counts as stuck."""
        self._sources = sources
        self._stuck_after_s = stuck_after_s

    def routes(self) -> list[Route]:
        """Open to everybody who can connect; each answers HEAD as well."""
        return [
            _health("/livez", self.livez, "Whether this process lives", Health),
            _health("/readyz", self.readyz, "Whether it does its job", Health, _VERBOSE),
            _health("/controller", self.controller, "200 on the active controller only", RoleAnswer),
            _health("/standby", self.standby, "200 on an instance that stands by only", RoleAnswer),
        ]

    async def livez(self, _request: web.Request) -> web.Response:
        """Whether a supervisor should leave this process alone."""
        health = liveness(self._sources, self._stuck_after_s)
        return _answer(health, health.checks)

    async def readyz(self, request: web.Request) -> web.Response:
        """Whether it is worth talking to; what fails is listed, and with ``verbose`` every check."""
        health = readiness(self._sources, self._stuck_after_s)
        shown = health.checks if "verbose" in request.query else [check for check in health.checks if not check.ok]
        return _answer(health, shown)

    async def controller(self, _request: web.Request) -> web.Response:
        """Whether this is the active controller."""
        return self._only_as(Role.ACTIVE)

    async def standby(self, _request: web.Request) -> web.Response:
        """Whether this instance stands by."""
        return self._only_as(Role.STANDBY)

    def _only_as(self, role: Role) -> web.Response:
        snapshot = self._sources.snapshot()
        body = RoleAnswer(role=snapshot.role.value, controller_epoch=snapshot.controller_epoch, reason=snapshot.reason)
        return answer(body, HTTPStatus.OK if snapshot.role is role else HTTPStatus.SERVICE_UNAVAILABLE)


def _health(path: str, handler: Handler, summary: str, kind: type[msgspec.Struct], *query: Parameter) -> Route:
    return Route(
        method="GET",
        path=path,
        handler=handler,
        summary=summary,
        access=Access.OPEN,
        query=query,
        answers={HTTPStatus.OK: kind, HTTPStatus.SERVICE_UNAVAILABLE: kind},
    )


def _answer(health: Health, shown: list[Check]) -> web.Response:
    status = HTTPStatus.OK if health.ok else HTTPStatus.SERVICE_UNAVAILABLE
    return answer(Health(ok=health.ok, degraded=health.degraded, checks=shown), status)
