"""Counts, names and commands as the report prints them."""

import pytest

from replay.report.values import at_command, count, joined, sign, unbroken


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        (None, None, ""),
        ("not after", None, "≥"),
        (None, "not before", "≥"),
        ("not before", None, "≤"),
        (None, "not after", "≤"),
        ("not after", "not before", "≥"),
        ("not before", "not before", "≈"),
    ],
)
def test_the_sign_of_a_duration_follows_from_its_bounds(start: str | None, end: str | None, shown: str) -> None:
    assert sign(start, end) == shown


def test_counts_and_lists_read_as_prose() -> None:
    assert [count(1, "partition"), count(1234, "partition")] == ["1 partition", "1,234 partitions"]
    assert [joined([]), joined(["a"]), joined(["a", "b"]), joined(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert unbroken("up to 4 min 12 s") == "up to 4\u00a0min 12\u00a0s"


def test_a_command_can_be_pasted_whatever_the_folder_is_called() -> None:
    assert at_command(0, ["a; rm b"]) == "controllerctl replay at --time 1970-01-01T00:00:00.000Z 'a; rm b'"
