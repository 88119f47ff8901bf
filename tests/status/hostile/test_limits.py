"""Clients that cost as much as they can: they are cut off, and nobody else notices."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from controllerd.status.http.limits import Limits
from tests.status.hostile.house import HASTY, STREAM, ask, asked, opened, until, wired


async def test_a_head_that_does_not_end_in_time_is_cut_off_however_slowly_it_goes_on() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        drip = asyncio.create_task(dripping(wire.writer))
        try:
            assert await wire.is_closed()
        finally:
            drip.cancel()

        assert house.listener.limiter.closed == {"head too slow": 1}


async def dripping(writer: asyncio.StreamWriter) -> None:
    """One header after the other, for ever."""
    writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
    while True:
        writer.write(b"X-A: b\r\n")
        await asyncio.sleep(0.02)


async def test_a_connection_that_sends_nothing_is_cut_off() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        assert await wire.is_closed()


async def test_a_second_head_that_does_not_end_is_cut_off_as_well() -> None:
    async with opened(limits=Limits(head_s=0.1)) as house, wired(house) as wire:
        wire.send(asked())
        assert (await wire.answer())[0] == 200
        wire.send(b"GET /li")

        assert await wire.is_closed()
        assert house.listener.limiter.closed == {"head too slow": 1}


async def test_a_head_that_came_in_time_is_answered_however_late_the_loop_gets_to_it() -> None:
    async with opened(limits=Limits(head_s=0.05)) as house, wired(house) as wire:
        await until(lambda: house.listener.limiter.connections == 1)
        wire.send(asked())
        time.sleep(0.2)  # noqa: ASYNC251  # the loop is held up on purpose

        assert (await wire.answer())[0] == 200
        assert not house.listener.limiter.closed


async def test_a_connection_that_rests_between_requests_is_kept_for_a_while() -> None:
    async with opened(limits=Limits(head_s=0.05, keep_alive_s=0.2)) as house, wired(house) as wire:
        for _ in range(2):
            wire.send(asked())
            assert (await wire.answer())[0] == 200
            await asyncio.sleep(0.1)

        assert await wire.is_closed()
        assert not house.listener.limiter.closed


async def test_a_body_that_does_not_come_is_answered_with_408_and_closed() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(asked("/verb", "POST", headers={"Content-Length": "100"}))

        assert (await wire.answer())[0] == 408
        assert await wire.is_closed()
        assert house.guests == []


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
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(head)
        status, answer = await wire.answer()

        assert (status, b"application/problem+json" in answer) == (400, True)
        assert await wire.is_closed()
        assert house.listener.limiter.closed == {"not HTTP": 1}


@pytest.mark.parametrize(
    ("path", "size", "status"),
    [("/verb", 16_384, 200), ("/verb", 16_385, 413), ("/plan", 2**20, 200), ("/plan", 2**20 + 1, 413)],
)
async def test_each_route_has_its_own_limit_of_the_body(path: str, size: int, status: int) -> None:
    async with opened(limits=HASTY) as house:
        assert (await ask(house, asked(path, "POST", b" " * size)))[0] == status
        assert house.bodies == ([size] if status == 200 else [])


async def test_a_body_that_is_announced_as_too_long_is_refused_before_it_comes() -> None:
    async with opened() as house, wired(house) as wire:
        wire.send(asked("/verb", "POST", headers={"Content-Length": "99999999999"}))
        assert (await wire.answer())[0] == 413
        assert await wire.is_closed()

    assert house.bodies == []


async def test_a_body_without_a_length_is_limited_as_well() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(b"POST /verb HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        wire.send(b"Transfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b" " * 0x4000 + b"\r\n1\r\n \r\n0\r\n\r\n")

        assert (await wire.answer())[0] == 413


async def test_a_body_that_is_not_as_its_head_says_is_a_problem() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(b"POST /verb HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
        wire.send(b"Transfer-Encoding: chunked\r\n\r\nnothing\r\n")

        assert (await wire.answer())[0] == 400


async def test_who_leaves_in_the_middle_is_counted_and_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with opened(limits=HASTY) as house:
        for request in (asked("/verb", "POST", headers={"Content-Length": "9"}), asked("/stream", headers=STREAM)):
            async with wired(house) as wire:
                wire.send(request)
                await until(lambda: house.listener.limiter.connections == 1)
                await asyncio.sleep(0.01)
        await until(lambda: house.listener.limiter.closed["left early"] == 2)

    assert caplog.records == []


async def test_who_does_not_read_an_answer_is_cut_off() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(asked("/big"))

        await until(lambda: house.listener.limiter.closed == {"answer not read": 1})
        await until(lambda: house.listener.limiter.connections == 0)


async def test_a_stream_that_is_never_read_ends_and_gives_back_its_place() -> None:
    async with opened(limits=Limits(unread_s=0.1, streams=1)) as house, wired(house) as wire:
        wire.send(asked("/stream", headers=STREAM))
        await until(lambda: house.streams == 1)
        assert (await ask(house, asked("/stream", headers=STREAM)))[0] == 429

        await until(lambda: house.streams == 0)
        assert house.listener.limiter.closed["answer not read"] == 1


async def test_one_peer_gets_only_some_of_the_streams() -> None:
    async with opened(limits=Limits(streams_per_peer=2)) as house, AsyncExitStack() as readers:
        for _ in range(2):
            wire = await readers.enter_async_context(wired(house))
            wire.send(asked("/stream", headers=STREAM))
            await wire.reader.readuntil(b"\r\n\r\n")

        assert (await ask(house, asked("/stream", headers=STREAM)))[0] == 429
        assert (await ask(house, asked("/look")))[0] == 200


async def test_a_thousand_idle_connections_leave_room_for_one_that_asks() -> None:
    limits = Limits(per_peer=32)
    async with opened(limits=limits) as house, AsyncExitStack() as idle:
        for _ in range(1_000):
            await idle.enter_async_context(wired(house))

        assert (await ask(house, asked("/look")))[0] == 200
        assert house.listener.limiter.connections <= limits.per_peer
        assert house.listener.limiter.closed["idle, to make room"] >= 1_000 - limits.per_peer


async def test_all_peers_together_have_a_limit_too() -> None:
    async with opened(limits=Limits(connections=4)) as house, AsyncExitStack() as idle:
        for _ in range(10):
            await idle.enter_async_context(wired(house))

        assert (await ask(house, asked("/look")))[0] == 200
        assert house.listener.limiter.connections <= 4


async def test_connections_at_work_are_never_cut_off_to_make_room() -> None:
    async with opened(limits=Limits(per_peer=2)) as house, wired(house) as first, wired(house) as second:
        for wire in (first, second):
            wire.send(asked("/stream", headers=STREAM))
            await wire.reader.readuntil(b"\r\n\r\n")

        async with wired(house) as third:
            assert await third.is_closed()
        assert house.streams == 2
        assert house.listener.limiter.closed == {"too many connections": 1}


async def test_a_defect_is_a_problem_that_says_nothing_of_the_inside() -> None:
    async with opened(limits=HASTY) as house, wired(house) as wire:
        wire.send(asked("/defect"))
        answer = await wire.reader.read(65536)

    assert answer.startswith(b"HTTP/1.1 500")
    assert b"application/problem+json" in answer
    assert b"KeyError" not in answer
