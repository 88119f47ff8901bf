"""Every kind of bad input that concerns the controller (``scenarios.md`` section 7) is fed to it by a test."""

import re
from pathlib import Path
from typing import Final

import pytest

ROWS: Final = [*range(1, 31), 35, 36, 37, 45]
TESTS: Final = Path(__file__).parents[1]
_INPUT: Final = re.compile(r"^(?:async )?def test_\w*?input_(\d+)(?!\d)", re.MULTILINE)
FOUND: Final = {int(row) for path in TESTS.rglob("test_*.py") for row in _INPUT.findall(path.read_text("utf-8"))}


@pytest.mark.parametrize("row", ROWS)
def test_every_bad_input_is_fed_to_the_controller(row: int) -> None:
    assert row in FOUND
