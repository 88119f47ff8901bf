"""The listener under thousands of frames by fixed seeds; ``make fuzz`` plays any number of frames."""

import struct
import tracemalloc
from typing import Final

import pytest

from tests.fuzz.judge import LIMITS
from tests.fuzz.run import FuzzRun
from tests.fuzz.spoil import Expect
from tests.fuzz.target import Target, target
from wire.kio_codec import encode_request, request_type
from wire.primitives import uvarint

FRAMES_PER_SEED: Final = 2_500
MOST_BYTES: Final = 4 * 2**20
_HUGE: Final = (2**31 - 1, 2**32 - 1, 2**24)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
async def test_no_frame_harms_the_server_and_every_request_is_answered_input_31(seed: int) -> None:
    async with target() as under_test:
        run, batch = FuzzRun(under_test, seed), 0
        while run.figures.frames < FRAMES_PER_SEED:
            await run.batch(batch)
            batch += 1

        assert "internal error" not in under_test.server.stats().hang_ups
        assert run.figures.answered > run.figures.hung_up > 0


async def test_a_large_frame_is_read_by_its_size_and_not_beyond_the_limit_input_31() -> None:
    async with target() as under_test:
        line = await under_test.line(over_socket=False)
        line.send(struct.pack(">ihhih", 10, 18, 0, 1, -1))
        assert await line.inbox.next_frame(10)

        line.send(struct.pack(">i", LIMITS.max_frame_bytes + 1))

        assert await line.inbox.next_frame(10) is None
        assert under_test.acceptor.largest_read < 100


@pytest.mark.parametrize("huge", _HUGE)
async def test_a_frame_that_announces_much_takes_no_more_memory_than_it_has_bytes_input_31(huge: int) -> None:
    async with target() as under_test:
        await send_each(under_test, *announcing(huge))  # modules that are loaded once stay loaded
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            await send_each(under_test, *announcing(huge))
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert peak - before < MOST_BYTES


def announcing(huge: int) -> list[bytes]:
    """Requests that declare this many elements of an array, a string or tags."""
    length = uvarint(huge)
    signed = struct.pack(">I", huge)
    head = {key: struct.pack(">hhih", key, version, 1, -1) for key, version in VERSIONS.items()}
    return [
        *(head[key] + b"\0" + length for key in (3, 19, 20, 37, 43, 45, 46, 51, 57)),
        head[56] + b"\0" + struct.pack(">iq", 1, 1) + length,
        head[56] + b"\0" + struct.pack(">iq", 1, 1) + b"\2" + bytes(16) + length,
        head[19] + b"\0\2" + length,
        *(head[key] + length for key in (3, 19, 56, 67)),
        *(struct.pack(">hhih", 3, 8, 1, -1) + signed + struct.pack(">h", length) for length in (0, -2, -4)),
        struct.pack(">hhih", 20, 1, 1, -1) + signed + struct.pack(">hi", -2, 0),
        struct.pack(">hhih", 3, 8, 1, -1) + signed,
        struct.pack(">hhih", 19, 4, 1, -1) + signed,
        struct.pack(">hhih", 45, 0, 1, -1) + b"\0" + struct.pack(">i", 1) + length,
        encode_request(1, "x", request_type(67, 0)(broker_id=1, broker_epoch=1))[:-1] + length,  # type: ignore[call-arg]
    ]


VERSIONS: Final = {3: 12, 19: 7, 20: 6, 37: 3, 43: 2, 45: 0, 46: 0, 51: 0, 56: 3, 57: 1, 67: 0}


async def send_each(under_test: Target, *frames: bytes) -> None:
    """Send each frame on a connection of its own, and wait for the hang-up."""
    for frame in frames:
        line = await under_test.line(over_socket=False)
        line.send(struct.pack(">i", len(frame)) + frame)
        assert await line.inbox.next_frame(10) is None, frame.hex()
        line.abort()


def test_what_is_allowed_grows_with_what_was_done() -> None:
    assert max(Expect.ANSWER, Expect.EITHER, Expect.CLOSE) is Expect.CLOSE
