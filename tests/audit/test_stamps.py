"""The stamps of the audit log: which term and which event a record belongs to."""

from pathlib import Path

import pytest

from controllerd.audit.reader import AuditReader
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.clock import SystemClock
from controllerd.record.records import AlarmRecord, EventBegin, EventEnd, Record, TermRecord
from tests.audit.samples import NODE


def term(change: str, epoch: int = 7) -> TermRecord:
    return TermRecord(change, epoch, 0, "controllerd", "")


async def stamps(root: Path, *records: Record) -> list[tuple[int, int]]:
    """Controller epoch and event number of each record, as the log on disk has them."""
    writer = AuditWriter(AuditSettings(root), NODE, SystemClock())
    await writer.start("cluster")
    writer.record(*records)
    await writer.close()
    return [(envelope.epoch, envelope.event) for envelope, _ in AuditReader(writer.directory)]


async def test_records_of_an_event_carry_its_number_and_later_records_do_not(tmp_path: Path) -> None:
    records = [EventBegin(3, "BrokerChange", 1, 0.0), AlarmRecord("a", ""), EventEnd(3, "BrokerChange", "done", 0.0)]

    assert await stamps(tmp_path, *records, AlarmRecord("b", "")) == [(0, 3), (0, 3), (0, 3), (0, 0)]


@pytest.mark.parametrize("change", ["elected", "renewed"])
async def test_a_term_begins_with_its_own_record(tmp_path: Path, change: str) -> None:
    found = await stamps(tmp_path, AlarmRecord("before", ""), term(change), AlarmRecord("after", ""))

    assert [epoch for epoch, _ in found] == [0, 7, 7]


@pytest.mark.parametrize("change", ["ended", "resigned", "fenced", "expired", "unavailable"])
async def test_the_record_that_ends_a_term_is_its_last(tmp_path: Path, change: str) -> None:
    found = await stamps(tmp_path, term("elected"), term(change), AlarmRecord("after", ""))

    assert [epoch for epoch, _ in found] == [7, 7, 0]


@pytest.mark.parametrize("change", ["held", "refused"])
async def test_a_change_that_begins_and_ends_no_term_leaves_the_stamp_as_it_is(tmp_path: Path, change: str) -> None:
    found = await stamps(tmp_path, term("elected"), term(change, 9), AlarmRecord("after", ""))

    assert [epoch for epoch, _ in found] == [7, 7, 7]
