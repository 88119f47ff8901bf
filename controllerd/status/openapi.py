"""The OpenAPI 3.1 document of the HTTP endpoint, made of its routes and of the types of their bodies and answers."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final

import msgspec

from controllerd.status.routing import Access, Parameter, Route
from controllerd.status.schema.common import Problem

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
EVENT_STREAM: Final = "text/event-stream"
_REF: Final = "#/components/schemas/{name}"
_SECURITY: Final = "token"

_ALWAYS: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
_GUARDED: Final = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)
_OF_BODIES: Final = (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE, HTTPStatus.GATEWAY_TIMEOUT)

Json = dict[str, Any]


class Document:
    """Everything that is served, in OpenAPI's words."""

    def __init__(self, routes: Sequence[Route], version: str) -> None:
        """``version``: of the daemon."""
        self._routes = routes
        self._version = version
        types = dict.fromkeys([Problem, *(kind for route in routes for kind in _types(route))])
        schemas, self._components = msgspec.json.schema_components(list(types), ref_template=_REF)
        self._schemas = dict(zip(types, schemas, strict=True))

    @cached_property
    def content(self) -> Json:
        """The document in plain types."""
        paths: dict[str, Json] = {}
        for route in self._routes:
            paths.setdefault(route.path, {})[route.method.lower()] = self._operation(route)
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

    def _operation(self, route: Route) -> Json:
        operation: Json = {
            "operationId": operation_id(route),
            "summary": route.summary,
            "description": _ACCESS[route.access],
            "parameters": [*map(_in_path, route.path_parameters), *map(_in_query, route.query)],
            "responses": dict(self._responses(route)),
        }
        if route.access is not Access.OPEN:
            operation["security"] = [{}, {_SECURITY: []}]
        if route.body is not None:
            operation["requestBody"] = {"required": True, "content": {JSON: {"schema": self._schemas[route.body]}}}
        return operation

    def _responses(self, route: Route) -> Iterator[tuple[str, Json]]:
        answers = {int(status): kind for status, kind in route.answers.items()}
        for status in sorted({*answers, *_problems(route)}):
            content = {PROBLEM: {"schema": self._schemas[Problem]}} if status in _problems(route) else {}
            if status in answers:
                content |= self._content(answers[status])
            if status == HTTPStatus.OK and route.is_stream:
                content |= {EVENT_STREAM: {"schema": {"type": "string"}}}
            yield str(status), {"description": HTTPStatus(status).phrase, "content": content}
        if any(parameter.name == "If-None-Match" for parameter in route.query):
            yield str(int(HTTPStatus.NOT_MODIFIED)), {"description": HTTPStatus.NOT_MODIFIED.phrase, "content": {}}

    def _content(self, kind: type[msgspec.Struct] | str) -> Json:
        if isinstance(kind, str):
            return {kind: {"schema": {"type": "object" if kind == JSON else "string"}}}
        return {JSON: {"schema": self._schemas[kind]}}


_ACCESS: Final[Mapping[Access, str]] = {
    Access.OPEN: "Open to whoever can connect.",
    Access.READ: "Needs a read or an admin token, where tokens are configured.",
    Access.ADMIN: "Needs an admin token, where tokens are configured, or the admin socket.",
}


def _types(route: Route) -> Iterator[type[msgspec.Struct]]:
    if route.body is not None:
        yield route.body
    yield from (kind for kind in route.answers.values() if not isinstance(kind, str))


def _problems(route: Route) -> set[int]:
    """What a route can be refused with."""
    statuses = {*_ALWAYS}
    if route.access is not Access.OPEN:
        statuses.update(_GUARDED)
    if route.path_parameters:
        statuses.add(HTTPStatus.NOT_FOUND)
    if route.method != "GET":
        statuses.update(_OF_BODIES)
    return {int(status) for status in statuses}


def _in_path(parameter: Parameter) -> Json:
    return {**_described(parameter), "in": "path", "required": True}


def _in_query(parameter: Parameter) -> Json:
    place = "header" if parameter.is_header else "query"
    return {**_described(parameter), "in": place, "required": parameter.required}


def _described(parameter: Parameter) -> Json:
    (schema,), _ = msgspec.json.schema_components([parameter.kind], ref_template=_REF)
    schema.pop("description", None)
    return {"name": parameter.name, "description": parameter.description, "schema": _not_null(schema)}


def _not_null(schema: Json) -> Json:
    """A parameter may be absent, and is never null."""
    choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def operation_id(route: Route) -> str:
    """A name for programs: ``get_v1_topics_topic_why``."""
    words = route.path.replace("{", "").replace("}", "").replace(".", "_").replace(":", "_").replace("-", "_")
    return "_".join([route.method.lower(), *filter(None, words.split("/"))])
