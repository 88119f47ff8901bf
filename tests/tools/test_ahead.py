"""Cells begin before their tests ask for them, and the tests get their outcome."""

import asyncio
from typing import Final

import pytest

from tests.tools.ahead import IN_FLIGHT, Ahead
from tests.tools.cells import TOOL_OUTPUT, Cell, Client, Way


async def _nothing(_: Way) -> None: ...


NAMES: Final = [f"c{number}" for number in range(IN_FLIGHT + 2)]
CELLS: Final = [Cell(Client("a tool", "a.Tool"), name, _nothing) for name in NAMES]


class HeldCells:
    """Cells that wait for an event; one of them fails."""

    def __init__(self) -> None:
        self.ahead = Ahead(self._play)
        self.begun: list[str] = []
        self.full, self.go = asyncio.Event(), asyncio.Event()

    async def _play(self, cell: Cell) -> None:
        self.begun.append(cell.action)
        if len(self.begun) == IN_FLIGHT:
            self.full.set()
        TOOL_OUTPUT.get().append(f"{cell.action} says so")
        await self.go.wait()
        assert cell is not CELLS[1], "it fails"


async def test_following_cells_begin_at_once_up_to_a_limit() -> None:
    held = HeldCells()
    asking = asyncio.create_task(held.ahead.outcome(CELLS[0], CELLS[1:]))
    await held.full.wait()
    assert held.begun == NAMES[:IN_FLIGHT]

    held.go.set()
    await asking
    await held.ahead.outcome(CELLS[-1], ())
    assert held.begun == NAMES


async def test_a_cell_that_fails_ahead_fails_its_own_test_and_prints_its_own_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    held = HeldCells()
    held.go.set()
    await held.ahead.outcome(CELLS[0], CELLS[1:])
    assert capsys.readouterr().out == "c0 says so\n"
    with pytest.raises(AssertionError, match="it fails"):
        await held.ahead.outcome(CELLS[1], ())
    assert capsys.readouterr().out == "c1 says so\n"


async def test_no_cell_is_left_running_at_the_end() -> None:
    held = HeldCells()
    asking = asyncio.create_task(held.ahead.outcome(CELLS[0], CELLS[1:]))
    await held.full.wait()
    await held.ahead.end()

    with pytest.raises(asyncio.CancelledError):
        await asking
