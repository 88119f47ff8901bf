"""The routes of all verbs, of their tasks and of plans. Each module of verbs ends with its own."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.errors import NotController
from controllerd.planning.plans import Plan, ReassignmentPlanRequest
from controllerd.planning.replicas import ReassignmentPlanner
from controllerd.slicer import Slicer
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Api, Parameter, Route, route
from controllerd.status.schema.tasks import TaskList, TaskResponse
from controllerd.status.sources import StatusSources
from controllerd.status.verbs import brokers, controller, elections, reassignments, topics
from controllerd.status.verbs.admission import Admission, read_body
from controllerd.status.verbs.tasks import TaskBook
from controllerd.status.view import view_meta
from controllerd.views import Role

VERBS: Final = (
    *elections.VERBS,
    *reassignments.VERBS,
    *topics.VERBS,
    *brokers.VERBS,
    *controller.VERBS,
)
_ID: Final = Parameter(name="id", kind=str, description="Id of the task.")
_HEAD_OF_LIST: Final = 20
"""The most items of each task in the list of tasks."""


class VerbsApi(Api):
    """The routes of all verbs, of the tasks that they begin, and of ``POST /v1/reassignments:plan``."""

    def __init__(self, sources: StatusSources, *, require_reason: bool = False, timeout_s: float = 30.0) -> None:
        """``require_reason``: every verb requires one. ``timeout_s``: how long a client waits for a result."""
        self._sources = sources
        self._book = TaskBook(sources.record, sources.now_ms)
        self._admission = Admission(sources, self._book, require_reason=require_reason, timeout_s=timeout_s)

    def routes(self) -> list[Route]:
        """Return the routes of this API."""
        return [*super().routes(), *map(self._admission.route, VERBS)]

    async def close(self) -> None:
        """Cancel running tasks; changes that the controller has begun continue. Harmless when none runs."""
        await self._book.close()

    @route("/v1/tasks", "Operations that run, or ended within the last hour", TaskList)
    async def list_tasks(self, _request: web.Request) -> TaskList:
        """Respond with the tasks, newest first, each with its first items."""
        items = [task.shown(_HEAD_OF_LIST) for task in self._book.newest_first()]
        return TaskList(meta=view_meta(self._sources), items=items)

    @route("/v1/tasks/{id}", "One operation with the state of each item", TaskResponse, _ID)
    async def task(self, request: web.Request) -> TaskResponse:
        """Respond with one task. :raises Refused: it is not known."""
        task = self._book.find(request.match_info["id"])
        if task is None:
            detail = f"there is no task {request.match_info['id']!r}: tasks are kept for an hour after their end"
            hint = "GET /v1/tasks lists the kept tasks; the audit log has all of them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_task", detail, hint)
        return TaskResponse(meta=view_meta(self._sources), task=task.shown())

    @route(
        "/v1/reassignments:plan",
        "Plan a reassignment; changes nothing",
        Plan,
        method="POST",
        body=ReassignmentPlanRequest,
    )
    async def plan(self, request: web.Request) -> Plan:
        """Respond with the plan. :raises NotController: this instance does not know the cluster."""
        body, snapshot = await read_body(request, ReassignmentPlanRequest), self._sources.snapshot()
        if snapshot.role not in {Role.ACTIVE, Role.OBSERVER}:
            raise NotController(f"a {snapshot.role.value} instance does not know the cluster: {snapshot.holder} leads")
        planner, slicer = ReassignmentPlanner(body, snapshot.brokers, snapshot.staying), Slicer()
        await slicer.run(planner.plan(snapshot.topics.values()))
        await slicer.run(planner.weigh(await self._sources.measure(planner.moved)))
        return planner.result()
