"""The routes of the HTTP endpoint as data: for aiohttp's router, for access control, and for the OpenAPI document.

The decorator ``route`` makes a route of a method of an ``Api``. The query parameters are the fields of one struct,
annotated with ``msgspec.Meta(description=...)``; the struct describes, decodes and checks them. A parameter that is
unknown, repeated or invalid is refused with the names of the parameters that exist.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from controllerd.status.http.problems import Refused

MAX_LIMIT: Final = 2_000
"""Larger pages take noticeably long when several clients read them, because events have priority."""
DEFAULT_LIMIT: Final = 500
_DECLARED: Final = "declared_route"

Limit = Annotated[int, msgspec.Meta(ge=1, le=MAX_LIMIT, description="The most items on the page.")]
Cursor = Annotated[str, msgspec.Meta(max_length=2_000, description="next_cursor of the page before.")]
TopicGlob = Annotated[
    str, msgspec.Meta(max_length=249, description="Only topics whose name matches, such as payments* or orders.")
]
Answers = Mapping[int, type[msgspec.Struct] | str]

QueryType = TypeVar("QueryType", bound=msgspec.Struct)
Method = TypeVar("Method", bound=Callable[[Any, web.Request], Awaitable[msgspec.Struct | web.StreamResponse]])


class Access(Enum):
    """The rights that a request to a route requires."""

    OPEN = "open"
    """None: every client that can connect. Health checks of load balancers and supervisors."""
    READ = "read"
    """A read or an admin token, where tokens are configured."""
    ADMIN = "admin"
    """An admin token, or the admin socket."""


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the query parameters of a route; every field has a default."""


