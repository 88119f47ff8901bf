"""Moments: zones, the hour that comes twice, the hour that never comes, formats with and without a zone."""

import re
from datetime import UTC, datetime

import pytest

from replay.facts.engine import ReplayError
from replay.ingest.kafka.timestamps import LogClock, date_format


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def read(*texts: str, zone: str = "UTC", pattern: str = "") -> list[int]:
    clock = LogClock(date_format(pattern), zone)
    return [clock.milliseconds(text) for text in texts]


def test_a_date_is_read_to_the_millisecond() -> None:
    assert read("2026-01-31 03:14:15,926", "2026-01-31 03:14:59.001") == [
        utc("2026-01-31T03:14:15.926"),
        utc("2026-01-31T03:14:59.001"),
    ]


def test_local_time_is_read_in_its_zone_in_winter_and_in_summer() -> None:
    assert read("2026-01-31 03:14:15,926", "2026-07-31 03:14:15,926", zone="Europe/Berlin") == [
        utc("2026-01-31T02:14:15.926"),
        utc("2026-07-31T01:14:15.926"),
    ]


def test_the_repeated_hour_is_recognised_by_the_clock_that_goes_back() -> None:
    lines = ("2026-10-25 02:10:00,000", "2026-10-25 02:59:59,000", "2026-10-25 02:00:00,500", "2026-10-25 02:59:00,000")

    assert read(*lines, "2026-10-25 03:00:00,000", zone="Europe/Berlin") == [
        utc("2026-10-25T00:10:00"),
        utc("2026-10-25T00:59:59"),
        utc("2026-10-25T01:00:00.500"),
        utc("2026-10-25T01:59:00"),
        utc("2026-10-25T02:00:00"),
    ]


def test_lines_out_of_order_by_milliseconds_do_not_repeat_the_hour() -> None:
    lines = ("2026-10-25 02:10:00,010", "2026-10-25 02:10:00,003")

    assert read(*lines, zone="Europe/Berlin") == [utc("2026-10-25T00:10:00.010"), utc("2026-10-25T00:10:00.003")]


def test_the_skipped_hour_is_read_with_the_old_offset() -> None:
    assert read("2026-03-29 02:30:00,000", "2026-03-29 03:30:00,000", zone="Europe/Berlin") == [
        utc("2026-03-29T01:30:00"),
        utc("2026-03-29T01:30:00"),
    ]


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-01-31T04:14:15.926+01:00"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSZ", "2026-01-31T04:14:15.926+0100"),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSX", "2026-01-31T03:14:15.926Z"),
        ("DATE", "30 Jan 2026 22:14:15,926"),
        ("yyyy/MM/dd HH:mm:ss.SSS", "2026/01/30 22:14:15.926"),
        ("UNIX_MILLIS", "1769829255926"),
    ],
)
def test_other_formats_are_read_and_a_zone_in_the_line_counts(pattern: str, text: str) -> None:
    assert read(text, zone="America/New_York", pattern=pattern) == [utc("2026-01-31T03:14:15.926")]


def test_the_repeated_hour_is_recognised_in_other_formats_too() -> None:
    lines = ("2026/10/25 02:59:59", "2026/10/25 02:00:00")

    assert read(*lines, zone="Europe/Berlin", pattern="yyyy/MM/dd HH:mm:ss") == [
        utc("2026-10-25T00:59:59"),
        utc("2026-10-25T01:00:00"),
    ]


def test_a_zone_in_the_pattern_counts_and_not_the_option() -> None:
    clock = LogClock(date_format("ISO8601", "Asia/Tokyo"), "UTC")

    assert clock.milliseconds("2026-01-31 12:14:15,926") == utc("2026-01-31T03:14:15.926")


@pytest.mark.parametrize("zone", ["Mars/Olympus", "CET+1", "../etc"])
def test_an_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ReplayError, match=re.escape(f"time zone {zone!r} is not known: give one of the tz database")):
        LogClock(date_format(), zone)
