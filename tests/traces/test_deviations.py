"""The list of deliberate deviations: the page shows the list that the tests use, and it is no wider than the traces."""

from tests.traces.compare import Difference
from tests.traces.deviations import PAGE, declared, judge, table
from tests.traces.scenarios import SERVED, served


def test_the_page_shows_the_list_that_the_comparison_uses() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")


def test_every_deviation_names_lines_that_the_controller_wrote_or_sent_in_a_served_trace() -> None:
    for deviation in declared():
        for scenario, groups in deviation.lines.items():
            assert scenario in SERVED
            trace = served(scenario)
            sent = {line.number for broker in trace.brokers for line in trace.requests_to(broker)}
            written = sent | {line.number for line in trace.writes}
            assert {line for lines in groups for line in lines} <= written, f"{deviation.name}: {scenario}"


def test_an_undeclared_difference_is_wrong() -> None:
    (wrong,) = judge("C2", [Difference((4,), "write", "other data")])

    assert wrong.startswith("[write] line 4")


def test_a_declared_deviation_that_is_not_there_is_wrong() -> None:
    assert judge("T1", [Difference((5, 6, 7), "one transaction", "")]) == [
        "declared, but not so: compares the version in lines (4,)"
    ]


def test_a_declared_deviation_that_cannot_be_seen_is_not_missed() -> None:
    found = [Difference((5, 6, 7), "one transaction", "")]

    assert judge("T1", found, unseen=["compares the version"]) == []