class ListQuery(Query, frozen=True, kw_only=True):
    """Base of the query parameters of a list with pages."""

    limit: Limit = DEFAULT_LIMIT
    cursor: Cursor = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter, a header or a part of the path; msgspec decodes it as ``kind``."""

    name: str
    kind: object
    description: str
    is_header: bool = False
    pattern: str = ""
    """A regular expression for a part of the path; empty: any text without a slash."""


TOPIC: Final = Parameter(name="topic", kind=str, description="Name of the topic.")
PARTITION: Final = Parameter(name="partition", kind=int, description="Number of the partition.", pattern=r"\d{1,9}")
BROKER: Final = Parameter(name="id", kind=int, description="Id of the broker.", pattern=r"\d{1,10}")
IF_NONE_MATCH: Final = Parameter(
    name="If-None-Match",
    kind=str,
    description="The ETag of an earlier response: 304 without a body while it is still valid.",
    is_header=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path; ``path`` is written as in OpenAPI, such as ``/v1/topics/{topic}``."""

    method: str = "GET"
    path: str
    handler: Handler
    summary: str
    access: Access = Access.READ
    path_parameters: tuple[Parameter, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    answers: Answers = field(default_factory=dict)
    """The type or the media type of the response by status code. Every route has problems (4xx, 5xx) as well."""
    is_stream: bool = False
    """Whether the response to a client that accepts ``text/event-stream`` continues until it disconnects."""
    body_limit: int = 16 * 1024
    """Bytes; a longer body is refused."""

    @property
    def aiohttp_path(self) -> str:
        """The path in the form of aiohttp's router."""
        path = self.path
        for each in self.path_parameters:
            path = path.replace(f"{{{each.name}}}", f"{{{each.name}:{each.pattern}}}") if each.pattern else path
        return path


class Api:
    """Base of classes with routes; the decorator ``route`` declares each route at its method."""

    def routes(self) -> list[Route]:
        """Return the routes in the order of their methods."""
        declared = ((name, getattr(method, _DECLARED, None)) for name, method in vars(type(self)).items())
        return [replace(made, handler=_responding(getattr(self, name))) for name, made in declared if made is not None]


def route(
    path: str,
    summary: str,
    answers: type[msgspec.Struct] | str | Answers,
    *path_parameters: Parameter,
    query: type[msgspec.Struct] | None = None,
    extra: tuple[Parameter, ...] = (),
    **details: Any,
) -> Callable[[Method], Method]:
    """Declare a method as the handler of a route; ``answers`` without a status code is the response 200.

    The method may return a struct, which is sent as JSON. ``extra`` has parameters in addition to ``query``, and
    ``details`` has further fields of ``Route``.
    """
    all_parameters = (*(parameters(query) if query is not None else ()), *extra)
    by_status: Answers = answers if isinstance(answers, Mapping) else {HTTPStatus.OK: answers}

    def declare(method: Method) -> Method:
        made = Route(
            path=path,
            handler=method,  # type: ignore[arg-type]  # bound to its object by ``Api.routes``
            summary=summary,
            path_parameters=path_parameters,
            query=all_parameters,
            answers=by_status,
            **details,
        )
        setattr(method, _DECLARED, made)
        return method

    return declare


def _responding(method: Callable[[web.Request], Awaitable[msgspec.Struct | web.StreamResponse]]) -> Handler:
    async def respond(request: web.Request) -> web.StreamResponse:
        result = await method(request)
        return answer(result) if isinstance(result, msgspec.Struct) else result

    return respond


def answer(content: msgspec.Struct, status: HTTPStatus = HTTPStatus.OK) -> web.Response:
    """Return a response with this struct as JSON."""
    return web.Response(body=msgspec.json.encode(content), status=status, content_type="application/json")


_REGISTERED: Final[web.AppKey[dict[tuple[str, str], Route]]] = web.AppKey("routes", dict)


def register(application: web.Application, routes: Iterable[Route]) -> None:
    """Add these routes, each GET with HEAD. :raises ValueError: two of them have the same method and path."""
    registered = application.setdefault(_REGISTERED, {})
    for each in routes:
        if (each.method, each.path) in registered:
            raise ValueError(f"{each.method} {each.path} is registered twice")
        registered[each.method, each.path] = each
        if each.method == "GET":
            application.router.add_get(each.aiohttp_path, each.handler)
        else:
            application.router.add_route(each.method, each.aiohttp_path, each.handler)


def route_of(request: web.Request) -> Route | None:
    """Return the route of a request; None when there is no such path or method."""
    resource = request.match_info.route.resource
    if resource is None:
        return None
    method = "GET" if request.method == "HEAD" else request.method
    return request.app[_REGISTERED].get((method, resource.canonical))


def parameters(kind: type[msgspec.Struct]) -> tuple[Parameter, ...]:
    """Return the fields of a query as parameters of a route."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(Parameter(name=name, kind=hint, description=_description(hint)) for name, hint in hints.items())


def _description(hint: object) -> str:
    metas = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    described = (meta.description for meta in metas if isinstance(meta, msgspec.Meta) and meta.description)
    return next(described, "")


def parse_query(request: web.Request, kind: type[QueryType]) -> QueryType:
    """Return the decoded query of a request. :raises Refused: a parameter is invalid."""
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        raise _bad_parameter(str(error), [each.name for each in msgspec.structs.fields(kind)]) from error


@web.middleware
async def check_query(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse parameters that a route does not have, and invalid values.

    Routes that are open to every client are not checked, because load balancers append parameters of their own.
    """
    known_route = route_of(request)
    if known_route is not None and known_route.access is not Access.OPEN:
        known = {parameter.name: parameter for parameter in known_route.query if not parameter.is_header}
        for name in request.query:
            if name not in known:
                raise _bad_parameter(f"there is no parameter {name[:100]!r} here", list(known))
            if len(request.query.getall(name)) > 1:
                raise _bad_parameter(f"the parameter {name} is given more than once", list(known))
        for name, value in request.query.items():
            _check_value(name, value, known)
    return await handler(request)


def _check_value(name: str, value: str, known: Mapping[str, Parameter]) -> None:
    kind: Any = known[name].kind
    try:
        msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        detail, choices = f"{name}={value[:100]}: {error}", list(_choices(kind))
        if choices:
            hint = f"{name} is one of {', '.join(choices)}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, hint) from error
        raise _bad_parameter(detail, list(known)) from error


def _choices(kind: object) -> Iterator[str]:
    """Yield the possible values of a parameter that is one of a few words."""
    if get_origin(kind) is Literal:
        yield from get_args(kind)
    else:
        for part in get_args(kind):
            yield from _choices(part)


def _bad_parameter(detail: str, known: Sequence[str]) -> Refused:
    hint = f"allowed here: {', '.join(known)}" if known else "no parameters are allowed here"
    return Refused(HTTPStatus.BAD_REQUEST, "bad_parameter", detail, hint)
