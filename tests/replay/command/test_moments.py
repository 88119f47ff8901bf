"""Moments as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.command.moments import BadMoment, duration, moment, parse_moment


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-31T03:14:00Z",
        "2026-01-31T03:14:00",
        "2026-01-31 03:14:00.000",
        "2026-01-31T04:14:00+01:00",
        "1769829240000",
    ],
)
def test_every_way_to_write_a_moment_is_the_same_moment(text: str) -> None:
    assert moment(parse_moment(text)) == "2026-01-31T03:14:00.000Z"


@pytest.mark.parametrize(
    "text", ["yesterday", "", "03:14", "2026-13-01", "17698292", "9" * 15, "0001-01-01T00:00+05:00"]
)
def test_what_is_no_moment_is_refused_with_one_that_is(text: str) -> None:
    with pytest.raises(BadMoment, match="write 2026-01-31T03:14:00Z"):
        parse_moment(text)


@given(st.integers(0, 2**42))
def test_what_is_written_reads_back(ts_ms: int) -> None:
    assert parse_moment(moment(ts_ms)) == ts_ms


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 ms"),
        (2_891, "2.89 ms"),
        (747_000, "747 ms"),
        (64_800_000, "64.8 s"),
        (252_000_000, "4m12s"),
        (7_500_000_000, "2h05m"),
    ],
)
def test_durations_are_told_at_a_glance(us: int, text: str) -> None:
    assert duration(us) == text
