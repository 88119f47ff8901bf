"""The time of a workload by function, from the samples of ``bench/profiled.py``."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SHARED: Final = 0.99
_IDLE: Final = ("Selector.select", "Selector.poll")


@dataclass(frozen=True, slots=True)
class Profile:
    """One workload in ns of wall clock.

    ``own`` counts the function that the main thread executed, ``within`` every function on its stack.
    """

    workload: str
    total_ns: int
    idle_ns: int
    own: Counter[str]
    within: Counter[str]

    def lines(self, top: int = 25) -> list[str]:
        """Return text lines: seconds, and shares of the time in which the main thread did not wait in its selector."""
        busy = max(1, self.total_ns - self.idle_ns)
        waited = self.idle_ns / max(1, self.total_ns)
        lines = [f"{self.workload}: {self.total_ns / 1e9:.2f} s, {waited:.0%} of it waiting in the selector"]
        shared = {
            place for place, ns in self.within.items() if ns > _SHARED * busy
        }  # the calls that lead to the event loop and into it
        within = Counter({place: ns for place, ns in self.within.items() if place not in shared})
        for title, counts in (("in the function itself", self.own), ("with what it calls", within)):
            lines.append(f"  {title}:")
            lines += [f"    {ns / busy:6.1%} {ns / 1e9:7.3f} s  {place}" for place, ns in counts.most_common(top)]
        return lines


def read_profiles(path: Path, spans: Sequence[tuple[str, int, int]]) -> list[Profile]:
    """Return the profile of each span; a span is its name, beginning and end in ns of CLOCK_MONOTONIC."""
    content = json.loads(path.read_text(encoding="utf-8"))
    stacks: list[list[str]] = content["stacks"]
    return [
        profile_of(name, [(stacks[index], ns) for at_ns, ns, index in content["samples"] if began <= at_ns <= ended])
        for name, began, ended in spans
    ]


def profile_of(name: str, samples: Iterable[tuple[Sequence[str], int]]) -> Profile:
    """Return the profile of stacks, the innermost place first, each with its time."""
    own: Counter[str] = Counter()
    within: Counter[str] = Counter()
    idle = total = 0
    for stack, ns in samples:
        total += ns
        if stack and stack[0].endswith(_IDLE):
            idle += ns
            continue
        own[stack[0] if stack else "unknown"] += ns
        for place in set(stack):
            within[place] += ns
    return Profile(name, total, idle, own, within)
