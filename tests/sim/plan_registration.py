"""The part of a plan with brokers that look their controller up under ``/brokers/ids``.

It was added after all others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

KINDS: Final = ("controller_deleted", "controller_deleted", "registration_deleted", "registration_left")
_FIRST: Final = 2510


@dataclass(slots=True)
class RegistrationOptions:
    """The brokers older than 3.0, and the setting ``kafka.register``."""

    register: str = "auto"
    old: frozenset[int] = frozenset()
    """The ids of brokers with the protocol of 2.8."""

    def __str__(self) -> str:
        return f"register={self.register}, old={sorted(self.old)}"

    def wants(self, live: set[int]) -> bool:
        """Whether the active instance must be registered while these brokers are live."""
        return self.register == "always" or (self.register == "auto" and bool(self.old & live))


def registration_of(
    seed: int, brokers: int, story_s: float
) -> tuple[RegistrationOptions, Sequence[tuple[float, str, int]]]:
    """This part of the plan of a seed; empty in half of the stories."""
    rng = Random(f"{seed}/registration")
    if rng.random() < 0.5:
        return RegistrationOptions(), ()
    register = rng.choice(("auto", "auto", "auto", "always", "never"))
    old = frozenset(number for number in range(1, brokers + 1) if rng.random() < 0.6)
    share = rng.choice((0.0, 0.3, 0.7))
    kinds = [kind for kind in KINDS if rng.random() < share]
    times = sorted(rng.uniform(1.0, story_s) for _ in range(rng.choice((1, 3, 6)))) if kinds else []
    return (
        RegistrationOptions(register, old),
        [(at, rng.choice(kinds), number) for number, at in enumerate(times, _FIRST)],
    )
