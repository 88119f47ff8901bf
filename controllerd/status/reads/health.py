"""Health endpoints for supervisors and load balancers: liveness and readiness of this process, and its role.

Liveness does not depend on ZooKeeper: otherwise supervisors would kill every controller when the ensemble is down.
Each answer is 200 or 503, as load balancers expect.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import msgspec
from aiohttp import web

from controllerd.core.text import counted
from controllerd.status.http.routing import Access, Answers, Api, Method, Parameter, answer, route
from controllerd.status.schema.common import Check, Health, RoleAnswer
from controllerd.status.sources import StatusSources
from controllerd.views import Role

_VERBOSE: Final = Parameter(name="verbose", kind=str, description="With any value: list every check.")


def _health(path: str, summary: str, kind: type[msgspec.Struct], *extra: Parameter) -> Callable[[Method], Method]:
    answers: Answers = {HTTPStatus.OK: kind, HTTPStatus.SERVICE_UNAVAILABLE: kind}
    return route(path, summary, answers, extra=extra, access=Access.OPEN)


class HealthApi(Api):
    """Health and role; open to every client that can connect."""

    def __init__(self, sources: StatusSources, stuck_after_s: float) -> None:
        """``stuck_after_s``: the event worker counts as stuck after this time without progress."""
        self._sources = sources
        self._stuck_after_s = stuck_after_s

    @_health("/livez", "Liveness", Health)
    async def livez(self, _request: web.Request) -> web.Response:
        """Answer whether this process is alive, so that a supervisor need not restart it.

        Alive: the event worker made progress recently, or had no events. The answer itself shows that the event
        loop runs.
        """
        return _answer([self._worker()], is_whole=True)

    @_health("/readyz", "Readiness", Health, _VERBOSE)
    async def readyz(self, request: web.Request) -> web.Response:
        """Answer with the checks that fail, and with ``verbose`` every check.

        Ready: active, standby or observer, with a ZooKeeper session and an event worker that is not stuck. Znodes in
        quarantine and errors of the audit log are shown as degraded; they do not make the instance unready.
        """
        checks = [self._role(), self._session(), self._worker(), self._quarantine(), self._audit()]
        return _answer(checks, is_whole="verbose" in request.query)

    @_health("/controller", "200 on the active controller only", RoleAnswer)
    async def controller(self, _request: web.Request) -> web.Response:
        """Answer whether this is the active controller."""
        return self._only_as(Role.ACTIVE)

    @_health("/standby", "200 on a standby only", RoleAnswer)
    async def standby(self, _request: web.Request) -> web.Response:
        """Answer whether this instance is a standby."""
        return self._only_as(Role.STANDBY)

    def _only_as(self, role: Role) -> web.Response:
        snapshot = self._sources.snapshot()
        body = RoleAnswer(role=snapshot.role.value, controller_epoch=snapshot.controller_epoch, reason=snapshot.reason)
        return answer(body, HTTPStatus.OK if snapshot.role is role else HTTPStatus.SERVICE_UNAVAILABLE)

    def _worker(self) -> Check:
        worker, oldest_s = self._sources.worker(), self._sources.queue.oldest_age_s()
        waiting = f"{counted(len(self._sources.queue), 'event')} waiting"
        if worker.event is not None:
            ok = worker.since_progress_s <= self._stuck_after_s
            detail = f"handles {worker.event} for {worker.running_s:.1f} s, {waiting}"
        else:
            # Between two events an idle worker is not stuck, unless an event waits that it does not take.
            ok = min(worker.since_progress_s, oldest_s) <= self._stuck_after_s
            detail = f"{waiting}, the oldest for {oldest_s:.1f} s"
        return Check(name="event worker", ok=ok, detail=detail)

    def _role(self) -> Check:
        snapshot = self._sources.snapshot()
        ok = snapshot.role in {Role.ACTIVE, Role.STANDBY, Role.OBSERVER}
        return Check(name="role", ok=ok, detail=f"{snapshot.role.value}: {snapshot.reason}")

    def _session(self) -> Check:
        state = self._sources.session().state
        return Check(name="zookeeper session", ok=state == "connected", detail=state)

    def _quarantine(self) -> Check:
        quarantine = self._sources.snapshot().quarantine
        shown = ", ".join(sorted(quarantine)[:5]) + (", ..." if len(quarantine) > 5 else "")
        detail = f"{counted(len(quarantine), 'znode')} left alone: {shown}" if quarantine else "empty"
        return Check(name="quarantine", ok=not quarantine, detail=detail, required=False)

    def _audit(self) -> Check:
        audit = self._sources.audit()
        detail = audit.trouble or (f"{counted(audit.records_lost, 'record')} lost" if audit.records_lost else "written")
        ok = audit.trouble is None and not audit.records_lost
        return Check(name="audit log", ok=ok, detail=detail, required=False)


def _answer(checks: list[Check], *, is_whole: bool) -> web.Response:
    ok, degraded = all(check.ok for check in checks if check.required), not all(check.ok for check in checks)
    shown = [check for check in checks if is_whole or not check.ok]
    status = HTTPStatus.OK if ok else HTTPStatus.SERVICE_UNAVAILABLE
    return answer(Health(ok=ok, degraded=degraded, checks=shown), status)
