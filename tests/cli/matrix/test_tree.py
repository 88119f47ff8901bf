"""The table of commands is the tree of commands: none may be added without saying how it behaves."""

from collections.abc import Iterator

import typer

from cli.app import application
from cli.exit_codes import ExitCode
from tests.cli.matrix.table import NO_DAEMON, ROWS
from tests.cli.matrix.troubles import COMMON, OF_CHANGES, OF_DAEMONS


def leaves(command: object, path: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command below this one, by the words that call it."""
    below = getattr(command, "commands", None)
    if below is None:
        yield " ".join(path)
        return
    for name, inner in below.items():
        yield from leaves(inner, (*path, name))


def test_every_command_is_in_the_table_and_nothing_else_is() -> None:
    assert sorted(leaves(typer.main.get_command(application()))) == sorted(ROWS)


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
