"""Every command and its flags are completed, asked in the words of the scripts for bash and zsh."""

import re

import pytest

from tests.cli.documents import run
from tests.cli.matrix.calling import NO_SERVER
from tests.cli.matrix.table import ROWS

SHELLS = ("bash", "zsh")


def completed(monkeypatch: pytest.MonkeyPatch, shell: str, words: list[str]) -> set[str]:
    """The completions of the last of these words."""
    typed = " ".join(["controllerctl", *words])
    monkeypatch.setenv("_CONTROLLERCTL_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", typed)
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    monkeypatch.setenv("CONTROLLERCTL_API", NO_SERVER)
    return set(re.findall(r"(?:^|\")(-{0,2}[a-z][a-z-]*)(?=$|\":)", run().out, re.MULTILINE))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", ROWS)
def test_the_last_word_of_a_command_is_completed(monkeypatch: pytest.MonkeyPatch, command: str, shell: str) -> None:
    *before, last = command.split()

    assert last in completed(monkeypatch, shell, [*before, last[:-1]])


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", ROWS)
def test_the_flags_of_a_command_are_completed(monkeypatch: pytest.MonkeyPatch, command: str, shell: str) -> None:
    _, _, options = run(*command.split(), "--help").out.partition("Options:")
    flags = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", options, re.MULTILINE)) - {"--help"}

    offered = completed(monkeypatch, shell, [*command.split(), "--"])

    assert flags <= offered
