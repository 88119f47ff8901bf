"""An answer as text, as a terminal and the dashboard show it, and the phrases in it."""

import re

from controllerd.core.text import counted
from controllerd.explain.answers import Cause, Why, clock, error_name, ids, lines, some, span


def answer(**given: object) -> Why:
    parts: dict[str, object] = {
        "subject": "payments-7",
        "condition": "offline",
        "severity": "critical",
        "headline": "payments-7 is OFFLINE",
        "since": None,
        "causes": [],
        "facts": [],
        "next": [],
    }
    return Why(**(parts | given))  # type: ignore[arg-type]


def test_control_characters_in_names_do_not_reach_the_terminal() -> None:
    assert lines(answer(headline="a\x1b[2J does not exist", facts=["b\nnext: c"])) == [
        r"a\x1b[2J does not exist",
        r"  b\nnext: c",
    ]


def test_the_parts_have_a_fixed_order() -> None:
    why = answer(
        causes=[Cause(code="broker-gone", sentence="broker 5 left")],
        facts=["replicas 5"],
        next=["bring broker 5 back, or:", "controllerctl get brokers"],
        others=["payments-8 offline"],
    )

    assert lines(why) == [
        "payments-7 is OFFLINE",
        "  replicas 5",
        "  broker 5 left",
        "  - payments-8 offline",
        "next: bring broker 5 back, or:",
        "      controllerctl get brokers",
    ]


def test_a_healthy_partition_has_no_next_steps() -> None:
    assert lines(answer(headline="payments-7 is healthy")) == ["payments-7 is healthy"]


def test_durations_are_short() -> None:
    assert [span(seconds) for seconds in (-1, 0.4, 59, 60, 252, 3_600, 90_061)] == [
        "0s",
        "0s",
        "59s",
        "1m0s",
        "4m12s",
        "1h0m",
        "1d1h",
    ]


def test_a_time_of_another_day_has_its_date() -> None:
    now = 1_700_042_400_000

    assert clock(now - 1_000, now) == "09:59:59Z"
    assert clock(now - 86_400_000, now) == "2023-11-14 10:00:00Z"


def test_lists_and_numbers_read_well() -> None:
    assert (ids([3, 5]), ids([])) == ("3,5", "none")
    assert (counted(1, "event"), counted(2, "event"), counted(0, "event")) == ("1 event", "2 events", "0 events")
    assert some(["a", "b", "c"], 2) == "a, b and 1 more"
    assert (error_name(56), error_name(777)) == ("KAFKA_STORAGE_ERROR", "error 777")
    assert re.fullmatch(r"\d\d:\d\d:\d\dZ", clock(0, 0))
