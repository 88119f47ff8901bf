"""The guard against a process that slept, and the stamps of the audit log."""

from pathlib import Path

import pytest

from channel_manager.observer import Exchange
from controllerd.audit.reader import AuditReader
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.clock import SystemClock
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import ControlResponse, StopReplicaRequest
from controllerd.daemon.bridges import EventStatistics, FreezeGuard, RecordedExchanges, StampedAudit
from controllerd.record.records import AlarmRecord, EventBegin, EventEnd, Record, ResponseRecord, TermRecord
from controllerd.status.metrics.meters import EventMeters
from tests.fakes.audit import RecordingAudit
from tests.fakes.world import NODE_ID, ManualClock

LIMIT_S = 6.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def guard(clock: ManualClock) -> FreezeGuard:
    return FreezeGuard(LIMIT_S, clock.monotonic, lambda: None)


def test_a_process_that_runs_may_send(guard: FreezeGuard, clock: ManualClock) -> None:
    for _ in range(10):
        clock.now += LIMIT_S / 2
        guard.tick()

    assert guard.may_send()


def test_a_sender_notices_the_gap_before_the_tick_does(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += LIMIT_S + 0.001

    assert not guard.may_send()


def test_a_gap_as_long_as_the_session_is_not_yet_one(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += LIMIT_S

    assert guard.may_send()


def test_time_alone_does_not_end_the_suspicion(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += 2 * LIMIT_S
    guard.tick()
    clock.now += 0.1
    guard.tick()

    assert not guard.may_send()


def test_a_validated_epoch_ends_the_suspicion(guard: FreezeGuard, clock: ManualClock) -> None:
    clock.now += 2 * LIMIT_S
    guard.tick()

    guard.validated(guard.doubts)

    assert guard.may_send()


def test_a_sleep_is_judged_by_the_session_time_out_that_was_granted(guard: FreezeGuard, clock: ManualClock) -> None:
    guard.set_limit(LIMIT_S / 3)
    clock.now += LIMIT_S / 2

    assert not guard.may_send()


def test_a_longer_session_allows_a_longer_sleep(guard: FreezeGuard, clock: ManualClock) -> None:
    guard.set_limit(LIMIT_S * 3)
    clock.now += LIMIT_S * 2

    assert guard.may_send()


@pytest.mark.parametrize("limit_s", [LIMIT_S * 3, LIMIT_S / 3])
def test_the_sleep_that_ends_with_another_time_out_is_judged_by_the_shorter(
    guard: FreezeGuard, clock: ManualClock, limit_s: float
) -> None:
    clock.now += min(LIMIT_S, limit_s) + 0.001
    guard.set_limit(limit_s)

    assert not guard.may_send()


def term(change: str, epoch: int = 7) -> TermRecord:
    return TermRecord(change, epoch, 0, "controllerd", "")


async def stamps(root: Path, *records: Record) -> list[tuple[int, int]]:
    """Controller epoch and event number of each record, as the log on disk has them."""
    writer = AuditWriter(AuditSettings(root), NODE_ID, SystemClock())
    await writer.start("cluster")
    StampedAudit(writer).record(*records)
    await writer.close()
    return [(envelope.epoch, envelope.event) for envelope, _ in AuditReader(writer.directory)]


async def test_what_happens_in_an_event_carries_its_number_and_what_follows_does_not(tmp_path: Path) -> None:
    records = [EventBegin(3, "BrokerChange", 1, 0.0), AlarmRecord("a", ""), EventEnd(3, "BrokerChange", "done", 0.0)]

    assert await stamps(tmp_path, *records, AlarmRecord("b", "")) == [(0, 3), (0, 3), (0, 3), (0, 0)]


@pytest.mark.parametrize("change", ["elected", "renewed"])
async def test_a_term_begins_with_its_own_record(tmp_path: Path, change: str) -> None:
    found = await stamps(tmp_path, AlarmRecord("before", ""), term(change), AlarmRecord("after", ""))

    assert [epoch for epoch, _ in found] == [0, 7, 7]


@pytest.mark.parametrize("change", ["resigned", "fenced", "expired", "unavailable"])
async def test_the_record_that_ends_a_term_is_its_last(tmp_path: Path, change: str) -> None:
    found = await stamps(tmp_path, term("elected"), term(change), AlarmRecord("after", ""))

    assert [epoch for epoch, _ in found] == [7, 7, 0]


def test_an_answer_is_recorded_with_the_partitions_that_failed_only() -> None:
    audit, good, bad = RecordingAudit(), TopicPartition("t", 0), TopicPartition("t", 1)
    request = StopReplicaRequest(NODE_ID, 7, 42, {})
    errors = {good: KafkaError.NONE, bad: KafkaError.FENCED_LEADER_EPOCH}
    response = ControlResponse("StopReplica", KafkaError.NONE, errors)

    RecordedExchanges(audit).on_response(Exchange(BrokerId(1), request, response, 4, 9, 100, 2, 0.0125))

    (record,) = audit.of(ResponseRecord)
    assert record.errors == {"t-1": int(KafkaError.FENCED_LEADER_EPOCH)}
    assert (record.broker, record.broker_epoch, record.attempts, record.took_ms) == (1, 42, 2, 12.5)


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
    assert "slow event" in line
    assert "took_s=0.75" in line
