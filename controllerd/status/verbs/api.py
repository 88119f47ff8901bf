"""Everything that changes something: the table of all verbs, and the tasks that they begin."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import BROKER, TOPIC, Api, Parameter, Route, route
from controllerd.status.schema.admin import (
    AdminRequest,
    ForgetRequest,
    ForgetResponse,
    ResignResponse,
    TakeoverRequest,
    TakeoverResponse,
)
from controllerd.status.schema.tasks import TaskList, TaskResponse
from controllerd.status.schema.verbs import (
    CancelRequest,
    DeleteTopic,
    DrainRequest,
    ElectionRequest,
    MorePartitions,
    NewTopic,
    PauseRequest,
    ReassignmentRequest,
    ResumeRequest,
    ResyncRequest,
)
from controllerd.status.sources import StatusSources
from controllerd.status.verbs.admission import Admission, Verb
from controllerd.status.verbs.brokers import Drain, Forget
from controllerd.status.verbs.cluster import BODY_LIMIT
from controllerd.status.verbs.controller import BeginPause, EndPause, ReadAgain, ResignRole, TakeRole
from controllerd.status.verbs.elections import ElectLeaders
from controllerd.status.verbs.reassignments import CancelReassignments, PlanApi, Reassign
from controllerd.status.verbs.tasks import TaskBook
from controllerd.status.verbs.topics import AddPartitions, CreateTopic, RemoveTopic
from controllerd.status.view import view_meta

VERBS: Final = (
    Verb("/v1/elections", ElectionRequest, ElectLeaders, body_limit=BODY_LIMIT),
    Verb("/v1/reassignments", ReassignmentRequest, Reassign, body_limit=BODY_LIMIT),
    Verb("/v1/reassignments:cancel", CancelRequest, CancelReassignments, body_limit=BODY_LIMIT),
    Verb("/v1/topics", NewTopic, CreateTopic),
    Verb("/v1/topics/{topic}/partitions", MorePartitions, AddPartitions, TOPIC),
    Verb("/v1/topics/{topic}/delete", DeleteTopic, RemoveTopic, TOPIC),
    Verb("/v1/brokers/{id}/drain", DrainRequest, Drain, BROKER),
    Verb("/v1/brokers/{id}/forget", ForgetRequest, Forget, BROKER, answers=ForgetResponse),
    Verb("/v1/pause", PauseRequest, BeginPause),
    Verb("/v1/resume", ResumeRequest, EndPause),
    Verb("/v1/resync", ResyncRequest, ReadAgain),
    Verb("/v1/takeover", TakeoverRequest, TakeRole, answers=TakeoverResponse),
    Verb("/v1/resign", AdminRequest, ResignRole, answers=ResignResponse),
)
_ID: Final = Parameter(name="id", kind=str, description="Id of the task.")
_HEAD_OF_LIST: Final = 20
"""Items of each task that the list shows."""


class VerbsApi(Api):
    """All verbs, and the tasks that they begin."""

    def __init__(self, sources: StatusSources, *, require_reason: bool = False, timeout_s: float = 30.0) -> None:
        """``require_reason``: every verb demands one. ``timeout_s``: how long a client waits for a result."""
        self._sources = sources
        self._book = TaskBook(sources.record, sources.now_ms)
        self._admission = Admission(sources, self._book, require_reason=require_reason, timeout_s=timeout_s)
        self._plans = PlanApi(sources)

    def routes(self) -> list[Route]:
        """Return the routes of this API."""
        return [*super().routes(), *map(self._admission.route, VERBS), *self._plans.routes()]

    async def close(self) -> None:
        """Cancel running tasks; what the controller was told to do goes on. Harmless when none runs."""
        await self._book.close()

    @route("/v1/tasks", "What was asked for and is under way, or ended within the last hour", TaskList)
    async def list_tasks(self, _request: web.Request) -> TaskList:
        """Answer with the tasks, newest first, each with the first of its items."""
        items = [task.shown(_HEAD_OF_LIST) for task in self._book.newest_first()]
        return TaskList(meta=view_meta(self._sources), items=items)

    @route("/v1/tasks/{id}", "One operation and what became of each item", TaskResponse, _ID)
    async def task(self, request: web.Request) -> TaskResponse:
        """Answer with one task. :raises Refused: it is not known."""
        task = self._book.find(request.match_info["id"])
        if task is None:
            detail = f"there is no task {request.match_info['id']!r}: tasks are kept for an hour after their end"
            hint = "GET /v1/tasks shows those that are kept; the audit log has all of them"
            raise Refused(HTTPStatus.NOT_FOUND, "unknown_task", detail, hint)
        return TaskResponse(meta=view_meta(self._sources), task=task.shown())
