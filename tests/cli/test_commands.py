"""The table of commands: it lists each as its module would, and only the one that is called is imported."""

import pytest
import typer

from cli.app import COMMANDS, application, program
from tests.cli.documents import run
from tests.cli.running import modules_after

LISTED = typer.main.get_group(program()).commands
IMPORTED = typer.main.get_group(application()).commands
MODULES = {place.partition(":")[0] for place, _ in COMMANDS.values()}
OF_THE_FLAGS = {"cli.app", "cli.completion"}
"""For ``--version``, and for the values that flags complete."""
NO_SERVER = "http://127.0.0.1:1"


def test_the_commands_are_listed_in_the_order_that_they_have_when_all_are_imported() -> None:
    assert list(LISTED) == list(IMPORTED)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [45, 60, 200])
def test_a_command_is_listed_with_the_first_line_of_its_own_help(name: str, width: int) -> None:
    assert LISTED[name].get_short_help_str(width) == IMPORTED[name].get_short_help_str(width)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["--version", "status"], ["-o", "json", "--version"], ["stauts"], []]
)
def test_help_and_version_import_no_command(arguments: list[str]) -> None:
    assert (MODULES - OF_THE_FLAGS) & modules_after(*arguments) == set()


def test_completion_imports_no_command() -> None:
    loaded = modules_after(_CONTROLLERCTL_COMPLETE="complete_bash", COMP_WORDS="controllerctl re", COMP_CWORD="1")

    assert (MODULES - OF_THE_FLAGS) & loaded == set()


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["status", "--api", NO_SERVER], "cli.status"),
        (["--config", "/dev/null", "status", "--api", NO_SERVER], "cli.status"),
        (["get", "topics", "--help"], "cli.get"),
        (["drain", "stauts"], "cli.pauses"),
    ],
)
def test_a_command_is_imported_alone(arguments: list[str], module: str) -> None:
    assert (MODULES - OF_THE_FLAGS) & modules_after(*arguments) == {module}


def test_a_misspelt_command_is_answered_with_the_likely_one() -> None:
    outcome = run("stauts")

    assert "No such command 'stauts'. Did you mean 'status'?" in outcome.err
