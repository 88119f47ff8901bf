"""The page about invariants (``docs/simulation.md``) says which tests check each invariant, and it is right."""

import inspect
import re
from pathlib import Path
from typing import Final

import pytest

from controllerd.core import invariants
from controllerd.record.invariants import RULES

PAGE: Final = Path(__file__).parents[2] / "docs" / "simulation.md"
_ROW: Final = re.compile(r"^\| (rules of the log|asserted in the daemon as well[^|]*) \| (.+) \|$", re.MULTILINE)
_RANGE: Final = re.compile(r"I-(\d\d)(?: to I-(\d\d))?")
_ID: Final = re.compile(r"I-\d\d")


def named(title: str) -> set[str]:
    """The invariants in the row of this title, ranges included."""
    (cell,) = [cell for head, cell in _ROW.findall(PAGE.read_text("utf-8")) if head.startswith(title)]
    found = _RANGE.findall(cell.split(";")[0])
    return {f"I-{number:02}" for low, high in found for number in range(int(low), int(high or low) + 1)}


def test_the_page_names_the_rules_of_the_log_that_there_are() -> None:
    assert named("rules of the log") == {rule.id for rule in RULES} - {"RT"}


def test_the_page_names_what_the_daemon_asserts() -> None:
    assert named("asserted in the daemon") == set(_ID.findall(inspect.getsource(invariants)))


@pytest.mark.parametrize("number", range(1, 41))
def test_the_page_says_of_every_invariant_who_looks_at_it(number: int) -> None:
    table = PAGE.read_text("utf-8").split("### Invariants of the audit log")[1].split("## How to read")[0]
    ranges = _RANGE.findall(table)
    assert any(int(low) <= number <= int(high or low) for low, high in ranges)
