"""The report: medians, the figures of the built-in controller beside them, verdicts, growth."""

import io
import json
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.table import Table

from bench import layout, report
from bench.__main__ import arguments_of, stories
from bench.analyse import Result
from bench.baseline import built_in
from bench.profile import profile_of


def w3(seconds: float, partitions: int = 100_000, requests: float = 15) -> Result:
    """The result of a failover load."""
    return Result("W3", partitions, "none", {"ready_s": seconds, "requests": requests})


def verdicts(results: Sequence[Result]) -> dict[str, str]:
    """By metric, at 100,000 partitions."""
    return {line.row.metric: line.verdict for line in report.lines(results, 100_000, 100)}


def printed(table: Table) -> str:
    """The table as text."""
    console = Console(file=io.StringIO(), width=160)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_median_of_the_repetitions_is_compared_with_the_target() -> None:
    assert verdicts([w3(1.0), w3(1.3), w3(9.0)])["ready_s"] == "PASS"
    assert verdicts([w3(1.0), w3(1.6), w3(1.7)])["ready_s"] == "MISS"


def test_the_printed_figure_is_compared_with_the_target() -> None:
    assert verdicts([w3(1.404)])["ready_s"] == "PASS"


def test_more_requests_than_the_built_in_controller_sends_are_a_miss_at_any_size() -> None:
    (line,) = [line for line in report.lines([w3(1.0, 2_000, 16)], 2_000, 100) if line.row.metric == "requests"]

    assert (line.peer, line.verdict) == (15, "MISS")


def test_a_count_that_is_not_allowed_is_a_failure_and_a_time_is_not() -> None:
    assert report.costs_too_much(report.lines([w3(1.0, requests=16)], 100_000, 100))
    assert not report.costs_too_much(report.lines([w3(9.0)], 100_000, 100))


def test_other_sizes_have_no_target() -> None:
    (line,) = [line for line in report.lines([w3(99.0, 10_000)], 10_000, 100) if line.row.metric == "ready_s"]

    assert (line.peer, line.target, line.verdict) == (3.17, None, "")


def test_counts_of_the_built_in_controller_scale_with_the_size() -> None:
    assert built_in("W1", "zk_transactions", 100_000, 100) == 60_001
    assert built_in("W1", "entries_um", 10_000, 100) == 32_000
    assert built_in("W6", "zk_transactions", 50_000, 100) == 20_102
    assert built_in("W3", "ready_s", 2_000, 100) is None


def test_the_table_shows_both_controllers_and_the_verdict() -> None:
    text = printed(report.table_of(report.lines([w3(2.0)], 100_000, 100), 100_000))

    assert [
        cell.strip() for cell in next(line for line in text.splitlines() if "last stub" in line).split("│")[3:8]
    ] == [
        "2.00",
        "2.00 - 2.00",
        "14.36",
        "1.40",
        "MISS",
    ]


def test_growth_is_printed_as_a_power_of_the_size() -> None:
    results = [w3(0.1, 10_000), w3(0.5, 50_000), w3(1.0, 100_000)]

    powers = {metric: round(power, 3) for _, metric, _, power in report.linearity_of(results)}

    assert powers == {"ready_s": 1.0, "requests": 0.0}


def test_runs_with_a_slow_stub_are_kept_apart() -> None:
    slow = Result("W3", 100_000, "slow", {"ready_s": 7.0, "last_request_s": 7.0})

    assert verdicts([w3(1.0), slow])["ready_s"] == "PASS"
    assert "7.00" in printed(report.slow_table([w3(1.0), slow], 100_000))


def test_the_result_file_holds_every_point_and_the_machine() -> None:
    results = [w3(1.0), w3(1.25)]

    content = json.loads(report.as_json(results, {100_000: report.lines(results, 100_000, 100)}, (0.1, 0.2, 0.3)))

    assert [point["ready_s"] for point in content["points"]] == [1.0, 1.25]
    assert {"python", "processors", "git"} <= content["machine"].keys()


@pytest.mark.parametrize(
    ("workloads", "runs"),
    [
        (["W3"], [("W3",)]),
        (["W1", "W3"], [("W3", "W1")]),
        (["W1", "W2", "W5"], [("W3", "W1", "W2"), ("W3", "W5")]),
        (["W12"], [("W3", "W1")] * 3),
    ],
)
def test_each_run_begins_with_a_fresh_process(workloads: list[str], runs: list[tuple[str, ...]]) -> None:
    assert [performed for performed, _ in stories(workloads)] == runs


def test_sizes_are_whole_topics() -> None:
    with pytest.raises(SystemExit):
        arguments_of(["--partitions", "150"])


def test_a_profile_leaves_out_the_time_in_the_selector() -> None:
    stacks = [
        (["python3.11/selectors.py:EpollSelector.select", "run"], 60),
        (["b", "a", "run"], 30),
        (["a", "run"], 10),
    ]

    profile = profile_of("W3", stacks)

    assert (profile.total_ns, profile.idle_ns) == (100, 60)
    assert profile.own == {"b": 30, "a": 10}
    assert profile.within == {"run": 40, "a": 40, "b": 30}


def test_every_broker_leads_and_follows_the_same_number() -> None:
    placed = [layout.replicas(p) for p in range(layout.TOPIC_PARTITIONS)]

    assert all(len(set(replicas)) == layout.REPLICATION for replicas in placed)
    for broker in range(1, layout.BROKERS + 1):
        assert sum(replicas[0] == broker for replicas in placed) == 20
        assert sum(broker in replicas for replicas in placed) == 60
    assert {replicas[1] for replicas in placed if replicas[0] == 1} == {2, 3, 4, 5}
