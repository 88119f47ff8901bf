"""The table of commands is the tree of commands: none may be added without saying how it behaves."""

from collections.abc import Iterator
from typing import Any

import pytest
import typer

from cli.app import application
from cli.arguments import LARGEST_ID
from cli.exit_codes import ExitCode
from tests.cli.documents import run
from tests.cli.matrix.clusters import ServedCluster
from tests.cli.matrix.table import NO_DAEMON, ROWS
from tests.cli.matrix.troubles import COMMON, OF_CHANGES, OF_DAEMONS


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command below this one, with the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path), command
        return
    for name, inner in below.items():
        yield from leaves(inner, (*path, name))


COMMANDS = dict(leaves(typer.main.get_command(application())))
TAKING_A_BROKER_ID = [
    (name, *(parameter.opts[:1] if parameter.param_type_name == "option" else ()))
    for name, command in COMMANDS.items()
    for parameter in command.params
    if parameter.metavar == "ID"
]


def test_every_command_is_in_the_table_and_nothing_else_is() -> None:
    assert sorted(COMMANDS) == sorted(ROWS)


@pytest.mark.parametrize("words", TAKING_A_BROKER_ID, ids=" ".join)
def test_too_large_a_broker_id_is_wrong_usage(shown: dict[str, ServedCluster], words: tuple[str, ...]) -> None:
    outcome = run(*" ".join(words).split(), "99999999999", "--api", shown["active"].url)

    assert (outcome.code, str(LARGEST_ID) in outcome.err) == (ExitCode.USAGE, True), outcome.err


def test_every_row_of_the_table_calls_its_own_command() -> None:
    wrong = {name: row.words for name, row in ROWS.items() if not f"{row.words} ".startswith(f"{name} ")}
    named = {
        name: words for name, row in ROWS.items() for words in row.ends.values() if f" {name} " not in f" {words} "
    }

    assert (wrong, named) == ({}, {})


def test_every_exit_code_is_produced_by_some_row() -> None:
    provoked = {code for row in ROWS.values() for code in (row.code, *row.ends)}

    assert provoked | COMMON.keys() | OF_DAEMONS.keys() | OF_CHANGES.keys() == set(ExitCode)


def test_commands_that_change_a_cluster_ask_its_daemon() -> None:
    assert [name for name, row in ROWS.items() if row.changes and row.on == NO_DAEMON] == []
