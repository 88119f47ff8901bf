"""One connection to the real server over a controller without ZooKeeper."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

import aiohttp
import msgspec
import pytest

from tests.status.fake_controller import FakeController, serving

T = TypeVar("T")


class Client:
    """Asks one server."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self.session = session
        self.url = url

    async def get(self, path: str, kind: type[T], **query: str | int) -> T:
        """The answer, which must be 200 and exactly of this type."""
        async with self.session.get(self.url + path, params=query) as response:
            body = await response.read()
            assert response.status == 200, body
            return msgspec.json.decode(body, type=kind)

    async def refused(self, path: str, **query: str | int) -> Mapping[str, object]:
        """The problem that is answered instead."""
        async with self.session.get(self.url + path, params=query) as response:
            assert response.content_type == "application/problem+json", await response.text()
            problem: Mapping[str, object] = await response.json(content_type=None)
            assert problem["status"] == response.status
            return problem

    async def headers(self, path: str, **headers: str) -> tuple[int, Mapping[str, str]]:
        """Status and headers of an answer."""
        async with self.session.get(self.url + path, headers=headers) as response:
            return response.status, response.headers


@pytest.fixture
def controller() -> FakeController:
    controller = FakeController()
    controller.lead(11)
    return controller


@asynccontextmanager
async def asking(controller: FakeController) -> AsyncIterator[Client]:
    """A connection to a server of its own."""
    async with (
        serving(controller) as url,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(10)) as session,
    ):
        yield Client(session, url)


@pytest.fixture
async def client(controller: FakeController) -> AsyncIterator[Client]:
    async with asking(controller) as client:
        yield client
