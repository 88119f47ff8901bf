"""Health URLs for supervisors and load balancers: whether this process lives, and whether it does its job.

These two questions must not be mixed up, and neither asks ZooKeeper: an ensemble that is down must not make a
supervisor kill every controller. Each answer is 200 or 503, so that plain load balancers understand it.
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

_VERBOSE: Final = Parameter(name="verbose", kind=str, description="Whatever its value: list every check.")


def _health(path: str, summary: str, kind: type[msgspec.Struct], *extra: Parameter) -> Callable[[Method], Method]:
    answers: Answers = {HTTPStatus.OK: kind, HTTPStatus.SERVICE_UNAVAILABLE: kind}
    return route(path, summary, answers, extra=extra, access=Access.OPEN)


class HealthApi(Api):
    """Health and role; open to every client that can connect."""

    def __init__(self, sources: StatusSources, stuck_after_s: float) -> None:
        """``stuck_after_s``: without progress for so long the event worker counts as stuck."""
        self._sources = sources
        self._stuck_after_s = stuck_after_s

    @_health("/livez", "Whether this process lives", Health)
    async def livez(self, _request: web.Request) -> web.Response:
        """Answer whether a supervisor should leave this process alone.

        Alive: the event worker has progressed lately, or had nothing to do. The answer itself shows that the event
        loop turns.
        """
        return _answer([self._worker()], is_whole=True)

    @_health("/readyz", "Whether it does its job", Health, _VERBOSE)
    async def readyz(self, request: web.Request) -> web.Response:
        """Answer with the checks that fail, and with ``verbose`` every check.

        Ready: active, standing by or observing, with a ZooKeeper session and a worker that keeps up. Quarantined
        znodes and a troubled audit log are shown as degraded; they do not make the instance unready.
        """
        checks = [self._role(), self._session(), self._worker(), self._quarantine(), self._audit()]
        return _answer(checks, is_whole="verbose" in request.query)

    @_health("/controller", "200 on the active controller only", RoleAnswer)
    async def controller(self, _request: web.Request) -> web.Response:
        """Answer whether this is the active controller."""
        return self._only_as(Role.ACTIVE)

    @_health("/standby", "200 on an instance that stands by only", RoleAnswer)
    async def standby(self, _request: web.Request) -> web.Response:
        """Answer whether this instance stands by."""
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
            # Between two events an idle hour says nothing: only an event that nobody takes does.
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
