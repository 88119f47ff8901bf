"""Every row of scenarios.md that needs real brokers has a test with its id. The check itself needs no broker."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = {
    *(f"d{n}" for n in range(1, 11)),
    *(f"e{n}" for n in range(1, 7)),
    *(f"g{n}" for n in (*range(1, 9), *range(13, 17))),
    *(f"h{n}" for n in range(1, 9)),
    *(f"j{n}" for n in range(1, 8)),
    *(f"k{n}" for n in range(1, 5)),
    *(f"l{n}" for n in range(1, 16)),
}


def rows_with_tests() -> set[str]:
    trees = [ast.parse(file.read_text("utf-8")) for file in HERE.glob("test_*.py")]
    names = [node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    heads = [match[1] for name in names if (match := re.match(r"test_((?:[a-z]\d+_)+)", name)) is not None]
    return {row for head in heads for row in head.strip("_").split("_")}


def test_every_row_has_a_test() -> None:
    assert ROWS - rows_with_tests() == set()
