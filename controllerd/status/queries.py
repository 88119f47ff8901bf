"""What a caller may ask for behind the question mark: one struct per route, decoded, checked and described by it.

Fields are annotated with ``msgspec.Meta(description=...)``. A parameter that is unknown, given twice, or makes no
sense is refused with the names of those that there are.
"""

from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web

from controllerd.status.problems import Handler, Refused
from controllerd.status.routing import Access, Parameter, route_of

Asked = TypeVar("Asked", bound=msgspec.Struct)

MAX_LIMIT: Final = 2_000
"""A longer page takes so long beside others that its readers notice; events go before them all."""
DEFAULT_LIMIT: Final = 500

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="How many items at most.")]
Cursor = Annotated[str, msgspec.Meta(max_length=2_000, description="Where to go on: next_cursor of the page before.")]
TopicGlob = Annotated[
    str, msgspec.Meta(max_length=249, description="Only topics whose name matches, such as payments* or orders.")
]


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Base of what can be asked for; every field has a default."""


class Page(Query, frozen=True, kw_only=True):
    """A part of a list."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


def parameters(kind: type[msgspec.Struct]) -> tuple[Parameter, ...]:
    """The fields of a query as parameters of a route."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(Parameter(name=name, kind=hint, description=_description(hint)) for name, hint in hints.items())


def _description(hint: object) -> str:
    metas = [part for part in get_args(hint)[1:] if isinstance(part, msgspec.Meta)] if _is_annotated(hint) else []
    return next((meta.description for meta in metas if meta.description), "")


def _is_annotated(hint: object) -> bool:
    return get_origin(hint) is Annotated


def asked(request: web.Request, kind: type[Asked]) -> Asked:
    """What the caller asks for. :raises Refused: as ``check_query`` does."""
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad(str(error), [field.name for field in msgspec.structs.fields(kind)]) from error


@web.middleware
async def check_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse parameters that a route does not have, and values that make no sense.

    Not for what is open to everybody: load balancers append what they like.
    """
    route = route_of(request)
    if route is not None and route.access is not Access.OPEN:
        known = {parameter.name: parameter for parameter in route.query if not parameter.is_header}
        _refuse_unknown(request, list(known))
        for name, value in request.query.items():
            _refuse_senseless(name, value, known)
    return await handler(request)


def _refuse_unknown(request: web.Request, known: Sequence[str]) -> None:
    for name in request.query:
        if name not in known:
            raise _bad(f"there is no parameter {name[:100]!r} here", known)
        if len(request.query.getall(name)) > 1:
            raise _bad(f"the parameter {name} is given more than once", known)


def _refuse_senseless(name: str, value: str, known: Mapping[str, Parameter]) -> None:
    kind: Any = known[name].kind
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        detail, choices = f"{name}={value[:100]}: {error}", list(_choices(kind))
        if choices:
            hint = f"{name} is one of {', '.join(choices)}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, hint) from error
        raise _bad(detail, list(known)) from error


def _choices(kind: object) -> Iterator[str]:
    """The words that a parameter may be, where it is one of a few."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for part in get_args(kind):
            yield from _choices(part)


def _bad(detail: str, known: Sequence[str]) -> Refused:
    hint = f"allowed here: {', '.join(known)}" if known else "no parameters are allowed here"
    return Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, hint)
