"""A fingerprint of a test and of its helpers: a recorded result is valid until one of them changes."""

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
HELPERS: Final = ("tests.real", "tests.releases", "controllerd.dev")
"""The packages whose modules operate the cluster of a test or check its results."""


RECORDERS: Final = ("tests.releases.gaps", "tests.releases.seen")
"""Modules that only record results; a change of them does not affect a result."""


def fingerprint(source: str, user: Path, root: Path = ROOT) -> str:
    """Return the fingerprint of a source in module ``user`` and of that module's helpers; layout does not count."""
    words = "".join("".join([source, *helpers(user, root).values()]).split())
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def constants(module: Path) -> str:
    """Return the source of the assignments of a module, such as its limits."""
    source = module.read_text("utf-8")
    nodes = (node for node in ast.parse(source).body if isinstance(node, ast.Assign | ast.AnnAssign))
    return "".join(ast.get_source_segment(source, node) or "" for node in nodes)


def helpers(user: Path, root: Path = ROOT) -> dict[str, str]:
    """Return the sources of the helper modules that a module imports, directly or indirectly, by module name."""
    found: dict[str, str] = {}
    waiting = [user.read_text("utf-8")]
    while waiting:
        for name in imported(waiting.pop()) - found.keys():
            if (file := root / f"{name.replace('.', '/')}.py").is_file():
                found[name] = file.read_text("utf-8")
                waiting.append(found[name])
    return dict(sorted(found.items()))


def imported(source: str) -> set[str]:
    """Return the names that a source imports from the helpers' packages: modules, and names that may be modules."""
    names = {name for name in _names(source) if any(name.startswith(f"{package}.") for package in HELPERS)}
    return names - set(RECORDERS)


def _names(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
