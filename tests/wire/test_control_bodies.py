"""Long bodies are made in steps, in blocks, and by whoever waits for them."""

import asyncio
from collections.abc import Iterator

from controllerd.slicer import Slicer
from tests.turns import Turns
from wire.control_bodies import BLOCK_BYTES, Blocks


def impatient() -> Slicer:
    """A pace that is due after every step."""
    return Slicer(slice_s=0.0)


def test_small_pieces_become_blocks_and_no_byte_is_lost() -> None:
    pieces = [bytes([number]) * 1000 for number in range(200)]

    made = Blocks(pieces).complete()

    assert b"".join(made) == b"".join(pieces)
    assert [BLOCK_BYTES <= len(block) < BLOCK_BYTES + 1000 for block in made[:-1]] == [True] * 3


def test_an_empty_body_has_no_blocks() -> None:
    assert Blocks([]).complete() == ()
    assert Blocks([b"", b""]).complete() == ()


def test_what_is_complete_stays_so() -> None:
    body = Blocks([b"a", b"b"])
    assert body.complete() is not None
    assert body.complete() == (b"ab",)


async def test_the_loop_gets_a_turn_after_each_step() -> None:
    with Turns() as turns:
        await Blocks([b"a"] * 50).complete_in_turns(impatient())

    assert turns.count == 50


async def test_several_who_wait_share_the_work() -> None:
    steps: list[int] = []

    def pieces() -> Iterator[bytes]:
        for number in range(30):
            steps.append(number)
            yield bytes([number])

    body = Blocks(pieces())
    made = await asyncio.gather(*(body.complete_in_turns(impatient()) for _ in range(3)))

    assert made == [(bytes(range(30)),)] * 3
    assert steps == list(range(30))


async def test_when_one_who_waits_is_cancelled_the_others_get_it_all() -> None:
    body = Blocks(bytes([number]) for number in range(30))
    first = asyncio.create_task(body.complete_in_turns(impatient()))
    second = asyncio.create_task(body.complete_in_turns(impatient()))
    await asyncio.sleep(0)

    first.cancel()

    assert await second == (bytes(range(30)),)
