"""Bodies of megabytes: made step by step, so that the event loop gets its turns, and kept in blocks, never copied.

Whoever sends a body writes block after block and waits in between, so that a socket buffers one block and not all.
"""

from collections.abc import Iterable
from typing import Final

from controllerd.errors import IllegalState
from controllerd.pace import Pace

BLOCK_BYTES: Final = 64 * 1024
ROWS_PER_STEP: Final = 1_000
"""Partitions between two looks at the clock: about a millisecond."""


class Blocks:
    """Bytes that come in pieces of any size. Several may wait for them at once: each drives them on, nobody twice."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """A piece may be empty: then a step's worth of work was done, and there is nothing to show for it yet."""
        self._pieces = iter(pieces)
        self._small: list[bytes] = []
        self._size = 0
        self._blocks: list[bytes] = []
        self._has_failed = False
        """Whether making a piece raised: whoever asks later must not take the half of it for all."""

    def step(self) -> bool:
        """Go on by one piece; false when there is none left."""
        if self._has_failed:
            raise IllegalState("a body that could not be made was asked for again")
        self._has_failed = True
        piece = next(self._pieces, None)
        self._has_failed = False
        if piece:
            self._small.append(piece)
            self._size += len(piece)
        if self._small and (piece is None or self._size >= BLOCK_BYTES):
            self._blocks.append(b"".join(self._small))
            self._small, self._size = [], 0
        return piece is not None

    def complete(self) -> tuple[bytes, ...]:
        """All of it, at once."""
        while self.step():
            pass
        return tuple(self._blocks)

    async def complete_in_turns(self, pace: Pace | None = None) -> tuple[bytes, ...]:
        """All of it, with turns for the event loop in between."""
        pace = pace or Pace()
        while self.step():
            await pace.breathe()
        return tuple(self._blocks)
