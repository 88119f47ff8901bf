"""Problems (RFC 9457): the errors of the HTTP endpoint, each with a stable code and a hint for the next step."""

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


class Refused(Exception):  # no suffix, like the exceptions of aiohttp
    """A request is refused; ``problem`` is the response."""

    def __init__(
        self,
        status: HTTPStatus,
        code: str,
        detail: str,
        hint: str | None = None,
        *,
        headers: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``headers`` are headers of the response, such as ``WWW-Authenticate``."""
        super().__init__(detail)
        self.problem: Final = Problem(title=status.phrase, status=status, detail=detail, code=code, hint=hint)
        self.headers: Final = headers


class _ErrorRow(NamedTuple):
    """The problem of one error of the daemon."""

    error: type[ControllerdError]
    code: str
    status: HTTPStatus
    hint: str | None = None
    kafka_error: str | None = None


_ASK_STATUS: Final = "controllerctl status, or GET /v1/status, shows the holder of the role"
_ERRORS: Final = (
    _ErrorRow(NotController, "not_controller", HTTPStatus.CONFLICT, _ASK_STATUS, "NOT_CONTROLLER"),
    _ErrorRow(ControllerMoved, "fenced", HTTPStatus.CONFLICT, _ASK_STATUS, "NOT_CONTROLLER"),
    _ErrorRow(RefusedToLead, "refused_to_lead", HTTPStatus.CONFLICT, "remove the cause, then repeat"),
    _ErrorRow(CallRefused, "refused", HTTPStatus.CONFLICT),
    _ErrorRow(
        StoreUnavailable, "zookeeper_unavailable", HTTPStatus.SERVICE_UNAVAILABLE, "repeat when ZooKeeper answers"
    ),
    _ErrorRow(ControllerdError, "failed", HTTPStatus.INTERNAL_SERVER_ERROR, "the cause is in the log of the daemon"),
)
"""The first row that matches decides."""


def problem_of(error: ControllerdError) -> Problem:
    """Return the problem of an error of the daemon."""
    row = next(row for row in _ERRORS if isinstance(error, row.error))
    return Problem(
        title=row.status.phrase,
        status=row.status,
        detail=str(error),
        code=row.code,
        kafka_error=row.kafka_error,
        hint=row.hint,
    )


@web.middleware
async def describe_problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer with a problem: for ``Refused``, for errors of the daemon, and for aiohttp's own (404, 405, 413 ...)."""
    try:
        return await handler(request)
    except Refused as refused:
        return respond(refused.problem, refused.headers)
    except ControllerdError as error:
        return respond(problem_of(error))
    except web.HTTPException as refused:
        return _respond_like(refused, request)


def respond(problem: Problem, headers: Mapping[str, str] = MappingProxyType({})) -> web.Response:
    """Return the response with this problem; bytes of the client that are not UTF-8 are escaped in its detail."""
    problem = msgspec.structs.replace(problem, detail=as_text(problem.detail))
    headers = {**headers, "Content-Type": "application/problem+json"}
    return web.Response(status=problem.status, body=msgspec.json.encode(problem), headers=headers)


def as_text(sent: str) -> str:
    """Return the text of a header with escapes for bytes that are not UTF-8, because JSON cannot contain them."""
    return sent.encode(errors="backslashreplace").decode()


def _respond_like(refused: web.HTTPException, request: web.Request) -> web.Response:
    if refused.status < HTTPStatus.BAD_REQUEST:
        raise refused
    status = HTTPStatus(refused.status)
    detail = f"{request.method} {request.path}: {status.phrase.lower()}"
    headers = {"Allow": refused.headers["Allow"]} if "Allow" in refused.headers else {}
    return respond(Problem(title=status.phrase, status=status, detail=detail, code=status.name.lower()), headers)
