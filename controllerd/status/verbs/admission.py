"""Admission of verbs: check the request, its reason and its idempotency key, plan, begin a task, and respond.

A verb is data (``Verb``): its path, its body, and the operation that carries it out.
"""

import asyncio
import contextlib
import re
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec
from aiohttp import web

from controllerd.errors import NotController
from controllerd.status.http.access import requester_of
from controllerd.status.http.idempotency import IdempotencyKeys
from controllerd.status.http.problems import Refused
from controllerd.status.http.routing import Access, Answers, Parameter, Route, answer
from controllerd.status.schema.tasks import TaskResponse
from controllerd.status.schema.verbs import VerbRequest
from controllerd.status.sources import StatusSources
from controllerd.status.verbs.cluster import OperatedCluster
from controllerd.status.verbs.tasks import LiveTask, Operation, TaskBook, VerbCall
from controllerd.status.view import view_meta

Decoded = TypeVar("Decoded", bound=msgspec.Struct)

AT_ONCE_S: Final = 0.5
"""Seconds for which the response waits for the end of the task."""
_MAX_REASON: Final = 500
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_REASON: Final = '{"reason": "why, for the audit log"}'
_DRY_RUN: Final = Parameter(name="dryRun", kind=bool, description="Return the plan only; nothing is changed.")
_KEY: Final = Parameter(
    name="Idempotency-Key",
    kind=str,
    description="For 24 hours, a repeated request with the same key and body gets the task of the first one.",
    is_header=True,
)


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: its path, its body, and the operation that carries it out."""

    path: str
    body: type[VerbRequest]
    operation: type[Operation[Any]]
    target: Parameter | None = None
    """The part of the path that names a topic or a broker."""
    body_limit: int = 16 * 1024
    answers: type[msgspec.Struct] | None = None
    """The type of the response, which is sent at the end of the operation; None: the response is the task."""


class Admission:
    """Admits the requests of verbs, and responds to them."""

    def __init__(self, sources: StatusSources, book: TaskBook, *, require_reason: bool, timeout_s: float) -> None:
        """``require_reason``: every verb requires one. ``timeout_s``: how long a client waits for a result."""
        self._sources = sources
        self._book = book
        self._require_reason = require_reason
        self._timeout_s = timeout_s
        self._keys: IdempotencyKeys[LiveTask] = IdempotencyKeys(sources.now_ms)
        self._cluster = OperatedCluster(sources)

    def route(self, verb: Verb) -> Route:
        """Return the route of a verb."""
        answers: Answers = {HTTPStatus.OK: TaskResponse, HTTPStatus.ACCEPTED: TaskResponse}
        return Route(
            method="POST",
            path=verb.path,
            handler=partial(self._handle, verb),
            summary=verb.operation.summary,
            access=Access.ADMIN,
            path_parameters=(verb.target,) if verb.target is not None else (),
            query=(_DRY_RUN, _KEY),
            body=verb.body,
            body_limit=verb.body_limit,
            answers=answers if verb.answers is None else {HTTPStatus.OK: verb.answers},
        )

    async def _handle(self, verb: Verb, request: web.Request) -> web.Response:
        """Respond to a request. :raises Refused: this instance observes, or the request is not valid."""
        if self._sources.observations() is not None:
            detail = "this instance observes: it never takes or gives away the role, and changes nothing"
            hint = 'ask another instance, or restart this one with controller.mode = "active"'
            raise Refused(HTTPStatus.CONFLICT, "observer", detail, hint)
        body = await read_body(request, verb.body)
        target = request.match_info[verb.target.name] if verb.target is not None else ""
        operation = verb.operation(body, VerbCall(requester_of(request), self._cluster, target))
        operation.check()
        task = await self._admit(request, operation)
        return await self._respond_task(task) if verb.answers is None else await self._respond_result(task)

    async def _admit(self, request: web.Request, operation: Operation[Any]) -> LiveTask:
        """Return the task that this request begins, began before (by its key), or would begin (a dry run).

        :raises Refused: the request is refused. :raises NotController: this instance is not the active controller.
        """
        self._check_reason(operation)
        task = LiveTask(operation, requester_of(request), self._sources.now_ms)
        if is_dry_run(request):
            self._check_role(operation)
            await task.plan(await operation.plan())
            return task
        async with self._keys.claim(request, task.by.principal) as key:
            if key.task is not None:
                return key.task
            self._check_role(operation)
            await self._book.begin(task, operation, await operation.plan())
            key.task = task
        return task

    async def _respond_task(self, task: LiveTask) -> web.Response:
        """Respond with the task, after its end if that comes soon; otherwise with its Location."""
        await _wait(task, AT_ONCE_S)
        content = TaskResponse(meta=view_meta(self._sources), task=task.shown())
        if task.state != "running":
            return answer(content)
        response = answer(content, HTTPStatus.ACCEPTED)
        response.headers["Location"] = f"/v1/tasks/{task.id}"
        return response

    async def _respond_result(self, task: LiveTask) -> web.Response:
        """Respond with the result of a verb, or of its dry run.

        :raises ControllerdError: it failed. :raises Refused: it has not ended in time.
        """
        await _wait(task, self._timeout_s)
        if task.error is not None:
            raise task.error
        if task.result is not None:
            return answer(task.result)
        if task.state == "running":
            detail = f"no result within {self._timeout_s:g} s; the operation continues"
            hint = f"ask GET /v1/tasks/{task.id} for the outcome"
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, "still_in_progress", detail, hint)
        hint = "the cause is in the log of the daemon"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", task.shown().message, hint)

    def _check_reason(self, operation: Operation[Any]) -> None:
        reason = operation.request.reason
        if len(reason) > _MAX_REASON:
            detail = f"the reason is longer than {_MAX_REASON} characters"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        if _CONTROL.search(reason):  # it is printed on the terminals of other operators, one line each
            detail = "the reason has a line break or another control character"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail, "write it as one line of plain text")
        if (operation.requires_reason or self._require_reason) and not reason.strip():
            detail = f"the verb {operation.verb} requires a reason, which is written to the audit log"
            raise Refused(HTTPStatus.BAD_REQUEST, "reason_required", detail, _REASON)

    def _check_role(self, operation: Operation[Any]) -> None:
        snapshot = self._sources.snapshot()
        if operation.needs_role and not snapshot.is_active:
            leads = f"{snapshot.holder} leads" if snapshot.holder is not None else "the active controller is not known"
            raise NotController(f"this instance is not the active controller ({snapshot.role.value}): {leads}")


async def _wait(task: LiveTask, wait_s: float) -> None:
    """Wait for the end of the task, at most for this time."""
    if task.state == "running":
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await task.over.wait()


async def read_body(request: web.Request, kind: type[Decoded]) -> Decoded:
    """Return the decoded body. :raises Refused: it is not JSON, or not of this type."""
    hint = f"a JSON object with the fields {', '.join(each.encode_name for each in msgspec.structs.fields(kind))}"
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", str(error), hint) from error


def is_dry_run(request: web.Request) -> bool:
    """Whether only the plan is requested. :raises Refused: the parameter is neither true nor false."""
    text = request.query.get("dryRun", "false")
    if text not in {"true", "false"}:
        detail = f"dryRun must be true or false, not {text!r}"
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
    return text == "true"
