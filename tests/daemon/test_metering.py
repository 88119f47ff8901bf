"""The metrics that come from records, from handled events, and from the loop."""

import pytest

from controllerd.daemon.metering import EventStatistics, RecordMetrics, measuring_lag
from controllerd.record.records import EventBegin, EventEnd, Record, SnapshotBegin, SnapshotEnd, TermRecord
from controllerd.status.metrics.meters import EventMeters, Meters
from tests.channel_manager.stub_broker import eventually


class Clock:
    """A clock that advances by one second at each reading."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def begin(name: str = "Startup") -> EventBegin:
    return EventBegin(1, name, 1, 0.0)


def end(outcome: str = "done", name: str = "Startup") -> EventEnd:
    return EventEnd(1, name, outcome, 1.0)


def elected(change: str = "elected") -> TermRecord:
    return TermRecord(change, 7, 3, "us", "nobody had it")


def metered(*records: Record) -> Meters:
    """The meters after these records."""
    meters = Meters(Clock())
    RecordMetrics(meters).record(*(record for record in records if type(record) in RecordMetrics.takes))
    return meters


def failures(meters: Meters) -> dict[str, float]:
    """How many events of each name failed, of those that did."""
    samples = [sample for metric in meters.collect() for sample in metric.samples]
    return {s.labels["event"]: s.value for s in samples if s.name == "controllerd_event_failures_total" and s.value}


def test_each_phase_of_an_election_is_timed() -> None:
    meters = metered(begin(), elected(), SnapshotBegin(7), SnapshotEnd(3, 10, 100), end())

    assert list(meters.failover_phases) == ["election", "preparation", "loading", "bringing online"]
    assert set(meters.failover_phases.values()) == {1.0}


def test_an_event_that_wins_no_election_is_none() -> None:
    held = TermRecord("held", 0, 0, "broker 2", "it holds the role")

    assert metered(begin(), held, end()).failover_phases == {}


def test_an_election_that_failed_on_the_way_leaves_the_former_one() -> None:
    meters = metered(begin(), elected(), SnapshotBegin(7), end("unavailable"))

    assert meters.failover_phases == {}


def test_a_snapshot_in_the_middle_of_a_term_is_no_election() -> None:
    assert metered(SnapshotBegin(7, periodic=True), SnapshotEnd(3, 10, 100)).failover_phases == {}


def test_only_defects_count_as_failures() -> None:
    meters = metered(*(end(outcome, "TopicChange") for outcome in ("done", "refused", "error", "unavailable")))

    assert failures(meters) == {"TopicChange": 1}


def test_events_and_unclean_elections_are_counted() -> None:
    meters = EventMeters(lambda: 0.0)
    statistics = EventStatistics(meters)

    statistics.observe_event(1, "BrokerChange", 0.0, 0.1)
    statistics.count_unclean_elections(2)
    statistics.count_unclean_elections(1)

    assert (meters.timer(1).count, meters.unclean_elections) == (1, 3)


def test_a_slow_event_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    EventStatistics(EventMeters(lambda: 0.0), slow_s=0.5).observe_event(1, "BrokerChange", 0.25, 0.75)

    line = capsys.readouterr().out
    assert "handled slow event" in line
    assert "took_s=0.75" in line


async def test_the_lag_of_the_loop_is_measured_while_the_block_runs() -> None:
    meters = Meters()

    async with measuring_lag(meters):
        await eventually(lambda: measured(meters) > 0)


def measured(meters: Meters) -> float:
    """How often the lag was."""
    samples = [sample for metric in meters.lag.collect() for sample in metric.samples]
    return next(sample.value for sample in samples if sample.name.endswith("_count"))
