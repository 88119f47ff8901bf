"""Errors as RFC 9457 describes them: what went wrong, a stable code, and what to do next."""

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from controllerd.errors import (
    CallRefused,
    ControllerdError,
    ControllerMoved,
    NotController,
    RefusedToLead,
    StoreUnavailable,
)
from controllerd.status.schema.common import Problem


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
        """``headers`` are headers of the answer, such as ``WWW-Authenticate``."""
        super().__init__(detail)
        self.problem: Final = Problem(title=status.phrase, status=status, detail=detail, code=code, hint=hint)
        self.headers: Final = headers


class _Meaning(NamedTuple):
    """The problem of one of the daemon's own errors."""

    error: type[ControllerdError]
    code: str
    status: HTTPStatus
    hint: str | None = None
    kafka_error: str | None = None


_ASK_STATUS: Final = "controllerctl status, or GET /v1/status, says who holds the role"
_MEANINGS: Final = (
    _Meaning(NotController, "not_controller", HTTPStatus.CONFLICT, _ASK_STATUS, "NOT_CONTROLLER"),
    _Meaning(ControllerMoved, "fenced", HTTPStatus.CONFLICT, _ASK_STATUS, "NOT_CONTROLLER"),
    _Meaning(RefusedToLead, "refused_to_lead", HTTPStatus.CONFLICT, "remove the cause, then repeat"),
    _Meaning(CallRefused, "refused", HTTPStatus.CONFLICT),
    _Meaning(StoreUnavailable, "zookeeper_unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "repeat when it answers"),
    _Meaning(ControllerdError, "failed", HTTPStatus.INTERNAL_SERVER_ERROR, "the cause is in the log of the daemon"),
)
"""The first row that matches counts."""


def problem_of(error: ControllerdError) -> Problem:
    """Return the problem that stands for one of the daemon's own errors."""
    meaning = next(meaning for meaning in _MEANINGS if isinstance(error, meaning.error))
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
    """Return the problem as an answer; bytes of the client that are no UTF-8 are escaped in its detail."""
    problem = msgspec.structs.replace(problem, detail=as_text(problem.detail))
    headers = {**headers, "Content-Type": "application/problem+json"}
    return web.Response(status=problem.status, body=msgspec.json.encode(problem), headers=headers)


def as_text(sent: str) -> str:
    """Return the content of a header with escapes for the bytes that are no UTF-8, which JSON cannot hold."""
    return sent.encode(errors="backslashreplace").decode()


def _respond_like(refused: web.HTTPException, request: web.Request) -> web.Response:
    if refused.status < HTTPStatus.BAD_REQUEST:
        raise refused
    status = HTTPStatus(refused.status)
    detail = f"{request.method} {request.path}: {status.phrase.lower()}"
    headers = {"Allow": refused.headers["Allow"]} if "Allow" in refused.headers else {}
    return respond(Problem(title=status.phrase, status=status, detail=detail, code=status.name.lower()), headers)
