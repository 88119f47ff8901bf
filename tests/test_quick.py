"""`make quick` stays what it promises: no Java, no Spark, a small environment; and the hooks run the same checks."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Final

import pytest
import yaml
from packaging.utils import canonicalize_name

ROOT: Final = Path(__file__).resolve().parents[1]
MAKEFILE: Final = (ROOT / "Makefile").read_text("utf-8")
PURE: Final = re.findall(r"^PURE := .*,(.*)\)$", MAKEFILE, re.MULTILINE)
FOLDERS: Final = tuple(f"tests/{name}" for names in PURE for name in names.split())
PINNED: Final = frozenset(
    canonicalize_name(name)
    for name in re.findall(r"^([\w.-]+)==", (ROOT / "requirements-quick.lock").read_text("utf-8"), re.MULTILINE)
)
SERVERS: Final = "controllerd.dev.servers"
"""The module that every module imports which starts a server of another kind."""
FOLLOWED: Final = ("tests.", "controllerd.dev.")
HOOKS: Final = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"]


@cache
def path_of(module: str) -> Path | None:
    """The file of a module of this tree."""
    path = ROOT / f"{module.replace('.', '/')}.py"
    return path if path.exists() else None


@cache
def imports(path: Path) -> frozenset[str]:
    """The modules that a file imports anywhere, also inside of its functions."""
    return frozenset(name for node in ast.walk(ast.parse(path.read_text("utf-8"))) for name in names_of(node))


def names_of(node: ast.AST) -> Iterator[str]:
    """The modules that one statement imports."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        below = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name if path_of(name) else str(node.module) for name in below)


def reached(folder: str) -> frozenset[str]:
    """Everything that the tests of a folder import, by way of other tests and of development code as well."""
    found: set[str] = set()
    waiting = [name for path in (ROOT / folder).rglob("*.py") for name in imports(path)]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            path = path_of(name) if name.startswith(FOLLOWED) else None
            waiting += imports(path) if path else ()
    return frozenset(found)


def is_at_hand(top: str) -> bool:
    """Whether `make quick` has this top-level name: Python's own, ours, or of a pinned distribution."""
    if top in sys.stdlib_module_names or (ROOT / top).is_dir() or (ROOT / "docs" / f"{top}.py").exists():
        return True
    return bool({canonicalize_name(name) for name in packages_distributions().get(top, ())} & PINNED)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pure_folder_holds_tests(folder: str) -> None:
    assert list((ROOT / folder).rglob("test_*.py"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pure_folder_imports_nothing_that_the_quick_environment_lacks(folder: str) -> None:
    assert {name for name in reached(folder) if not is_at_hand(name.partition(".")[0])} == set()


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_pure_folder_starts_no_server(folder: str) -> None:
    assert SERVERS not in reached(folder)


def test_the_law_of_pure_folders_finds_servers_and_spark_where_they_are() -> None:
    assert SERVERS in reached("tests/releases")
    assert "pyspark.sql" in reached("tests/job")
    assert not is_at_hand("pyspark")


def test_the_hooks_before_a_commit_are_tools_of_the_tree_and_fetch_nothing() -> None:
    entries = [hook["entry"] for repo in HOOKS for hook in repo["hooks"]]

    assert [repo["repo"] for repo in HOOKS] == ["local"]
    assert [entry for entry in entries if not entry.startswith((".venv/bin/", ".venv-quick/bin/"))] == []


def test_the_hooks_before_a_commit_are_the_checks_of_make() -> None:
    recipe = MAKEFILE.partition("\ncheck:")[2].partition("\n\n")[0]
    tools = set(re.findall(r"\$\(BIN\)/([\w-]+)", recipe))

    assert {Path(hook["entry"].split()[0]).name for repo in HOOKS for hook in repo["hooks"]} == tools
