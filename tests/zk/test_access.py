"""Very many znodes are read a few slices at a time, and taken slice by slice."""

import asyncio
from collections.abc import Sequence

import pytest

from controllerd.errors import StoreUnavailable
from controllerd.zk.access import IN_FLIGHT, Znode, read_in_slices
from tests.turns import Turns


class Server:
    """Answers after a turn of the loop, with the number as version; remembers how many waited at once."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.taken: list[int] = []
        self.asked = 0
        self.most_waiting = 0
        self._waiting = 0
        self._fails_at = fails_at

    async def read(self, numbers: Sequence[int]) -> list[Znode | None]:
        """One request."""
        self.asked += 1
        if self._fails_at is not None and self.asked >= self._fails_at:
            raise StoreUnavailable("gone")
        self._waiting += 1
        self.most_waiting = max(self.most_waiting, self._waiting)
        await asyncio.sleep(0)
        self._waiting -= 1
        return [Znode(b"", number, 0) for number in numbers]

    def take(self, numbers: Sequence[int], nodes: Sequence[Znode | None]) -> None:
        """Take a slice."""
        assert [node.version for node in nodes if node is not None] == list(numbers)
        self.taken += numbers


async def test_everything_is_taken_once_and_in_order() -> None:
    server = Server()
    await read_in_slices(range(1_001), 10, server.read, server.take)
    assert server.taken == list(range(1_001))


async def test_a_few_slices_are_in_flight_at_a_time() -> None:
    server = Server()
    await read_in_slices(range(1_000), 10, server.read, server.take)
    assert server.most_waiting == IN_FLIGHT


async def test_other_tasks_run_between_slices() -> None:
    server = Server()
    with Turns() as turns:
        await read_in_slices(range(1_000), 10, server.read, server.take)
    assert turns.count >= 100 / IN_FLIGHT


async def test_no_items_need_no_read() -> None:
    server = Server()
    await read_in_slices([], 10, server.read, server.take)
    assert server.asked == 0


async def test_a_failed_read_is_raised() -> None:
    server = Server(fails_at=7)
    with pytest.raises(StoreUnavailable):
        await read_in_slices(range(1_000), 10, server.read, server.take)
    assert server.asked <= 6 + IN_FLIGHT
