"""Deliberate deviations from the recorded traces: read from ``deviations.toml``, shown in ``docs/deviations.md``."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.traces.compare import Difference

_LIST: Final = Path(__file__).parent / "deviations.toml"
PAGE: Final = Path(__file__).parents[2] / "docs" / "deviations.md"


@dataclass(frozen=True, slots=True)
class Deviation:
    """A way in which we differ, with the lines of each trace, in groups that differ together."""

    name: str
    kind: str
    what: str
    why: str
    lines: Mapping[str, Sequence[Sequence[int]]]


def declared() -> tuple[Deviation, ...]:
    """All deviations, in the order of the file."""
    with _LIST.open("rb") as file:
        return tuple(Deviation(**entry) for entry in tomllib.load(file)["deviation"])


def judge(scenario: str, found: Sequence[Difference], *, unseen: Sequence[str] = ()) -> list[str]:
    """The errors: undeclared differences, and declared ones that do not occur.

    ``unseen`` are kinds that this way of observing cannot find.
    """
    allowed = {
        (tuple(lines), deviation.kind) for deviation in declared() for lines in deviation.lines.get(scenario, ())
    }
    seen = {(difference.lines, difference.kind) for difference in found}
    wrong = [str(difference) for difference in found if (difference.lines, difference.kind) not in allowed]
    return wrong + [
        f"declared, but not so: {kind} in lines {lines}" for lines, kind in sorted(allowed - seen) if kind not in unseen
    ]


def missing(scenario: str) -> frozenset[int]:
    """The lines of a trace that are declared to be missing, requests and writes: no replay waits for them."""
    groups = [each.lines.get(scenario, ()) for each in declared() if each.kind in {"missing request", "missing write"}]
    return frozenset(number for group in groups for lines in group for number in lines)


def table() -> str:
    """The deviations as rows of the page."""
    rows = ["| Deviation | Where | What differs | Why that is right |", "|---|---|---|---|"]
    for deviation in declared():
        where = "; ".join(_where(scenario, groups) for scenario, groups in deviation.lines.items())
        rows.append(f"| {deviation.name} | {where} | {deviation.what} | {deviation.why} |")
    return "\n".join(rows)


def _where(scenario: str, groups: Sequence[Sequence[int]]) -> str:
    return f"{scenario} " + ", ".join("+".join(map(str, lines)) for lines in groups)
