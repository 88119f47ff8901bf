"""Clients that use as many resources as they can are disconnected, and other clients do not notice."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from controllerd.status.http.limits import Limits
from tests.status.hostile.endpoint import HASTY, STREAM, ask, connected, http_request, opened, until


async def test_a_head_that_does_not_end_in_time_is_cut_off_however_slowly_it_goes_on() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        drip = asyncio.create_task(dripping(connection.writer))
        try:
            assert await connection.is_closed()
        finally:
            drip.cancel()

        assert endpoint.listener.limiter.closed == {"head too slow": 1}


async def dripping(writer: asyncio.StreamWriter) -> None:
    """Send one header after the other without end."""
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
    while True:
        writer.write(b"X-A: b\r\n")
        await asyncio.sleep(0.02)


async def test_a_connection_that_sends_nothing_is_cut_off() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        assert await connection.is_closed()


async def test_a_second_head_that_does_not_end_is_cut_off_as_well() -> None:
    async with opened(limits=Limits(head_s=0.1)) as endpoint, connected(endpoint) as connection:
        connection.send(http_request())
        assert (await connection.answer())[0] == 200
        connection.send(b"GET /li")

        assert await connection.is_closed()
        assert endpoint.listener.limiter.closed == {"head too slow": 1}


async def test_a_head_that_arrived_in_time_is_answered_even_if_the_loop_is_late() -> None:
    async with opened(limits=Limits(head_s=0.05)) as endpoint, connected(endpoint) as connection:
        await until(lambda: endpoint.listener.limiter.connections == 1)
        connection.send(http_request())
        time.sleep(0.2)  # noqa: ASYNC251  # the loop is held up on purpose

        assert (await connection.answer())[0] == 200
        assert not endpoint.listener.limiter.closed


async def test_an_idle_connection_between_requests_is_kept_for_a_while() -> None:
    async with opened(limits=Limits(head_s=0.05, keep_alive_s=0.2)) as endpoint, connected(endpoint) as connection:
        for _ in range(2):
            connection.send(http_request())
            assert (await connection.answer())[0] == 200
            await asyncio.sleep(0.1)

        assert await connection.is_closed()
        assert not endpoint.listener.limiter.closed


async def test_a_body_that_does_not_come_is_answered_with_408_and_closed() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(http_request("/verb", "POST", headers={"Content-Length": "100"}))

        assert (await connection.answer())[0] == 408
        assert await connection.is_closed()
        assert endpoint.principals == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 10_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /verb HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    ids=["long line", "long header", "many headers", "TLS", "negative length", "two lengths"],
)
async def test_a_head_that_is_too_big_or_no_http_is_a_problem_and_the_end(head: bytes) -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(head)
        status, answer = await connection.answer()

        assert (status, b"application/problem+json" in answer) == (400, True)
        assert await connection.is_closed()
        assert endpoint.listener.limiter.closed == {"not HTTP": 1}


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [("/verb", 16_384, 200), ("/verb", 16_385, 413), ("/plan", 2**20, 200), ("/plan", 2**20 + 1, 413)],
)
async def test_each_route_has_its_own_limit_of_the_body(path: str, size: int, status: int) -> None:
    async with opened(limits=HASTY) as endpoint:
        assert (await ask(endpoint, http_request(path, "POST", b" " * size)))[0] == status
        assert endpoint.bodies == ([size] if status == 200 else [])


async def test_a_body_that_is_announced_as_too_long_is_refused_before_it_comes() -> None:
    async with opened() as endpoint, connected(endpoint) as connection:
        connection.send(http_request("/verb", "POST", headers={"Content-Length": "99999999999"}))
        assert (await connection.answer())[0] == 413
        assert await connection.is_closed()

    assert endpoint.bodies == []


async def test_a_body_without_a_length_is_limited_as_well() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(b"POST /verb HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.send(
            b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b" " * 0x4000 + b"\r\n1\r\n \r\n0\r\n\r\n"
        )

        assert (await connection.answer())[0] == 413


async def test_a_body_that_does_not_match_its_headers_is_a_problem() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(b"POST /verb HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        connection.send(b"Transfer-Encoding: chunked\r\n\r\nnothing\r\n")

        assert (await connection.answer())[0] == 400


async def test_a_client_that_disconnects_early_is_counted_and_not_logged_as_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with opened(limits=HASTY) as endpoint:
        for request in (
            http_request("/verb", "POST", headers={"Content-Length": "9"}),
            http_request("/stream", headers=STREAM),
        ):
            async with connected(endpoint) as connection:
                connection.send(request)
                await until(lambda: endpoint.listener.limiter.connections == 1)
                await asyncio.sleep(0.01)
        await until(lambda: endpoint.listener.limiter.closed["left early"] == 2)

    assert caplog.records == []


async def test_a_client_that_does_not_read_the_answer_is_disconnected() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(http_request("/big"))

        await until(lambda: endpoint.listener.limiter.closed == {"answer not read": 1})
        await until(lambda: endpoint.listener.limiter.connections == 0)


async def test_a_stream_that_is_never_read_ends_and_does_not_count_any_more() -> None:
    async with opened(limits=Limits(unread_s=0.1, streams=1)) as endpoint, connected(endpoint) as connection:
        connection.send(http_request("/stream", headers=STREAM))
        await until(lambda: endpoint.streams == 1)
        assert (await ask(endpoint, http_request("/stream", headers=STREAM)))[0] == 429

        await until(lambda: endpoint.streams == 0)
        assert endpoint.listener.limiter.closed["answer not read"] == 1


async def test_one_peer_gets_only_some_of_the_streams() -> None:
    async with opened(limits=Limits(streams_per_peer=2)) as endpoint, AsyncExitStack() as readers:
        for _ in range(2):
            connection = await readers.enter_async_context(connected(endpoint))
            connection.send(http_request("/stream", headers=STREAM))
            await connection.reader.readuntil(b"\r\n\r\n")

        assert (await ask(endpoint, http_request("/stream", headers=STREAM)))[0] == 429
        assert (await ask(endpoint, http_request("/look")))[0] == 200


async def test_a_thousand_idle_connections_leave_room_for_one_that_asks() -> None:
    limits = Limits(per_peer=32)
    async with opened(limits=limits) as endpoint, AsyncExitStack() as idle:
        for _ in range(1_000):
            await idle.enter_async_context(connected(endpoint))

        assert (await ask(endpoint, http_request("/look")))[0] == 200
        assert endpoint.listener.limiter.connections <= limits.per_peer
        assert endpoint.listener.limiter.closed["idle, to make room"] >= 1_000 - limits.per_peer


async def test_all_peers_together_have_a_limit() -> None:
    async with opened(limits=Limits(connections=4)) as endpoint, AsyncExitStack() as idle:
        for _ in range(10):
            await idle.enter_async_context(connected(endpoint))

        assert (await ask(endpoint, http_request("/look")))[0] == 200
        assert endpoint.listener.limiter.connections <= 4


async def test_busy_connections_are_never_closed_to_make_room() -> None:
    async with (
        opened(limits=Limits(per_peer=2)) as endpoint,
        connected(endpoint) as first,
        connected(endpoint) as second,
    ):
        for connection in (first, second):
            connection.send(http_request("/stream", headers=STREAM))
            await connection.reader.readuntil(b"\r\n\r\n")

        async with connected(endpoint) as third:
            assert await third.is_closed()
        assert endpoint.streams == 2
        assert endpoint.listener.limiter.closed == {"too many connections": 1}


async def test_a_defect_is_a_problem_without_internal_details() -> None:
    async with opened(limits=HASTY) as endpoint, connected(endpoint) as connection:
        connection.send(http_request("/defect"))
        answer = await connection.reader.read(65536)

    assert answer.startswith(b"HTTP/1.1 500")
    assert b"application/problem+json" in answer
    assert b"KeyError" not in answer
