"""A shared body whose encoding failed half-way must not be taken for a complete one by the next task."""

from collections.abc import Iterator

import pytest

from controllerd.errors import IllegalState
from wire.control_bodies import Blocks


def test_a_body_that_failed_half_way_fails_for_every_task() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a" * 100_000
        raise ValueError("planted")

    shared = Blocks(pieces())
    with pytest.raises(ValueError, match="planted"):
        shared.complete()

    with pytest.raises(IllegalState):
        shared.complete()  # otherwise the second broker would get the first 100,000 bytes of an incomplete body
