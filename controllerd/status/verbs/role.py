"""``POST /v1/takeover`` and ``/v1/resign``: who leads."""

import time
from http import HTTPStatus

from aiohttp import web

from controllerd.errors import CallRefused
from controllerd.status.problems import Refused
from controllerd.status.routing import Route
from controllerd.status.schema.admin import AdminRequest, ResignResponse, TakeoverRequest, TakeoverResponse
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.sources import RoleMemory
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import Cluster
from controllerd.status.verbs.desk import Desk, verb
from events.cluster import Resign, Takeover

_ROLE = "role"


class RoleApi:
    """Taking the role and giving it away."""

    def __init__(self, desk: Desk, cluster: Cluster, timeout_s: float) -> None:
        """``timeout_s``: how long a caller waits for the outcome."""
        self._desk = desk
        self._cluster = cluster
        self._timeout_s = timeout_s

    def routes(self) -> list[Route]:
        """Both."""
        return [
            verb(
                "/v1/takeover",
                self.takeover,
                "Take the role, whoever holds it",
                TakeoverRequest,
                at_once=TakeoverResponse,
            ),
            verb("/v1/resign", self.resign, "Give the role away and stand by", AdminRequest, at_once=ResignResponse),
        ]

    async def takeover(self, request: web.Request) -> web.Response:
        """Take the role, and remember that if asked to. :raises Refused: nothing can be remembered here."""
        asked = await self._desk.body(request, TakeoverRequest)
        memory = self._memory() if asked.remember else None
        operation = TakingOver(asked, memory, self._cluster)
        task = await self._desk.admit(request, operation, asked.reason, leads=False)
        return await self._desk.result(task, self._timeout_s)

    async def resign(self, request: web.Request) -> web.Response:
        """Give the role away and stand by. :raises NotController: there is nothing to give away."""
        asked = await self._desk.body(request, AdminRequest)
        task = await self._desk.admit(request, Resigning(asked, self._cluster), asked.reason)
        return await self._desk.result(task, self._timeout_s)

    def _memory(self) -> RoleMemory:
        memory = self._cluster.sources.memory
        why_not = "this instance remembers nothing" if memory is None else memory.why_not
        if memory is None or why_not is not None:
            hint = "change it there, or take over without remembering"
            raise Refused(HTTPStatus.CONFLICT, "not_remembered", f"{why_not}", hint)
        return memory


class TakingOver(Operation):
    """The role comes here."""

    verb = "takeover"

    def __init__(self, asked: TakeoverRequest, memory: RoleMemory | None, cluster: Cluster) -> None:
        self._asked = asked
        self._memory = memory
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """From whom. :raises CallRefused: the holder is of another kind than the operator believes."""
        snapshot = self._cluster.snapshot
        holder, epoch = snapshot.holder, snapshot.controller_epoch
        if snapshot.is_active:
            self.result = _taken(epoch, epoch, str(holder), 0.0)
            return [TaskItem(subject=_ROLE, state="not-needed", detail=f"{holder} is this instance")]
        self._check_kind()
        self.result = _taken(epoch, epoch + 1, str(holder or "nobody"), 0.0)
        detail = f"from {holder or 'nobody'}, in one transaction; the controller epoch grows by one"
        return [TaskItem(subject=_ROLE, state="planned", detail=detail)]

    async def run(self, items: Items) -> str:
        """Take it even if it is held already: a resignation that lasts ends by that."""
        started = time.monotonic()
        reply = await self._cluster.call(Takeover(self._asked.reason))
        if self._memory is not None:
            await self._memory.remember()
        before, after = reply.epoch_before, reply.epoch_after
        self.result = _taken(before, after, reply.held_by, time.monotonic() - started)
        items.mark(_ROLE, "done" if before != after else "not-needed", f"controller epoch {before} -> {after}")
        return f"taken from {reply.held_by}" if before != after else "it was held already"

    def _check_kind(self) -> None:
        holder, wanted = self._cluster.snapshot.holder, self._asked.from_
        if wanted == "any" or holder is None:
            return
        if holder.is_controllerd is not (wanted == "instance") or not holder.is_known:
            raise CallRefused(f"the role is to be taken from {_KINDS[wanted]}, but {holder} holds it")


class Resigning(Operation):
    """The role goes to somebody else."""

    verb = "resign"

    def __init__(self, asked: AdminRequest, cluster: Cluster) -> None:
        self._asked = asked
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """Whoever is fastest gets it."""
        self.result = ResignResponse(took_s=0.0)
        detail = "/controller is deleted, and this instance does not contend for a while: whoever is fastest leads next"
        return [TaskItem(subject=_ROLE, state="planned", detail=detail)]

    async def run(self, items: Items) -> str:
        """Give it away."""
        started = time.monotonic()
        await self._cluster.call(Resign(self._asked.reason))
        self.result = ResignResponse(took_s=time.monotonic() - started)
        items.mark(_ROLE, "done", "given away")
        return ""


_KINDS = {"broker": "a broker's built-in controller", "instance": "another instance of controllerd"}


def _taken(before: int, after: int, held_by: str, took_s: float) -> TakeoverResponse:
    return TakeoverResponse(epoch_before=before, epoch_after=after, held_by=held_by, took_s=took_s)
