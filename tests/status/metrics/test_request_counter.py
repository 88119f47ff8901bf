"""The counter of HTTP requests."""

from contextlib import suppress

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from aiohttp.typedefs import Handler

from controllerd.status.http.routing import Route, register
from controllerd.status.metrics.api import RequestCounter
from controllerd.status.metrics.meters import Meters


def counted(meters: Meters) -> dict[str, float]:
    """Requests by code."""
    samples = [sample for metric in meters.http.collect() for sample in metric.samples]
    return {s.labels["code"]: s.value for s in samples if s.name == "controllerd_http_requests_total"}


async def leave(_request: web.Request) -> web.Response:
    raise ConnectionResetError("the client disconnected")


async def fail(_request: web.Request) -> web.Response:
    raise ZeroDivisionError


@pytest.mark.parametrize(("handler", "code"), [(leave, "499"), (fail, "500")])
async def test_a_disconnected_client_is_no_error_of_the_server(handler: Handler, code: str) -> None:
    meters = Meters()
    application = web.Application(middlewares=[RequestCounter(meters).count])
    register(application, [Route(method="GET", path="/", handler=handler, summary="")])
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        with suppress(aiohttp.ClientError):
            await (await session.get(server.make_url("/"))).read()

    assert counted(meters) == {code: 1}
