"""A client of the real HTTP server, over a fake controller without ZooKeeper."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import msgspec
import pytest

from tests.status.fake_controller import FakeController, serving

T = TypeVar("T")


class Client:
    """A client of one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """Return the answer, which must have status 200 and exactly this type."""
        async with self.session.get(self.url + path, params=query) as response:
            body = await response.read()
            assert response.status == 200, body
            return msgspec.json.decode(body, type=kind)

    async def refused(self, path: str, **query: str | int) -> Mapping[str, object]:
        """Return the problem with which the request is refused."""
        async with self.session.get(self.url + path, params=query) as response:
            assert response.content_type == "application/problem+json", await response.text()
            problem: Mapping[str, object] = await response.json(content_type=None)
            assert problem["status"] == response.status
            return problem

    async def headers(self, path: str, **headers: str) -> tuple[int, Mapping[str, str]]:
        """Return the status and the headers of an answer."""
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, response.headers


@pytest.fixture
def controller() -> FakeController:
    controller = FakeController()
    controller.lead(11)
    return controller


@asynccontextmanager
async def asking(controller: FakeController) -> AsyncIterator[Client]:
    """Start a server for this controller, and connect to it."""
    async with (
        serving(controller) as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
    ):
        yield Client(session, url)


@pytest.fixture
async def client(controller: FakeController) -> AsyncIterator[Client]:
    async with asking(controller) as client:
        yield client
