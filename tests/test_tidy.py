"""House rules that no linter knows, so that a review never has to mention them."""

import ast
import configparser
import io
import os
import re
import subprocess
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
TOP_LEVEL: Final = ("controllerd", "events", "handlers", "channel_manager", "wire", "broker", "replay", "cli")
MAX_FUNCTION_LINES: Final = 50
MAX_MODULE_LINES: Final = 400
# The supervisors: what escapes a handler or a connection is decided there, and nowhere else.
MAY_CATCH_ALL: Final = frozenset({"controllerd/loop.py", "events/queue.py", "channel_manager/sender.py"})
PURE: Final = (
    "controllerd.core",
    "controllerd.record",
    "controllerd.views",
    "controllerd.explain",
    "controllerd.planning",
    "events",
    "channel_manager.batch",
    "replay.facts",
    "replay.sql",
)

GENERATED: Final = re.compile(r"^(?:\.(?!ci$).*|__pycache__|build|dist|.*\.egg-info)$")
UNFINISHED: Final = re.compile(r"\b(?:TODO|FIXME|XXX)\b")
# Folders that belong to one machine or one person.
MACHINE_PATH: Final = re.compile(r"(?<![\w.*/-])/(?:root|tmp|home|work|Users)(?=[/\"'`\s]|$)")
REGISTRY: Final = re.compile(
    r"pypi\.(?:org|python\.org)|pythonhosted\.org|repo\d?\.maven|maven\.apache\.org/maven2|anaconda\.org|conda\.io"
    r"|artifactory|jfrog|nexus\.|PIP_INDEX_URL|--(?:extra-)?index-url|--find-links|--trusted-host",
    re.IGNORECASE,
)

# Sources of sealed tests keep their words until those tests are run again on real brokers.
SEALED: Final = ("tests/tools/",)
RETIRED_NAMES: Final = frozenset(
    {
        *("breathe", "buried", "bury", "debt", "debts", "everybody", "forgive", "forgiven", "heard", "heir", "heirs"),
        *("invaded", "nobody", "owed", "owes", "pace", "paced", "picture", "pictures", "rehearsal", "somebody"),
        *("stranger", "strangers", "those", "told", "unheard", "whoever", "wish", "wishes"),
    }
)
PARTS_OF_A_NAME: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z]+")
RETIRED_PHRASES: Final = re.compile(
    r"\b(?:everybody|nobody|somebody|whoever|debts?|owed|owes|heirs?|strangers?|buried|bury|breathes?|told|lest"
    r"|wish(?:es)?|hears? of|heard of|hear from|heard from|in work|of late|for want of|the term is over"
    r"|pictures? of the cluster|(?:our|the) picture)\b",
    re.IGNORECASE,
)
# ``Those that ...`` or ``What ...`` leaves the reader to guess the subject.
BARE_PRONOUN: Final = re.compile(
    r"(?:Those|Whoever|Whatever|Whichever|What|Who|That|They|It|Nobody|Somebody|Everybody)\b"
    r"|(?:This|These) (?:is|are|was|were|has|have|may|must|can|does|do)\b"
)


def tracked() -> list[Path]:
    """Every text file of the project: what git knows or would add, or all of an unpacked archive."""
    if (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted(path for path in (ROOT / name for name in names if name) if path.is_file())
    return sorted(walk(ROOT))


def walk(folder: Path) -> Iterator[Path]:
    """The files below a folder, without caches, builds and virtual environments."""
    for current, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not GENERATED.search(name))
        yield from (Path(current, name) for name in files)


def relative(path: Path) -> str:
    """The path as the project names it."""
    return path.relative_to(ROOT).as_posix()


def lines_that_match(pattern: re.Pattern[str]) -> list[str]:
    """Each place in a tracked text file where the pattern occurs, this file's own patterns aside."""
    found = []
    for path in tracked():
        content = path.read_bytes()
        if path == Path(__file__).resolve() or b"\0" in content:  # images have no words
            continue
        lines = enumerate(content.decode(errors="replace").splitlines(), 1)
        found += [f"{relative(path)}:{n}: {line.strip()[:120]}" for n, line in lines if pattern.search(line)]
    return found


