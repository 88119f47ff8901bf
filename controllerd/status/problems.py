"""Errors as RFC 9457 describes them: what went wrong, a stable code, and what to do next."""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from controllerd.errors import (
    CallRefused,
    ControllerdError,
    ControllerMoved,
    NotController,
    RefusedToLead,
    StoreUnavailable,
)
from controllerd.status.schema.common import Problem

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Refused(Exception):  # names what happened, as aiohttp's own refusals do
    """A request is not served; ``problem`` is the answer."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        hint: str | None = None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``headers`` are of the answer, such as how to ask for access."""
        super().__init__(detail)
        self.problem: Final = Problem(title=status.phrase, status=status, detail=detail, code=code, hint=hint)
        self.headers: Final = headers


class _Meaning(NamedTuple):
    status: HTTPStatus
    code: str
    hint: str | None = None
    kafka_error: str | None = None


_ASK_STATUS: Final = "controllerctl status, or GET /v1/status, says who holds the role"
_MEANINGS: Final[tuple[tuple[type[ControllerdError], _Meaning], ...]] = (
    (NotController, _Meaning(HTTPStatus.CONFLICT, "not_controller", _ASK_STATUS, "NOT_CONTROLLER")),
    (ControllerMoved, _Meaning(HTTPStatus.CONFLICT, "fenced", _ASK_STATUS, "NOT_CONTROLLER")),
    (RefusedToLead, _Meaning(HTTPStatus.CONFLICT, "refused_to_lead", "remove the cause, then repeat")),
    (CallRefused, _Meaning(HTTPStatus.CONFLICT, "refused")),
    (StoreUnavailable, _Meaning(HTTPStatus.SERVICE_UNAVAILABLE, "zookeeper_unavailable", "repeat when it answers")),
)
_FAILED: Final = _Meaning(HTTPStatus.INTERNAL_SERVER_ERROR, "failed", "the cause is in the log of the daemon")


def problem_of(error: ControllerdError) -> Problem:
    """The problem that stands for one of the daemon's own errors."""
    meaning = next((meaning for kind, meaning in _MEANINGS if isinstance(error, kind)), _FAILED)
    return Problem(
        title=meaning.status.phrase,
        status=meaning.status,
        detail=str(error),
        code=meaning.code,
        kafka_error=meaning.kafka_error,
        hint=meaning.hint,
    )


@web.middleware
async def describe_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Give every refusal the same form: ours, the daemon's errors, and aiohttp's own (404, 405, 413 ...)."""
    try:
        return await handler(request)
    except Refused as refused:
        return respond(refused.problem, refused.headers)
    except ControllerdError as error:
        return respond(problem_of(error))
    except web.HTTPException as refused:
        return _respond_like(refused, request)


def respond(problem: Problem, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
    """The problem as an answer. What a client sent may be quoted in it, and need not be text."""
    problem = msgspec.structs.replace(problem, detail=as_text(problem.detail))
    headers = {**headers, "Content-Type": "application/problem+json"}
    return web.Response(status=problem.status, body=msgspec.json.encode(problem), headers=headers)


def as_text(sent: str) -> str:
    """What a header held, with escapes for the bytes that are no UTF-8: they can be read, but not written."""
    return sent.encode(errors="backslashreplace").decode()


def _respond_like(refused: web.HTTPException, request: web.Request) -> web.Response:
    if refused.status < HTTPStatus.BAD_REQUEST:
        raise refused
    status = HTTPStatus(refused.status)
    detail = f"{request.method} {request.path}: {status.phrase.lower()}"
    response = respond(Problem(title=status.phrase, status=status, detail=detail, code=status.name.lower()))
    if "Allow" in refused.headers:
        response.headers["Allow"] = refused.headers["Allow"]
    return response
