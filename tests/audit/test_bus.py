"""The order in which the subscribers get a record, and what a failing one costs."""

import pytest

from controllerd.audit.bus import RecordBus
from controllerd.daemon.metering import RecordMetrics
from controllerd.daemon.summaries import EventSummaries
from controllerd.kafkalogs.sink import KafkaLogs
from controllerd.loop import WriteWatch
from controllerd.recent import Recent
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import AlarmRecord, EventBegin, Record, ResponseRecord, SnapshotEnd
from tests.audit.samples import ONE_OF_EACH
from tests.fakes.audit import RecordingAudit

ALARM = AlarmRecord("a", "")
BEGIN = EventBegin(3, "BrokerChange", 1, 0.0)


class Noted:
    """A subscriber that writes its name and the kinds that it gets into a list."""

    def __init__(
        self, name: str, calls: list[tuple[str, list[str]]], takes: frozenset[type[Record]] = EVERY_KIND
    ) -> None:
        self.takes = takes
        self._name = name
        self._calls = calls

    def record(self, *records: Record) -> None:
        self._calls.append((self._name, [record.kind for record in records]))

    async def accepted(self) -> None:
        self._calls.append((self._name, ["accepted"]))


class Broken:
    """A subscriber with a defect."""

    takes = EVERY_KIND

    def record(self, *records: Record) -> None:
        raise LookupError(f"{len(records)} records")


def test_the_watch_comes_before_the_writer_and_the_readers_come_after_it_in_their_order() -> None:
    calls: list[tuple[str, list[str]]] = []
    watch, writer, first, second = (Noted(name, calls) for name in ("watch", "writer", "first", "second"))
    RecordBus(writer, before=[watch], after=[first, second]).record(ALARM, BEGIN)

    assert calls == [(name, ["alarm", "event_begin"]) for name in ("watch", "writer", "first", "second")]


def test_a_subscriber_gets_the_kinds_that_it_takes_and_is_not_called_without_any() -> None:
    calls: list[tuple[str, list[str]]] = []
    bus = RecordBus(RecordingAudit(), after=[Noted("begins", calls, frozenset({EventBegin}))])
    bus.record(ALARM, BEGIN, ALARM, BEGIN)
    bus.record(ALARM)

    assert calls == [("begins", ["event_begin", "event_begin"])]


def test_a_reader_that_fails_keeps_no_record_from_the_log_and_fails_the_call() -> None:
    writer = RecordingAudit()
    bus = RecordBus(writer, after=[Broken()])

    with pytest.raises(LookupError, match="2 records"):
        bus.record(ALARM, BEGIN)
    assert writer.records == [ALARM, BEGIN]


async def test_the_writer_alone_says_what_is_accepted() -> None:
    calls: list[tuple[str, list[str]]] = []
    await RecordBus(Noted("writer", calls), after=[Noted("reader", calls)]).accepted()

    assert calls == [("writer", ["accepted"])]


def test_the_writer_takes_every_kind() -> None:
    writer = RecordingAudit()
    RecordBus(writer).record(*ONE_OF_EACH)

    assert writer.records == list(ONE_OF_EACH)


def test_every_subscriber_takes_kinds_that_exist() -> None:
    for subscriber in (WriteWatch, Recent, KafkaLogs, EventSummaries, RecordMetrics):
        assert subscriber.takes <= EVERY_KIND
    assert Recent.takes == KafkaLogs.takes == EVERY_KIND


def test_the_watch_counts_records_of_events_and_not_records_outside_of_them() -> None:
    watch = WriteWatch()
    bus = RecordBus(RecordingAudit(), before=[watch])
    bus.record(BEGIN, ALARM, ResponseRecord(1, 1, "UpdateMetadata", 8, 1, 10, 1, 1.0, 0, {}), SnapshotEnd(1, 1, 1))

    assert (watch.count, watch.has_written) == (2, False)
