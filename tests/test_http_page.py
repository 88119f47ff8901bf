"""``docs/http.md`` names every path that is served, nothing else, and every code of a problem."""

import ast
import re
from pathlib import Path

from controllerd.status.server import StatusServer
from tests.status.fake_controller import LOOPBACK, FakeController

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "http.md").read_text("utf-8")
REQUEST = re.compile(r"`(GET|POST) (/[^`?]*)`")


def test_every_path_is_on_the_page_and_no_other() -> None:
    routes = StatusServer(FakeController().sources(), LOOPBACK).routes()

    served = {(route.method, route.path) for route in routes if not route.path.startswith("/dashboard/")}

    assert set(REQUEST.findall(PAGE)) == served


def test_every_code_of_a_problem_is_on_the_page() -> None:
    trees = [ast.parse(path.read_text("utf-8")) for path in (ROOT / "controllerd" / "status").rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) > 1]
    made = [call.args[1] for call in calls if ast.unparse(call.func) in {"Refused", "_Meaning"}]
    codes = {code.value for code in made if isinstance(code, ast.Constant)}

    assert len(codes) > 20
    assert [code for code in sorted(map(str, codes)) if f"`{code}`" not in PAGE] == []
