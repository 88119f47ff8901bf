"""The positions of windows, terms and marks in the charts."""

from itertools import pairwise

import pytest

from replay.report.charts.axis import MOST_TICKS, Axis
from replay.report.charts.heat import CLASSES, heat
from replay.report.charts.lanes import mark_lanes, term_bars
from replay.report.charts.load import load
from tests.report.sample import BEGIN_MS, END_MS, Row, row, sample

HOUR = 3_600_000


def window(start_ms: int | None, end_ms: int | None) -> Row:
    return row("windows", start_ms=start_ms, end_ms=end_ms)


@pytest.mark.parametrize("length_ms", [0, 3, 1_000, 61_000, HOUR, 26 * HOUR, 24 * 40 * HOUR, 24 * 9_000 * HOUR])
def test_an_axis_has_a_few_round_moments_of_which_none_is_outside(length_ms: int) -> None:
    axis = Axis.over(BEGIN_MS + 17, BEGIN_MS + 17 + length_ms)

    ticks = axis.ticks()

    assert 0 < len(ticks) <= MOST_TICKS + 1
    assert all(0 <= tick.x <= 100 for tick in ticks)
    assert all(before.x < after.x for before, after in pairwise(ticks))


def test_labels_are_as_precise_as_the_axis() -> None:
    assert [tick.label for tick in Axis(BEGIN_MS, BEGIN_MS + 2 * HOUR).ticks()][:2] == ["03:00", "03:30"]
    assert [tick.label for tick in Axis(BEGIN_MS, BEGIN_MS + 4_000).ticks()][1] == "02:40:01"
    assert [tick.label for tick in Axis(BEGIN_MS, BEGIN_MS + 400).ticks()][1] == "02:40:00.100"
    assert "2026-02-01" in [tick.label for tick in Axis(BEGIN_MS, BEGIN_MS + 48 * HOUR).ticks()]


def test_moments_beyond_the_calendar_are_numbers_on_the_axis() -> None:
    assert all(tick.label.endswith(" ms") for tick in Axis(10**17, 10**17 + 5_000).ticks())


def test_the_load_counts_how_many_windows_are_open_at_once() -> None:
    shown = load([window(0, 50), window(20, 60), window(55, None)], Axis(0, 100), columns=10)

    assert shown.most == 2
    assert [(c.x, c.width, c.most) for c in shown.columns] == [(0, 20, 1), (20, 40, 2), (60, 40, 1)]


def test_a_window_that_began_before_the_axis_is_open_at_its_start() -> None:
    assert [c.most for c in load([window(None, 10)], Axis(0, 100), columns=10).columns] == [1]


def test_a_window_without_a_length_is_still_seen() -> None:
    assert load([window(40, 40)], Axis(0, 100), columns=10).most == 1


def test_windows_one_after_the_other_are_not_two_at_once() -> None:
    assert load([window(0, 50), window(50, 100)], Axis(0, 100), columns=10).most == 1


def test_a_term_without_an_end_ends_where_the_next_begins() -> None:
    terms = [row("terms", epoch=1, node=1, begin_ms=0), row("terms", epoch=2, node=2, begin_ms=40, ready_ms=55)]

    first, second = term_bars(terms, Axis(0, 100))

    assert (first.x, first.width, second.x, second.width) == (0, 40, 40, 60)
    assert second.ready == 25
    assert second.label == "epoch 2 · node 2"
    assert "end not seen" in first.title


def test_records_at_about_the_same_moment_share_a_mark_that_counts_them() -> None:
    tables = {
        "timeline": [
            row("timeline", kind="brokers", ts_ms=BEGIN_MS + n, text=f"broker {n} is gone", seq=n) for n in range(5)
        ]
    }

    (lane,) = mark_lanes(tables, Axis(BEGIN_MS, END_MS))
    (mark,) = lane.marks

    assert (lane.label, lane.total, mark.times) == ("Brokers", 5, 5)
    assert mark.title.splitlines()[-1] == "and 2 more"


def test_every_kind_of_the_timeline_has_a_lane() -> None:
    tables = sample()
    tables["timeline"].append(row("timeline", kind="config", ts_ms=BEGIN_MS + 1, text="configuration in effect", seq=1))

    lanes = {lane.label: lane.total for lane in mark_lanes(tables, Axis(BEGIN_MS, END_MS))}

    assert lanes == {"Brokers": 3, "Sessions": 1, "Alarms": 1, "Log and znodes": 2, "Other": 1, "Invariants": 3}


def test_the_worst_topic_is_the_first_row_of_the_heat_map() -> None:
    rows = [
        row("heat", topic="a", bucket_ms=0, width_ms=1000, lost_us=10),
        row("heat", topic="b", bucket_ms=0, width_ms=1000, lost_us=1_000),
        row("heat", topic="b", bucket_ms=2000, width_ms=1000, lost_us=300),
    ]

    shown = heat(rows)

    assert shown is not None
    assert [(strip.topic, strip.total) for strip in shown.strips] == [("b", "1.3 ms"), ("a", "10 µs")]
    assert [cell.step for cell in shown.strips[0].cells] == [CLASSES, CLASSES - 1]
    assert shown.limits[-1] == "1 ms"


def test_without_loss_there_is_no_heat_map() -> None:
    assert heat([]) is None
    assert heat([row("heat", topic="a", bucket_ms=0, width_ms=1000, lost_us=0)]) is None
