"""Every scenario of a covered group has a test that carries its id, and a row in the table beside."""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

GROUPS: Final = {"A": 18, "B": 9, "C": 13, "D": 12, "E": 7, "F": 9, "G": 16, "H": 15, "J": 7, "K": 4, "L": 16, "M": 11}
"""The groups that are covered so far, with their numbers of scenarios."""
IDS: Final = [f"{group}{number}" for group, count in GROUPS.items() for number in range(1, count + 1)]
HERE: Final = Path(__file__).parent
_NAME: Final = re.compile(r"test_([a-z]\d+)_")
_ROW: Final = re.compile(r"^\| ([A-Z]\d+) \| (.+?) \|$", re.MULTILINE)


@cache
def names_by_id() -> dict[str, list[str]]:
    """The names of the test functions by the id that they carry."""
    found: dict[str, list[str]] = {}
    for path in sorted(HERE.glob("test_group_*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (match := _NAME.match(node.name)):
                found.setdefault(match[1].upper(), []).append(node.name)
    return found


@pytest.mark.parametrize("scenario", IDS)
def test_every_scenario_has_a_test_that_carries_its_id(scenario: str) -> None:
    assert names_by_id().get(scenario)


def test_the_table_has_one_row_for_each_scenario() -> None:
    assert [row[0] for row in _ROW.findall((HERE / "README.md").read_text())] == IDS


def test_no_test_carries_an_id_that_there_is_not() -> None:
    assert set(names_by_id()) <= set(IDS)
