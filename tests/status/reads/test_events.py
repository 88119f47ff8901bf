"""``/v1/events``: the list and the stream of server-sent events."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.test_utils import BaseTestServer, TestServer

from controllerd.recent import Recent
from controllerd.record.records import AlarmRecord, BrokersRecord, DeletionRecord, EventBegin, EventEnd
from controllerd.status.http.openapi import EVENT_STREAM
from controllerd.status.http.problems import describe_problems
from controllerd.status.http.routing import check_query, register
from controllerd.status.reads.context import ReadContext
from controllerd.status.reads.events import EventReads
from controllerd.status.schema.history import Gap, Happening, HappeningList
from tests.status.fake_controller import FakeController


class ServerSentEvent(NamedTuple):
    """One server-sent event."""

    event: str
    id: str
    data: bytes

    @property
    def happening(self) -> Happening:
        """The content of the event."""
        return msgspec.json.decode(self.data, type=Happening)


class Stream:
    """A client that reads a stream."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response

    async def block(self) -> dict[str, str]:
        """Read the fields up to the next empty line; a comment is the field without a name."""
        fields: dict[str, str] = {}
        while line := (await self.response.content.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name.rstrip(":")] = value.removeprefix(" ")
        return fields

    async def drain(self) -> None:
        """Read until the connection ends."""
        while True:
            await self.block()

    async def next(self) -> ServerSentEvent:
        """Read the next event."""
        fields = await self.block()
        return ServerSentEvent(fields["event"], fields.get("id", ""), fields["data"].encode())


