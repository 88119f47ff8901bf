"""The routes of the HTTP endpoint as data: they are served, access is checked by them, OpenAPI describes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

import msgspec
from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Access(Enum):
    """Who may ask."""

    OPEN = "open"
    """Everybody who can connect: health for load balancers and supervisors."""
    READ = "read"
    """Whoever may look: needs a read or an admin token, where tokens are configured."""
    ADMIN = "admin"
    """Whoever may change something: needs an admin token, or the admin socket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A query parameter or a part of the path; ``kind`` is decoded by msgspec, unions with None are optional."""

    name: str
    kind: object
    description: str
    required: bool = False
    is_header: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path; ``path`` is written as OpenAPI writes it, such as ``/v1/topics/{topic}``."""

    method: str
    path: str
    handler: Handler
    summary: str
    access: Access = Access.READ
    path_parameters: tuple[Parameter, ...] = ()
    query: tuple[Parameter, ...] = ()
    body: type[msgspec.Struct] | None = None
    answers: Mapping[int, type[msgspec.Struct] | str] = field(default_factory=dict)
    """Status code to the type of the answer, or to a media type. Problems (4xx, 5xx) are described for every route."""
    is_stream: bool = False
    """Whether an answer may go on until the client leaves, for whoever accepts ``text/event-stream``."""
    body_limit: int = 16 * 1024
    """Bytes; a longer body is refused."""
    patterns: Mapping[str, str] = field(default_factory=dict)
    """Regular expressions of parts of the path, by name; any but a slash where none is given."""

    @property
    def aiohttp_path(self) -> str:
        """The path as aiohttp's router wants it."""
        path = self.path
        for name, pattern in self.patterns.items():
            path = path.replace(f"{{{name}}}", f"{{{name}:{pattern}}}")
        return path


class Api(Protocol):
    """Some routes that belong together."""

    def routes(self) -> list[Route]:
        """All of them."""
        ...


_REGISTERED: Final[web.AppKey[dict[tuple[str, str], Route]]] = web.AppKey("routes", dict)


def register(application: web.Application, routes: Iterable[Route]) -> None:
    """Serve these routes, each GET with HEAD. :raises ValueError: two of them have the same method and path."""
    registered = application.setdefault(_REGISTERED, {})
    for route in routes:
        if (route.method, route.path) in registered:
            raise ValueError(f"{route.method} {route.path} is registered twice")
        registered[route.method, route.path] = route
        if route.method == "GET":
            application.router.add_get(route.aiohttp_path, route.handler)
        else:
            application.router.add_route(route.method, route.aiohttp_path, route.handler)


def route_of(request: web.Request) -> Route | None:
    """What is asked for, for middlewares; None when there is no such path or method."""
    resource = request.match_info.route.resource
    if resource is None:
        return None
    method = "GET" if request.method == "HEAD" else request.method
    return request.app[_REGISTERED].get((method, resource.canonical))
