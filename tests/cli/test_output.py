"""Tables, whatever the cells hold."""

import pytest

from cli.output import print_facts, print_table
from cli.settings import CliSettings


def test_a_cell_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(CliSettings(), ["BROKER", "RACK"], [["1", "east\x1b]0;owned\x07\nBROKER"]])
    print_facts(CliSettings(), [("rack", "east\r\x9b2J")])

    assert capsys.readouterr().out.splitlines() == [
        "BROKER  RACK",
        r"1       east\x1b]0;owned\x07\nBROKER",
        r"rack  east\r\x9b2J",
    ]