class Feed:
    """A server with this endpoint alone."""

    def __init__(self, server: BaseTestServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    @asynccontextmanager
    async def follow(self, query: str = "", last_id: str = "") -> AsyncIterator[Stream]:
        headers = {"Accept": EVENT_STREAM} | ({"Last-Event-ID": last_id} if last_id else {})
        async with self.session.get(self.server.make_url(f"/v1/events{query}"), headers=headers) as response:
            assert (response.status, response.content_type) == (200, EVENT_STREAM)
            yield Stream(response)

    async def list(self, query: str = "") -> HappeningList:
        async with self.session.get(self.server.make_url(f"/v1/events{query}")) as response:
            return msgspec.json.decode(await response.read(), type=HappeningList)


@asynccontextmanager
async def feeding(
    controller: FakeController, heartbeat_s: float = 15.0, patience_s: float = 30.0
) -> AsyncIterator[Feed]:
    application = web.Application(middlewares=[describe_problems, check_query])
    reads = EventReads(ReadContext(controller.sources()), heartbeat_s=heartbeat_s, patience_s=patience_s)
    register(application, reads.routes())
    async with TestServer(application) as server, aiohttp.ClientSession() as session:
        yield Feed(server, session)


@pytest.fixture
def controller() -> FakeController:
    return FakeController()


@pytest.fixture
async def feed(controller: FakeController) -> AsyncIterator[Feed]:
    async with feeding(controller) as feed:
        yield feed


def alarm(number: int) -> AlarmRecord:
    return AlarmRecord(f"alarm {number}", "of a test")


# -- the list ----------------------------------------------------------------------------------------------------------


async def test_the_newest_are_listed_oldest_first(feed: Feed, controller: FakeController) -> None:
    controller.recent.record(*map(alarm, range(5)))

    answer = await feed.list("?limit=2")

    assert [each.summary for each in answer.items] == ["alarm 3: of a test", "alarm 4: of a test"]
    assert answer.oldest_id == f"{controller.recent.boot}.1"


async def test_the_list_is_empty_at_first(feed: Feed) -> None:
    answer = await feed.list()

    assert (answer.items, answer.oldest_id) == ([], None)


async def test_each_record_names_its_event_and_topics(feed: Feed, controller: FakeController) -> None:
    controller.recent.record(
        EventBegin(7, "TopicDeletion", 4, 1.0),
        DeletionRecord(["a", "b"], ["queued", "queued"], [None, None]),
        EventEnd(7, "TopicDeletion", "done", 1.0),
    )

    _, deletion, _ = (await feed.list()).items

    assert (deletion.event_id, deletion.kind, deletion.topics) == (7, "deletion", ["a", "b"])


@pytest.mark.parametrize(
    ("query", "kinds"),
    [
        ("?kind=alarm", ["alarm"]),
        ("?kind=alarm,deletion", ["alarm", "deletion"]),
        ("?topic=pay*", ["deletion"]),
        ("?since=10m", ["alarm", "brokers", "deletion"]),
    ],
)
async def test_only_matching_records_are_listed(
    feed: Feed, controller: FakeController, query: str, kinds: list[str]
) -> None:
    controller.recent.record(alarm(1), BrokersRecord(gone=[5]), DeletionRecord(["payments"], ["queued"], [None]))

    assert [each.kind for each in (await feed.list(query)).items] == kinds


@pytest.mark.parametrize("query", ["?kind=nonsense", "?since=soon", "?limit=0", "?until=10m"])
async def test_an_invalid_query_is_refused(feed: Feed, query: str) -> None:
    async with feed.session.get(feed.server.make_url(f"/v1/events{query}")) as response:
        problem = await response.json(content_type=None)

    assert (problem["status"], problem["code"]) == (400, "bad_parameter")


# -- the stream --------------------------------------------------------------------------------------------------------


async def test_a_stream_begins_with_new_records(feed: Feed, controller: FakeController) -> None:
    controller.recent.record(alarm(1))
    async with feed.follow() as stream:
        controller.recent.record(alarm(2))

        received = await stream.next()

    assert (received.event, received.id) == ("alarm", f"{controller.recent.boot}.2")
    assert received.happening.summary == "alarm 2: of a test"


async def test_a_stream_can_begin_with_recent_records(feed: Feed, controller: FakeController) -> None:
    controller.recent.record(alarm(1))

    async with feed.follow("?since=10m") as stream:
        assert (await stream.next()).happening.summary == "alarm 1: of a test"


async def test_a_client_that_reconnects_misses_no_records(feed: Feed, controller: FakeController) -> None:
    controller.recent.record(*map(alarm, range(1, 4)))

    async with feed.follow(last_id=f"{controller.recent.boot}.1") as stream:
        ids = [(await stream.next()).id for _ in range(2)]

    assert ids == [f"{controller.recent.boot}.2", f"{controller.recent.boot}.3"]


LAST_IDS = ("0123456789ab.1", "nonsense", "{boot}.99", "{boot}.x", "{boot}.٣", "{boot}." + "9" * 5_000)


@pytest.mark.parametrize("last_id", LAST_IDS)
async def test_an_id_of_another_run_is_a_gap(feed: Feed, controller: FakeController, last_id: str) -> None:
    controller.recent.record(alarm(1))

    async with feed.follow(last_id=last_id.replace("{boot}", controller.recent.boot)) as stream:
        received = await stream.next()
        following = await stream.next()

    gap = msgspec.json.decode(received.data, type=Gap)
    assert (received.event, gap.status, gap.next_id) == ("gap", 409, f"{controller.recent.boot}.1")
    assert following.id == gap.next_id


async def test_an_id_that_is_no_text_is_a_gap(feed: Feed) -> None:
    address = feed.server.make_url("/")
    reader, writer = await asyncio.open_connection(address.host, address.port)
    head = b"GET /v1/events HTTP/1.0\r\nAccept: text/event-stream\r\nLast-Event-ID: \xff\r\n\r\n"
    writer.write(head)

    assert b"event: gap" in await reader.readuntil(b"event: gap")
    writer.close()
    await writer.wait_closed()


async def test_a_client_that_reconnects_too_late_gets_a_gap(controller: FakeController) -> None:
    controller.recent = Recent(controller, max_entries=2)
    controller.recent.record(*map(alarm, range(1, 6)))
    async with feeding(controller) as feed, feed.follow(last_id=f"{controller.recent.boot}.1") as stream:
        received = [await stream.next() for _ in range(3)]

    assert [each.event for each in received] == ["gap", "alarm", "alarm"]
    assert received[1].id == f"{controller.recent.boot}.4"


async def test_only_matching_records_are_streamed(feed: Feed, controller: FakeController) -> None:
    async with feed.follow("?kind=brokers") as stream:
        controller.recent.record(alarm(1), BrokersRecord(gone=[5]))

        assert (await stream.next()).happening.summary == "broker 5 gone"


async def test_a_quiet_stream_has_heartbeats_with_the_newest_id(controller: FakeController) -> None:
    async with feeding(controller, heartbeat_s=0.01) as feed, feed.follow("?kind=brokers") as stream:
        controller.recent.record(alarm(1))
        blocks = [await stream.block()]
        while blocks[-1].get("id") != f"{controller.recent.boot}.1":
            blocks.append(await stream.block())

    assert all("data" not in block and "" in block for block in blocks)


async def test_a_client_that_does_not_read_is_disconnected(controller: FakeController) -> None:
    async with feeding(controller, heartbeat_s=0.05, patience_s=0.05) as feed, feed.follow() as stream:
        connection = stream.response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.pause_reading()
        loop = asyncio.get_running_loop()
        loop.call_later(1.0, connection.transport.resume_reading)  # it must be disconnected by then
        for _ in range(200):
            controller.recent.record(DeletionRecord(["t" * 200_000], ["queued"], [None]))
        with pytest.raises(aiohttp.ClientError):
            await stream.drain()
