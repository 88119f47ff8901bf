"""Every past failure of ``scenarios.md`` section 3 that names a property has a test whose name carries its id."""

import re
from pathlib import Path
from typing import Final

import pytest

HISTORY: Final = {
    "1": "532", "2": "6082", "3": "1096", "4": "4447", "5": "4229", "6": "5473", "7": "1387 992", "8": "7165",
    "9": "6517 6879", "10": "4360 1699", "11": "8121", "12": "7987 13461", "13": "13270", "14": "5502", "15": "5879",
    "16": "3085", "17": "7235", "18": "1867 13225", "19": "831", "20": "4443", "21": "7537", "22": "7482 705",
    "23": "999 3670", "24": "708", "25": "849 1202", "26": "9212", "27": "1188", "28": "1382", "29": "14154",
    "30": "14144", "31": "14140", "32": "9672 6638", "33": "1097 1170", "34": "6193", "35": "5310", "36": "4214 990",
    "37": "9089", "38": "9478", "39": "14808", "40": "10314", "41": "10149 9866", "42": "6146 828 840",
    "43": "1681 1742", "44": "6650", "45": "6612", "46": "9946", "47": "10548", "48": "", "49": "3175 2937",
    "50": "3143", "51": "12835", "52": "10193", "53": "2300", "54": "4959 907 3916",
    "55": "10794 6630 9499 17061", "56": "13572 1068 1168 6753", "57": "1578", "58": "", "58b": "", "58c": "",
    "59": "", "60": "", "61": "", "62": "",
}  # fmt: skip
"""The rows of the table, each with the numbers of its issues; a row without issues is named by its own number."""
TESTS: Final = Path(__file__).parents[1]
_TEST: Final = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
_ISSUE: Final = re.compile(r"kafka_(\d+)(?!\d)")
_ROW: Final = re.compile(r"history_(\d+[bc]?)(?![a-z0-9])")
AT_LEAST: Final = 50


def names_by_id() -> dict[str, list[str]]:
    """The names of the tests by the issues and rows that they carry."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for name in _TEST.findall(path.read_text("utf-8")):
            for issue in _ISSUE.findall(name):
                found.setdefault(issue, []).append(name)
            for row in _ROW.findall(name):
                found.setdefault(f"row {row}", []).append(name)
    return found


FOUND: Final = names_by_id()


@pytest.mark.parametrize("row", HISTORY)
def test_every_past_failure_has_a_test_that_carries_its_id(row: str) -> None:
    assert [name for key in (f"row {row}", *HISTORY[row].split()) for name in FOUND.get(key, ())]


def test_at_least_fifty_issues_are_named_by_their_number() -> None:
    known = {issue for issues in HISTORY.values() for issue in issues.split()}
    assert len(known & FOUND.keys()) >= AT_LEAST
