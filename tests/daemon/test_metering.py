"""What the metrics learn from records that pass, and from the loop."""

from controllerd.daemon.metering import MeteredAudit, measuring_lag
from controllerd.record.records import EventBegin, EventEnd, Record, SnapshotBegin, SnapshotEnd, TermRecord
from controllerd.status.metrics.meters import Meters
from tests.channel_manager.stub_broker import eventually
from tests.fakes.audit import RecordingAudit


class Clock:
    """Seconds that pass one by one, each time somebody asks."""

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


def metered(*records: Record) -> tuple[Meters, RecordingAudit]:
    """The meters after these, and what was passed on."""
    meters, audit = Meters(Clock()), RecordingAudit()
    log = MeteredAudit(audit, meters)
    for record in records:
        log.record(record)
    return meters, audit


def failures(meters: Meters) -> dict[str, float]:
    """How many events of each name failed, of those that did."""
    samples = [sample for metric in meters.collect() for sample in metric.samples]
    return {s.labels["event"]: s.value for s in samples if s.name == "controllerd_event_failures_total" and s.value}


def test_each_phase_of_an_election_is_timed_and_everything_passed_on() -> None:
    records = [begin(), elected(), SnapshotBegin(7), SnapshotEnd(3, 10, 100), end()]

    meters, audit = metered(*records)

    assert list(meters.failover_phases) == ["election", "preparation", "loading", "bringing online"]
    assert set(meters.failover_phases.values()) == {1.0}
    assert audit.records == records


def test_an_event_that_wins_no_election_is_none() -> None:
    held = TermRecord("held", 0, 0, "broker 2", "it holds the role")

    assert metered(begin(), held, end())[0].failover_phases == {}


def test_an_election_that_failed_on_the_way_leaves_the_former_one() -> None:
    meters, _ = metered(begin(), elected(), SnapshotBegin(7), end("unavailable"))

    assert meters.failover_phases == {}


def test_a_snapshot_in_the_middle_of_a_term_is_no_election() -> None:
    assert metered(SnapshotBegin(7, periodic=True), SnapshotEnd(3, 10, 100))[0].failover_phases == {}


def test_only_defects_count_as_failures() -> None:
    meters, _ = metered(*(end(outcome, "TopicChange") for outcome in ("done", "refused", "error", "unavailable")))

    assert failures(meters) == {"TopicChange": 1}


async def test_the_lag_of_the_loop_is_measured_while_the_block_runs() -> None:
    meters = Meters()

    async with measuring_lag(meters):
        await eventually(lambda: measured(meters) > 0)


def measured(meters: Meters) -> float:
    """How often the lag was."""
    samples = [sample for metric in meters.lag.collect() for sample in metric.samples]
    return next(sample.value for sample in samples if sample.name.endswith("_count"))