def shipped_modules() -> dict[str, Path]:
    """The modules of the top-level packages by dotted name; packages themselves by their ``__init__``."""
    found = {}
    for path in tracked():
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in TOP_LEVEL:
            found[relative(path).removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = path
    return found


SHIPPED: Final = shipped_modules()
TESTS: Final = [path for path in tracked() if path.suffix == ".py" and path.is_relative_to(ROOT / "tests")]
LAW: Final = configparser.ConfigParser()
LAW.read(ROOT / ".importlinter")


@pytest.fixture(scope="module")
def shipped() -> dict[str, ast.Module]:
    """The syntax trees of the shipped modules by path; parsing takes too long for a collection of tests."""
    return {relative(path): ast.parse(path.read_text()) for path in SHIPPED.values()}


@pytest.fixture(scope="module")
def tests() -> dict[str, ast.Module]:
    """The syntax trees of the tests by path."""
    return {relative(path): ast.parse(path.read_text()) for path in TESTS}


def test_the_tree_was_found() -> None:
    assert {name.partition(".")[0] for name in SHIPPED} == set(TOP_LEVEL)


def test_every_function_is_short(shipped: dict[str, ast.Module]) -> None:
    long = [
        f"{name}:{node.lineno} {node.name} has {length} lines"
        for name, tree in shipped.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    ]

    assert long == []


def test_every_module_is_short() -> None:
    sizes = {relative(path): len(path.read_text().splitlines()) for path in SHIPPED.values()}

    assert {name: size for name, size in sizes.items() if size > MAX_MODULE_LINES} == {}


def test_every_module_says_why_it_exists(shipped: dict[str, ast.Module]) -> None:
    silent = [name for name, tree in shipped.items() if tree.body and ast.get_docstring(tree) is None]

    assert silent == []


def test_every_package_init_is_empty() -> None:
    assert [relative(p) for p in tracked() if p.name == "__init__.py" and p.stat().st_size] == []


def catches_all(handler: ast.expr | None) -> bool:
    """Whether an except clause, or one of its alternatives, takes whatever comes."""
    if isinstance(handler, ast.Tuple):
        return any(catches_all(element) for element in handler.elts)
    return handler is None or (isinstance(handler, ast.Name) and handler.id in {"Exception", "BaseException"})


def test_only_the_supervisors_catch_every_exception(shipped: dict[str, ast.Module]) -> None:
    broad = [
        f"{name}:{node.lineno}"
        for name, tree in shipped.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and catches_all(node.type) and name not in MAY_CATCH_ALL
    ]

    assert broad == []


def test_nothing_is_suppressed_wholesale(shipped: dict[str, ast.Module], tests: dict[str, ast.Module]) -> None:
    suppressed = [
        f"{name}:{node.lineno}"
        for name, tree in (shipped | tests).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and "suppress" in names_of(node.func) and any(map(catches_all, node.args))
    ]

    assert suppressed == []


def test_no_test_replaces_code_by_a_mock(tests: dict[str, ast.Module]) -> None:
    forbidden = {"Mock", "MagicMock", "AsyncMock", "NonCallableMock", "patch", "mocker"}
    mocked = {
        name: sorted(found)
        for name, tree in tests.items()
        if (found := forbidden & {used for node in ast.walk(tree) for used in names_of(node)})
    }

    assert mocked == {}


def names_of(node: ast.AST) -> set[str]:
    """The names that a node uses, imports or takes as a parameter."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            return {name}
        case ast.ImportFrom(names=aliases) | ast.Import(names=aliases):
            return {part for alias in aliases for part in alias.name.split(".")}
        case _:
            return set()


def test_nothing_is_left_for_later() -> None:
    assert lines_that_match(UNFINISHED) == []


def test_no_file_names_a_folder_of_one_machine() -> None:
    assert lines_that_match(MACHINE_PATH) == []


def test_no_file_names_a_package_registry() -> None:
    # The Makefile hands pip-compile the switches that keep such names out of the lock.
    found = [line for line in lines_that_match(REGISTRY) if not (line.startswith("Makefile:") and "--no-emit-" in line)]

    assert found == []


def test_the_changelog_has_an_unreleased_section() -> None:
    assert re.search(r"^## \[?Unreleased\]?", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def layered() -> set[str]:
    """Every name in the layers of the import law, parentheses removed."""
    rows = LAW["importlinter:contract:layers"]["layers"].split("\n")
    return {name.strip().strip("()") for row in rows for name in re.split(r"[|:]", row) if name.strip()}


def test_every_module_belongs_to_a_layer() -> None:
    layers = layered()
    outside = [
        name
        for name, path in SHIPPED.items()
        if path.stat().st_size and not any(name == layer or name.startswith(f"{layer}.") for layer in layers)
    ]

    assert outside == []


@pytest.mark.parametrize("name", PURE)
def test_every_pure_module_is_held_by_the_law(name: str) -> None:
    held = LAW["importlinter:contract:pure"]["source_modules"].split()

    assert name in held or name not in SHIPPED


# -- language ----------------------------------------------------------------------------------------------------------


@cache
def prose_of(path: Path) -> list[tuple[int, str]]:
    """The prose of a module, read once for all rules of language."""
    return list(read_prose(path))


def read_prose(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module by line; a docstring as one text, so that a phrase may be wrapped."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def names_in(path: Path) -> Iterator[tuple[int, str]]:
    """Every name of a module by line; nothing, at once, for a module without any retired word."""
    text = path.read_text()
    if not any(word in text.lower() for word in RETIRED_NAMES):
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def plain_modules() -> list[Path]:
    """Every Python file of the project, except the sealed ones and this file, which lists the words."""
    files = (path for path in tracked() if path.suffix == ".py" and path != Path(__file__).resolve())
    return [path for path in files if not relative(path).startswith(SEALED)]


def test_no_name_is_a_retired_word() -> None:
    retired = [
        f"{relative(path)}:{line}: {name}"
        for path in plain_modules()
        for line, name in names_in(path)
        if RETIRED_NAMES.intersection(part.lower() for part in PARTS_OF_A_NAME.findall(name))
    ]

    assert retired == []


def test_no_sentence_has_a_retired_phrase() -> None:
    retired = [
        f"{relative(path)}:{line}: {found[0]}"
        for path in plain_modules()
        for line, text in prose_of(path)
        if (found := RETIRED_PHRASES.search(text))
    ]

    assert retired == []


def test_no_docstring_begins_with_a_bare_pronoun() -> None:
    bare = [
        f"{relative(path)}:{line}: {text[:60]}"
        for path in plain_modules()
        for line, text in prose_of(path)
        if BARE_PRONOUN.match(text)
    ]

    assert bare == []
