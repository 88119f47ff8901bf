"""``/openapi.json`` and ``/docs``: the OpenAPI 3.1 document of all routes and types, for programs and for people."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import msgspec
from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from controllerd.status.http.routing import Access, Api, Parameter, Route, route
from controllerd.status.schema.common import Problem

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
HTML: Final = "text/html"
EVENT_STREAM: Final = "text/event-stream"
_REF: Final = "#/components/schemas/{name}"
_SECURITY: Final = "token"
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""The page contains its own style, and loads nothing."""

_ALWAYS: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_GUARDED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)
_OF_BODIES: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.GATEWAY_TIMEOUT)
_ACCESS: Final[Mapping[Access, str]] = {
    Access.OPEN: "Open to every client that can connect.",
    Access.READ: "Needs a read or an admin token, where tokens are configured.",
    Access.ADMIN: "Needs an admin token, where tokens are configured, or the admin socket.",
}

Json = dict[str, Any]


class DocumentationApi(Api):
    """Describes every route, itself included."""

    def __init__(self, all_routes: Callable[[], Sequence[Route]]) -> None:
        """``all_routes`` returns all routes of the server; it is called at the first request."""
        self._all_routes = all_routes

    @route("/openapi.json", "This description, for programs", JSON)
    async def openapi(self, _request: web.Request) -> web.Response:
        """Serve OpenAPI 3.1."""
        return web.Response(body=await asyncio.to_thread(lambda: self._document.encoded), content_type=JSON)

    @route("/docs", "This description, for people", HTML)
    async def docs(self, _request: web.Request) -> web.Response:
        """Serve one page without scripts."""
        text = await asyncio.to_thread(lambda: self._document.page)
        return web.Response(text=text, content_type=HTML, headers={"Content-Security-Policy": _POLICY})

    @cached_property
    def _document(self) -> "Document":
        """The document, made once. Making and encoding it take tens of milliseconds, so both run in a thread."""
        return Document(self._all_routes(), version("controllerd"))


class Document:
    """The OpenAPI document of all routes."""

    def __init__(self, routes: Sequence[Route], version: str) -> None:
        """``version`` is the version of the daemon."""
        self._routes = routes
        self._version = version
        types = dict.fromkeys([Problem, *(kind for each in routes for kind in _types(each))])
        schemas, self._components = msgspec.json.schema_components(list(types), ref_template=_REF)
        self._schemas = dict(zip(types, schemas, strict=True))

    @cached_property
    def content(self) -> Json:
        """The document in plain types."""
        paths: dict[str, Json] = {}
        for each in self._routes:
            paths.setdefault(each.path, {})[each.method.lower()] = self._operation(each)
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "controllerd",
                "version": self._version,
                "description": "The controller of a ZooKeeper-mode Kafka cluster. Errors are RFC 9457 problems.",
            },
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": self._components,
                "securitySchemes": {_SECURITY: {"type": "http", "scheme": "bearer"}},
            },
        }

    @cached_property
    def encoded(self) -> bytes:
        """The document as JSON."""
        return msgspec.json.encode(self.content)

    @cached_property
    def page(self) -> str:
        """The document as HTML."""
        loader = PackageLoader("controllerd.status.http")
        templates = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
        return templates.get_template("docs.html.j2").render(api=self.content)

    def _operation(self, each: Route) -> Json:
        operation: Json = {
            "operationId": operation_id(each),
            "summary": each.summary,
            "description": _ACCESS[each.access],
            "parameters": [*(_parameter(part, "path") for part in each.path_parameters), *map(_parameter, each.query)],
            "responses": dict(self._responses(each)),
        }
        if each.access is not Access.OPEN:
            operation["security"] = [{}, {_SECURITY: []}]
        if each.body is not None:
            operation["requestBody"] = {"required": True, "content": {JSON: {"schema": self._schemas[each.body]}}}
        return operation

    def _responses(self, each: Route) -> Iterator[tuple[str, Json]]:
        answers = {int(status): kind for status, kind in each.answers.items()}
        for status in sorted({*answers, *_problems(each)}):
            content = {PROBLEM: {"schema": self._schemas[Problem]}} if status in _problems(each) else {}
            if status in answers:
                content |= self._content(answers[status])
            if status == HTTPStatus.OK and each.is_stream:
                content |= {EVENT_STREAM: {"schema": {"type": "string"}}}
            yield str(status), {"description": HTTPStatus(status).phrase, "content": content}
        if any(parameter.name == "If-None-Match" for parameter in each.query):
            yield str(int(HTTPStatus.NOT_MODIFIED)), {"description": HTTPStatus.NOT_MODIFIED.phrase, "content": {}}

    def _content(self, kind: type[msgspec.Struct] | str) -> Json:
        if isinstance(kind, str):
            return {kind: {"schema": {"type": "object" if kind == JSON else "string"}}}
        return {JSON: {"schema": self._schemas[kind]}}


def _types(each: Route) -> Iterator[type[msgspec.Struct]]:
    if each.body is not None:
        yield each.body
    yield from (kind for kind in each.answers.values() if not isinstance(kind, str))


def _problems(each: Route) -> set[int]:
    """Return the status codes of the problems that a route can answer with."""
    statuses = {*_ALWAYS, *(_GUARDED if each.access is not Access.OPEN else ())}
    statuses |= {HTTPStatus.NOT_FOUND} if each.path_parameters else set()
    statuses |= {*_OF_BODIES} if each.method != "GET" else set()
    return {int(status) for status in statuses}


def _parameter(parameter: Parameter, place: str = "") -> Json:
    """Return the description of a parameter, which may be absent (except in a path) but is never null."""
    (schema,), _ = msgspec.json.schema_components([parameter.kind], ref_template=_REF)
    schema.pop("description", None)
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    return {
        "name": parameter.name,
        "description": parameter.description,
        "schema": choices[0] if len(choices) == 1 else schema,
        "in": place or ("header" if parameter.is_header else "query"),
        "required": place == "path",
    }


def operation_id(each: Route) -> str:
    """Return a name for client programs, such as ``get_v1_topics_topic_why``."""
    words = each.path.translate(str.maketrans(".:-", "___", "{}"))
    return "_".join([each.method.lower(), *filter(None, words.split("/"))])
