"""Actions with delegation tokens."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

from tests.sim.world import SimWorld

_LIVES_S: Final = (0.5, 5.0)


def tokens_expire(world: SimWorld, rng: Random) -> None:
    """Let two tokens expire soon; one of them is renewed while an instance is about to delete it."""
    if world.tokens is not None and world.server.is_up:
        for is_renewed_late in (False, True):
            world.tokens.create(rng.uniform(*_LIVES_S), is_renewed_late=is_renewed_late)


TOKEN_ACTS: Final[Mapping[str, Callable[[SimWorld, Random], None]]] = {"tokens_expire": tokens_expire}
"""The functions by the kind of the action."""
