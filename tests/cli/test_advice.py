"""Advice can be typed as it is printed: every command that the daemon or ``doctor`` names exists."""

import ast
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.documents import run

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("controllerd/explain", "controllerd/status/dashboard", "cli", "tests/explain")
NO_SERVER = "http://127.0.0.1:1"
_COMMAND = re.compile(r"controllerctl (?!is |and |status,)([a-z-][^·;`\n]*)")
# The words of the sentence after the command.
_PROSE = re.compile(r" (?:shows|says|tells?|names?|lists?|what|and|on|or|on the|does|reads)\b.*|[,:.)]( .*)?$|·.*")


def texts(source: Path) -> Iterator[str]:
    """Every text of a module but its docstrings; placeholders are replaced by 7."""
    tree = ast.parse(source.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside | documentation:
            yield re.sub(r"\{\w+\}", "7", node.value)


def advised() -> set[str]:
    """The commands, without the sentence around them; patterns that look for one are none."""
    found = set()
    for folder in SOURCES:
        for source in (ROOT / folder).rglob("*.py"):
            for text in texts(source):
                found |= {_PROSE.sub("", match).strip() for match in _COMMAND.findall(text)}
    return {command.replace("elect 7", "elect preferred") for command in found if command and "\\" not in command}


COMMANDS = sorted(advised())


def test_there_is_advice() -> None:
    assert {"get queue", "doctor", "elect preferred --topic 7 --partition 7", "reassign cancel 7"} <= set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_advice_names_an_existing_command(command: str) -> None:
    words = ["7-7" if word == "7" and "cancel" in command else word for word in shlex.split(command)]

    outcome = run(*words, "--api", NO_SERVER, "--timeout", "200ms", "--yes")

    assert "Usage:" not in outcome.err, outcome.err
    assert outcome.code != 70


def examples_by_command() -> Iterator[tuple[str, list[str]]]:
    """Every command, with the examples in its help."""
    from typer.main import get_command

    from cli.app import application

    groups = [("", get_command(application()))]
    while groups:
        path, group = groups.pop()
        for name, command in getattr(group, "commands", {}).items():
            words = f"{path} {name}".strip()
            groups.append((words, command))
            _, _, given = (command.help or "").partition("Examples: ")
            if not hasattr(command, "commands"):
                yield words, [" ".join(one.split()) for one in given.split("·")]


def examples() -> Iterator[str]:
    """Every example without the name of the program."""
    for _, given in examples_by_command():
        yield from (one.removeprefix("controllerctl ") for one in given)


EXAMPLES = sorted(
    one for one in examples() if one and not re.search(r">|<\(|-w\b|--watch|--follow|replay run|ingest", one)
)


@pytest.mark.parametrize("command", EXAMPLES)
def test_every_example_of_the_help_can_be_typed(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())

    outcome = run(*shlex.split(command), "--api", NO_SERVER, "--timeout", "200ms")

    assert "Usage:" not in outcome.err, outcome.err
    assert outcome.code != 70


def test_every_command_has_two_examples() -> None:
    commands = dict(examples_by_command())
    of_itself = {
        command: [one for one in given if f"controllerctl {command}" in one] for command, given in commands.items()
    }

    assert {"status", "reassign plan", "get queue", "replay run"} <= commands.keys()
    assert {command: given for command, given in of_itself.items() if len(given) < 2} == {}
