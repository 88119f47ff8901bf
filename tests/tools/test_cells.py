"""The helpers with which cells check the output of tools."""

import pytest

from tests.tools.cells import complaints, contains

LOGGED = """\
2026-01-02 03:04:05,678 INFO all is well (org.apache.kafka.Tool)
2026-01-02 03:04:05,679 WARN a node cannot be reached (org.apache.kafka.clients.NetworkClient)
the WARN of another program
2026-01-02 03:04:05,680 ERROR it failed (org.apache.kafka.Tool)
"""


def test_warnings_and_errors_of_the_log_are_complaints() -> None:
    assert [line.split()[2] for line in complaints(LOGGED)] == ["WARN", "ERROR"]


def test_spaces_and_tabs_do_not_matter() -> None:
    contains("Topic: a\tPartition: 0\n  Leader: 1", "a Partition: 0 Leader: 1")


def test_a_missing_part_is_named() -> None:
    with pytest.raises(AssertionError, match="Leader: 2"):
        contains("Leader: 1", "Leader: 2")
