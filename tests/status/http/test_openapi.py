"""The OpenAPI document agrees with the routes and the answers of the server."""

from collections.abc import Mapping

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from jsonschema_rs import Draft202012Validator

from controllerd.status.http.openapi import Document, Json, operation_id
from controllerd.status.http.routing import Access, Route, route_of
from controllerd.status.schema.common import Problem
from controllerd.status.server import StatusServer
from tests.status.fake_controller import LOOPBACK, FakeController, compared, partition, serving


@pytest.fixture
def server() -> StatusServer:
    controller = FakeController()
    controller.lead(11)
    return StatusServer(controller.sources(), LOOPBACK)


@pytest.fixture
def document(server: StatusServer) -> Json:
    return Document(server.routes(), "1.2.3").content


def served(application: web.Application) -> set[tuple[str, str]]:
    """Methods and paths that the router knows."""
    return {
        (route.method, route.resource.canonical)
        for route in application.router.routes()
        if route.resource is not None and route.method != "HEAD"
    }


def test_every_route_is_described_and_nothing_else(server: StatusServer, document: Json) -> None:
    described = {(method.upper(), path) for path, operations in document["paths"].items() for method in operations}

    assert described == served(server.application())


def test_operations_have_names_of_their_own(server: StatusServer) -> None:
    names = [operation_id(route) for route in server.routes()]

    assert len(set(names)) == len(names)


def test_every_reference_leads_somewhere(document: Json) -> None:
    def references(node: object) -> set[str]:
        if isinstance(node, Mapping):
            own = {str(node["$ref"])} if "$ref" in node else set()
            return own.union(*map(references, node.values()))
        return set().union(*map(references, node)) if isinstance(node, list) else set()

    found = references(document)

    assert found
    assert found <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}


def test_every_part_of_a_path_is_described(server: StatusServer) -> None:
    for route in server.routes():
        named = {part[1:-1] for part in route.path.replace(":", "/").split("/") if part.startswith("{")}

        assert named == {parameter.name for parameter in route.path_parameters}, route.path


def test_a_parameter_is_described_with_its_type_and_choices(document: Json) -> None:
    parameters = {each["name"]: each for each in document["paths"]["/v1/partitions"]["get"]["parameters"]}

    assert parameters["limit"]["schema"] == {"type": "integer", "minimum": 1, "maximum": 2000}
    assert parameters["offline"]["schema"] == {"type": "boolean"}
    assert "-isr" in parameters["sort"]["schema"]["enum"]
    assert parameters["If-None-Match"]["in"] == "header"
    assert all(each["description"] for each in parameters.values())


def test_refusals_are_described_as_problems(document: Json) -> None:
    responses = document["paths"]["/v1/topics/{topic}"]["get"]["responses"]

    assert {"200", "400", "401", "404", "429"} <= responses.keys()
    assert responses["404"]["content"] == {
        "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
    }


def test_the_feed_is_described_as_a_list_and_as_a_stream(document: Json) -> None:
    content = document["paths"]["/v1/events"]["get"]["responses"]["200"]["content"]

    assert content.keys() == {"application/json", "text/event-stream"}


def filled(route: Route) -> str:
    """The path with the names of existing things."""
    return route.path.replace("{topic}", "orders").replace("{partition}", "2").replace("{id}", "1")


async def test_every_read_answers_as_it_is_described() -> None:
    controller = FakeController()
    controller.lead(11)
    controller.observe()
    reads = [route for route in StatusServer(controller.sources(), LOOPBACK).routes() if route.method == "GET"]

    async with serving(controller) as url, aiohttp.ClientSession() as session:
        for route in reads:
            async with session.get(url + filled(route)) as response:
                body = await response.read()
                if response.content_type == "application/problem+json":
                    assert response.status in {404, 409, 503}, (route.path, body)
                    msgspec.json.decode(body, type=Problem)
                    continue
                kind = route.answers[response.status]
                if isinstance(kind, str):
                    assert response.content_type == kind, route.path
                else:
                    msgspec.json.decode(body, type=kind)


async def test_every_read_holds_against_its_schema(document: Json) -> None:
    controller = FakeController()
    controller.lead(11)
    controller.observe(compared("equal"), compared("not judged: the ISR changed"))
    controller.delete("audit", held_up_by="offline replicas")
    reads = [route for route in StatusServer(controller.sources(), LOOPBACK).routes() if route.method == "GET"]
    checked = 0

    async with serving(controller) as url, aiohttp.ClientSession() as session:
        for route in reads:
            responses = document["paths"][route.path]["get"]["responses"]
            async with session.get(url + filled(route)) as response:
                content = responses[str(response.status)].get("content", {})
                assert response.content_type in content, route.path
                if not response.content_type.endswith("json"):
                    continue
                schema = content[response.content_type]["schema"] | {"components": document["components"]}
                found = list(Draft202012Validator(schema).iter_errors(await response.json(content_type=None)))
                assert not found, (route.path, found)
                checked += 1

    assert checked > 15


async def test_every_list_that_promises_an_etag_has_one(document: Json) -> None:
    controller = FakeController()
    controller.lead(11)
    promised = [
        path
        for path, operations in document["paths"].items()
        if any(each["name"] == "If-None-Match" for each in operations.get("get", {}).get("parameters", ()))
    ]

    async with serving(controller) as url, aiohttp.ClientSession() as session:

        async def asked(path: str, tag: str = "") -> tuple[int, str, bytes]:
            async with session.get(url + path, headers={"If-None-Match": tag} if tag else {}) as response:
                return response.status, response.headers["ETag"], await response.read()

        tags = {path: (await asked(path))[1] for path in promised}
        for path, tag in tags.items():
            assert await asked(path, tag) == (304, tag, b""), path
        controller.put_topic("new", partition(0, 1, (1, 2, 3)))
        for path in ("/v1/partitions", "/v1/topics", "/v1/replicas"):
            status, tag, body = await asked(path, tags[path])
            assert (status, tag != tags[path], b"new" in body) == (200, True, True), path


async def test_the_document_and_its_page_are_served() -> None:
    async with serving(FakeController()) as url, aiohttp.ClientSession() as session:
        async with session.get(f"{url}/openapi.json") as response:
            assert (await response.json())["openapi"] == "3.1.0"
        async with session.get(f"{url}/docs") as response:
            page = await response.text()

    assert "/v1/partitions/{topic}/{partition}/why" in page
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert "<script" not in page


async def test_a_middleware_finds_the_route_of_a_request(server: StatusServer) -> None:
    seen: list[tuple[str, Access] | None] = []

    @web.middleware
    async def look(request: web.Request, handler: object) -> web.StreamResponse:
        route = route_of(request)
        seen.append((route.path, route.access) if route is not None else None)
        return web.Response()

    async with TestClient(TestServer(server.application([look]))) as client:
        await client.head("/livez")
        await client.get("/v1/topics/orders")
        await client.get("/nowhere")

    assert seen == [("/livez", Access.OPEN), ("/v1/topics/{topic}", Access.READ), None]
