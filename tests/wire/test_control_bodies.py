"""Long bodies are encoded in steps, in blocks, and by the tasks that wait for them."""

import asyncio
from collections.abc import Iterator

from controllerd.slicer import Slicer
from tests.turns import Turns
from wire.control_bodies import BLOCK_BYTES, Blocks


def always_due() -> Slicer:
    """A slicer that is due after every step."""
    return Slicer(slice_s=0.0)


def test_small_pieces_become_blocks_and_no_byte_is_lost() -> None:
    pieces = [bytes([number]) * 1000 for number in range(200)]

    made = Blocks(pieces).complete()

    assert b"".join(made) == b"".join(pieces)
    assert [BLOCK_BYTES <= len(block) < BLOCK_BYTES + 1000 for block in made[:-1]] == [True] * 3


def test_an_empty_body_has_no_blocks() -> None:
    assert Blocks([]).complete() == ()
    assert Blocks([b"", b""]).complete() == ()


def test_a_complete_body_stays_complete() -> None:
    body = Blocks([b"a", b"b"])
    assert body.complete() is not None
    assert body.complete() == (b"ab",)


async def test_the_loop_gets_a_turn_after_each_step() -> None:
    with Turns() as turns:
        await Blocks([b"a"] * 50).complete_in_turns(always_due())

    assert turns.count == 50


async def test_several_waiting_tasks_share_the_work() -> None:
    steps: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(30):
            steps.append(number)
            yield bytes([number])

    body = Blocks(pieces())
    made = await asyncio.gather(*(body.complete_in_turns(always_due()) for _ in range(3)))

    assert made == [(bytes(range(30)),)] * 3
    assert steps == list(range(30))


async def test_when_one_waiting_task_is_cancelled_the_others_get_the_whole_body() -> None:
    body = Blocks(bytes([number]) for number in range(30))
    first = asyncio.create_task(body.complete_in_turns(always_due()))
    second = asyncio.create_task(body.complete_in_turns(always_due()))
    await asyncio.sleep(0)

    first.cancel()

    assert await second == (bytes(range(30)),)
