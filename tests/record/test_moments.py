"""Moments and durations as people write and read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllerd.record.moments import BadMoment, duration, moment, parse_moment


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
def test_an_invalid_moment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadMoment, match="write 2026-01-31T03:14:00Z"):
        parse_moment(text)


@given(st.integers(0, 2**42))
def test_a_formatted_moment_is_parsed_back(ts_ms: int) -> None:
    assert parse_moment(moment(ts_ms)) == ts_ms


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
def test_a_duration_is_formatted_in_suitable_units(us: int | None, shown: str) -> None:
    assert duration(us) == shown


def test_a_moment_is_iso_8601_in_utc() -> None:
    assert moment(1_769_829_247_123) == "2026-01-31T03:14:07.123Z"
    assert moment(-1) == "1969-12-31T23:59:59.999Z"
    assert moment(None) == "\u2013"


def test_a_moment_outside_of_the_calendar_stays_a_number() -> None:
    assert moment(10**18) == f"{10**18} ms"
