"""Moments, durations and counts as people read them."""

import pytest

from replay.report.text import at_command, count, duration, joined, moment, sign, unbroken


@pytest.mark.parametrize(
    ("us", "shown"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (1_000, "1 ms"),
        (1_240, "1.24 ms"),
        (15_900, "15.9 ms"),
        (250_000, "250 ms"),
        (63_204_000, "63.2 s"),
        (119_000_000, "119 s"),
        (252_000_000, "4 min 12 s"),
        (11_100_000_000, "3 h 05 min"),
        (187_200_000_000, "2 d 4 h"),
        (-1_500_000, "-1.5 s"),
        (None, "still lasts"),
    ],
)
def test_a_duration_is_told_in_the_units_that_matter(us: int | None, shown: str) -> None:
    assert duration(us) == shown


def test_a_moment_is_iso_8601_in_utc() -> None:
    assert moment(1_769_829_247_123) == "2026-01-31T03:14:07.123Z"
    assert moment(-1) == "1969-12-31T23:59:59.999Z"
    assert moment(None) == "\u2013"


def test_a_moment_that_no_calendar_has_stays_a_number() -> None:
    assert moment(10**18) == f"{10**18} ms"


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
def test_a_bound_says_on_which_side_the_truth_is(start: str | None, end: str | None, shown: str) -> None:
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
