"""Cells begin before they are asked for, and tell what became of them when they are."""

import asyncio
from typing import Final

import pytest

from tests.tools.ahead import IN_FLIGHT, Ahead
from tests.tools.cells import TOLD, Cell, Client, Way


async def _nothing(_: Way) -> None: ...


NAMES: Final = [f"c{number}" for number in range(IN_FLIGHT + 2)]
CELLS: Final = [Cell(Client("a tool", "a.Tool"), name, _nothing) for name in NAMES]


class Stage:
    """Cells that wait until they are let go; one of them fails."""

    def __init__(self) -> None:
        self.ahead = Ahead(self._play)
        self.begun: list[str] = []
        self.full, self.go = asyncio.Event(), asyncio.Event()

    async def _play(self, cell: Cell) -> None:
        self.begun.append(cell.action)
        if len(self.begun) == IN_FLIGHT:
            self.full.set()
        TOLD.get().append(f"{cell.action} says so")
        await self.go.wait()
        assert cell is not CELLS[1], "it fails"


async def test_those_that_follow_begin_at_once_up_to_a_limit() -> None:
    stage = Stage()
    asking = asyncio.create_task(stage.ahead.outcome(CELLS[0], CELLS[1:]))
    await stage.full.wait()
    assert stage.begun == NAMES[:IN_FLIGHT]

    stage.go.set()
    await asking
    await stage.ahead.outcome(CELLS[-1], ())
    assert stage.begun == NAMES


async def test_what_fails_ahead_fails_the_test_that_asks_for_it_and_shows_its_own_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    stage.go.set()
    await stage.ahead.outcome(CELLS[0], CELLS[1:])
    assert capsys.readouterr().out == "c0 says so\n"
    with pytest.raises(AssertionError, match="it fails"):
        await stage.ahead.outcome(CELLS[1], ())
    assert capsys.readouterr().out == "c1 says so\n"


async def test_nothing_is_left_running_at_the_end() -> None:
    stage = Stage()
    asking = asyncio.create_task(stage.ahead.outcome(CELLS[0], CELLS[1:]))
    await stage.full.wait()
    await stage.ahead.end()

    with pytest.raises(asyncio.CancelledError):
        await asking
