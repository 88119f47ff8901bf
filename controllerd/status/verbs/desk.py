"""The way of every verb: who asks, may it be, was it asked before, what would happen, then the task and its answer."""

import asyncio
import contextlib
import re
from http import HTTPStatus
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from controllerd.errors import NotController
from controllerd.status.answers import answer
from controllerd.status.idempotency import KeyBook
from controllerd.status.problems import Refused
from controllerd.status.routing import Access, Handler, Parameter, Route
from controllerd.status.schema.tasks import TaskResponse
from controllerd.status.sources import StatusSources
from controllerd.status.tasks import LiveTask, Operation, TaskBook
from controllerd.status.verbs.requester import requester_of
from controllerd.status.view import view_meta
from events.admin import Requester

Body = TypeVar("Body", bound=msgspec.Struct)

AT_ONCE_S: Final = 0.5
"""What ends within this time is answered with its result."""
_MAX_REASON: Final = 500
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_REASON: Final = '{"reason": "why, for the audit log"}'
_DRY_RUN: Final = Parameter(name="dryRun", kind=bool, description="Only say what would happen; nothing is changed.")
_KEY: Final = Parameter(
    name="Idempotency-Key",
    kind=str,
    description="The same key with the same body gives the task that it began, for 24 hours.",
    is_header=True,
)


class Desk:
    """Admits requests and answers them."""

    def __init__(self, sources: StatusSources, book: TaskBook, *, require_reason: bool) -> None:
        """``require_reason``: every verb demands one, and not only those that destroy something."""
        self._sources = sources
        self._book = book
        self._keys = KeyBook(sources.now_ms)
        self._require_reason = require_reason

    async def body(self, request: web.Request, kind: type[Body]) -> Body:
        """What is asked for. :raises Refused: this instance changes nothing, or this is nothing that can be asked."""
        if self._sources.observations() is not None:
            detail = "this instance observes: it never takes or gives away the role, and changes nothing"
            hint = 'ask another instance, or restart this one with controller.mode = "active"'
            raise Refused(HTTPStatus.CONFLICT, "observer", detail, hint)
        return await read_body(request, kind)

    def who(self, request: web.Request) -> Requester:
        """Who asks."""
        return requester_of(request)

    async def admit(
        self,
        request: web.Request,
        operation: Operation,
        reason: str,
        *,
        demands_reason: bool = False,
        leads: bool = True,
    ) -> LiveTask:
        """The task that this request begins, began before, or (a dry run) would begin.

        ``leads``: only the active controller can do this. :raises Refused: it is not done.
        :raises NotController: somebody else leads.
        """
        self._check_reason(reason, operation, is_demanded=demands_reason or self._require_reason)
        task = self._book.new(operation, self.who(request), reason)
        if is_dry_run(request):
            self._check_role(is_needed=leads)
            await task.plan(await operation.plan())
            return task
        with await self._keys.claim(request, task.by.principal) as claim:
            if claim.earlier is not None:
                return claim.earlier
            self._check_role(is_needed=leads)
            await self._book.begin(task, operation, await operation.plan())
            claim.stands_for(task)
        return task

    async def answer(self, task: LiveTask) -> web.Response:
        """The task: as it ended if it does at once; else where it is found."""
        await self.wait(task, AT_ONCE_S)
        content = TaskResponse(meta=view_meta(self._sources), task=task.view)
        if task.state != "running":
            return answer(content)
        response = answer(content, HTTPStatus.ACCEPTED)
        response.headers["Location"] = f"/v1/tasks/{task.id}"
        return response

    async def result(self, task: LiveTask, wait_s: float) -> web.Response:
        """What the verb answers with at its end, or would (a dry run).

        :raises ControllerdError: it failed. :raises Refused: the end is not in sight.
        """
        await self.wait(task, wait_s)
        if task.error is not None:
            raise task.error
        if task.result is not None:
            return answer(task.result)
        if task.state == "running":
            detail = f"no result within {wait_s:g} s; the operation continues"
            hint = f"ask GET /v1/tasks/{task.id} for the outcome"
            raise Refused(HTTPStatus.GATEWAY_TIMEOUT, "still_in_progress", detail, hint)
        hint = "the cause is in the log of the daemon"
        raise Refused(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", task.view.message, hint)

    async def wait(self, task: LiveTask, wait_s: float) -> None:
        """Until the task's end, but not for longer than this."""
        if task.state == "running":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await task.over.wait()

    def _check_reason(self, reason: str, operation: Operation, *, is_demanded: bool) -> None:
        if len(reason) > _MAX_REASON:
            detail = f"the reason is longer than {_MAX_REASON} characters"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        if _CONTROL.search(reason):  # it is printed on other people's terminals, one line each
            detail = "the reason has a line break or another control character"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail, "write it as one line of plain text")
        if is_demanded and not reason.strip():
            detail = f"a reason is demanded for this ({operation.verb}): it is written to the audit log"
            raise Refused(HTTPStatus.BAD_REQUEST, "reason_required", detail, _REASON)

    def _check_role(self, *, is_needed: bool) -> None:
        snapshot = self._sources.snapshot()
        if is_needed and not snapshot.is_active:
            leads = f"{snapshot.holder} leads" if snapshot.holder is not None else "nobody is known to lead"
            raise NotController(f"this instance is not the active controller ({snapshot.role.value}): {leads}")


async def read_body(request: web.Request, kind: type[Body]) -> Body:
    """The body as what is asked for. :raises Refused: it is no JSON, or not of this form."""
    if request.content_type != "application/json":
        detail = f"the body must be application/json, not {request.content_type}"
        raise Refused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "not_json", detail, _hint(kind))
    try:
        return msgspec.json.decode(await request.read() or b"{}", type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", str(error), _hint(kind)) from error


def is_dry_run(request: web.Request) -> bool:
    """Whether nothing is to be changed. :raises Refused: the parameter is neither true nor false."""
    text = request.query.get("dryRun", "false")
    if text not in {"true", "false"}:
        detail = f"dryRun must be true or false, not {text!r}"
        raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
    return text == "true"


def verb(
    path: str,
    handler: Handler,
    summary: str,
    body: type[msgspec.Struct],
    *path_parameters: Parameter,
    patterns: dict[str, str] | None = None,
    body_limit: int = 16 * 1024,
    at_once: type[msgspec.Struct] | None = None,
) -> Route:
    """The route of a verb, which answers with a task; ``at_once``: with this type instead, and never before the end."""
    answers: dict[int, type[msgspec.Struct] | str] = {HTTPStatus.OK: at_once or TaskResponse}
    return Route(
        method="POST",
        path=path,
        handler=handler,
        summary=summary,
        access=Access.ADMIN,
        path_parameters=path_parameters,
        query=(_DRY_RUN, _KEY),
        body=body,
        body_limit=body_limit,
        answers=answers if at_once else answers | {HTTPStatus.ACCEPTED: TaskResponse},
        patterns=patterns or {},
    )


def _hint(kind: type[msgspec.Struct]) -> str:
    names = ", ".join(field.encode_name for field in msgspec.structs.fields(kind))
    return f"a JSON object with the fields {names}"
