"""The mutating half of the HTTP API: the routes of every verb, and of the tasks that they begin."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.status.answers import answer
from controllerd.status.problems import Refused
from controllerd.status.routing import Parameter, Route
from controllerd.status.schema.tasks import TaskList, TaskResponse
from controllerd.status.sources import StatusSources
from controllerd.status.tasks import TaskBook
from controllerd.status.verbs.brokers import BrokersApi
from controllerd.status.verbs.cluster import Cluster
from controllerd.status.verbs.desk import Desk
from controllerd.status.verbs.elections import ElectionsApi
from controllerd.status.verbs.holding import HoldingApi
from controllerd.status.verbs.reassignments import ReassignmentsApi
from controllerd.status.verbs.role import RoleApi
from controllerd.status.verbs.topics import TopicsApi
from controllerd.status.view import view_meta

ADMIN_TIMEOUT_S: Final = 30.0
_ID: Final = Parameter(name="id", kind=str, description="Id of the task.", required=True)
_HEAD_OF_LIST: Final = 20
"""Items of each task that the list shows."""


class VerbsApi:
    """Everything that changes something."""

    def __init__(
        self, sources: StatusSources, *, require_reason: bool = False, timeout_s: float = ADMIN_TIMEOUT_S
    ) -> None:
        """``require_reason``: every verb demands one. ``timeout_s``: how long a caller waits for a move of the role."""
        self._sources = sources
        self._book = TaskBook(sources.recent.record, sources.now_ms)
        desk, cluster = Desk(sources, self._book, require_reason=require_reason), Cluster(sources)
        self._families = (
            ElectionsApi(desk, cluster),
            ReassignmentsApi(desk, cluster),
            TopicsApi(desk, cluster),
            BrokersApi(desk, cluster, timeout_s),
            HoldingApi(desk, cluster),
            RoleApi(desk, cluster, timeout_s),
        )

    def routes(self) -> list[Route]:
        """All verbs, and what became of them."""
        return [
            Route(
                method="GET",
                path="/v1/tasks",
                handler=self.tasks,
                summary="What was asked for and is under way, or ended within the last hour",
                answers={HTTPStatus.OK: TaskList},
            ),
            Route(
                method="GET",
                path="/v1/tasks/{id}",
                handler=self.task,
                summary="One operation and what became of each item",
                path_parameters=(_ID,),
                answers={HTTPStatus.OK: TaskResponse},
            ),
            *(route for family in self._families for route in family.routes()),
        ]

    async def close(self) -> None:
        """Let go of what is under way; what the controller was told to do goes on. Harmless when nothing is."""
        await self._book.close()

    async def tasks(self, _request: web.Request) -> web.Response:
        """The newest first, each with the first of its items."""
        items = [task.shown(_HEAD_OF_LIST) for task in self._book.newest_first()]
        return answer(TaskList(meta=view_meta(self._sources), items=items))

    async def task(self, request: web.Request) -> web.Response:
        """One of them. :raises Refused: it is not known."""
        task = self._book.find(request.match_info["id"])
        if task is None:
            detail = f"there is no task {request.match_info['id']!r}: tasks are kept for an hour after their end"
            hint = "GET /v1/tasks shows those that are kept; the audit log has all of them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_task", detail, hint)
        return answer(TaskResponse(meta=view_meta(self._sources), task=task.view))
