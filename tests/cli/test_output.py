"""Tables, whatever the cells hold."""

import pytest

from cli.output import print_facts, print_table
from cli.settings import Settings


def test_a_cell_is_one_line_and_steers_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(Settings(), ["BROKER", "RACK"], [["1", "east\x1b]0;owned\x07\nBROKER"]])
    print_facts(Settings(), [("rack", "east\r\x9b2J")])

    assert capsys.readouterr().out.splitlines() == [
        "BROKER  RACK",
        r"1       east\x1b]0;owned\x07\nBROKER",
        r"rack  east\r\x9b2J",
    ]
