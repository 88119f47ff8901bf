"""A shared body whose making failed half-way must not be taken for a complete one by the next who asks."""

from collections.abc import Iterator

import pytest

from controllerd.errors import IllegalState
from wire.control_bodies import Blocks


def test_a_body_that_failed_half_way_fails_for_everybody() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"a" * 100_000
        raise ValueError("planted")

    shared = Blocks(pieces())
    with pytest.raises(ValueError, match="planted"):
        shared.complete()

    with pytest.raises(IllegalState):
        shared.complete()  # the second broker gets 100,000 bytes of a body that never ends
