import asyncio

import pytest

from controllerd.audit.backlog import Backlog
from controllerd.recent import Recent
from controllerd.record.envelope import rows_of
from controllerd.record.records import (
    AlarmRecord,
    BrokersRecord,
    EventBegin,
    EventEnd,
    PartitionStateRecord,
    Record,
    RequestRecord,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
    ZkWriteRecord,
)
from tests.fakes.store import StillClock


def alarm(text: str) -> AlarmRecord:
    return AlarmRecord("test", text)


def recent(*, max_rows: int = 100, max_entries: int = 100) -> Recent:
    return Recent(StillClock(), max_rows=max_rows, max_entries=max_entries)


def transitions(rows: int) -> PartitionStateRecord:
    return PartitionStateRecord(["t"] * rows, list(range(rows)), ["NewPartition"] * rows, ["OnlinePartition"] * rows)


def test_entries_know_the_event_in_whose_course_they_were_recorded() -> None:
    tap = recent()
    tap.record(alarm("before"), EventBegin(7, "BrokerChange", 1, 0.0), alarm("within"))
    tap.record(EventEnd(7, "BrokerChange", "done", 1.0), alarm("after"))
    stamps = [(entry.event, entry.event_name) for entry in tap.after(0, 10)]
    assert stamps == [(0, ""), (7, "BrokerChange"), (7, "BrokerChange"), (7, "BrokerChange"), (0, "")]


def test_entries_know_their_term_from_the_election_on() -> None:
    tap = recent()
    tap.record(alarm("before"), TermRecord("elected", 12, 3, "us", ""), alarm("within"))
    assert [entry.epoch for entry in tap.after(0, 10)] == [0, 12, 12]


def test_an_entry_after_the_end_of_a_term_belongs_to_none() -> None:
    tap = recent()
    tap.record(TermRecord("elected", 12, 3, "us", ""), TermRecord("resigned", 12, 3, "us", ""), alarm("after"))
    assert [entry.epoch for entry in tap.after(0, 10)] == [12, 12, 0]


def test_the_oldest_entries_are_dropped_when_there_are_too_many_rows() -> None:
    tap = recent(max_rows=10)
    tap.record(transitions(6))
    tap.record(transitions(4))
    assert tap.oldest == 1
    tap.record(alarm("one more"))
    assert (tap.oldest, tap.newest) == (2, 3)


@pytest.mark.parametrize(
    ("record", "rows"),
    [
        (alarm("one"), 1),
        (transitions(6), 6),
        (transitions(0), 1),
        (TopicsRecord(["a", "b"], [None, None], [1, 1]), 2),
        (TopicsForgotten(["a", "b", "c"]), 3),
        (BrokersRecord(gone=[1, 2], shutting_down=[3]), 2),
        (ZkWriteRecord(1, 2, 1.0, ["create"] * 4, ["/a"] * 4, [-1] * 4, ["ok"] * 4, [0] * 4), 4),
        (RequestRecord("UpdateMetadata", 7, [1, 2, 3], [4, 5, 6], ["a"], [0], [1], [0], [0]), 3),
    ],
)
def test_a_record_has_as_many_rows_as_its_longest_column(record: Record, rows: int) -> None:
    assert rows_of(record) == rows


def test_records_of_every_kind_are_bounded_by_their_rows() -> None:
    tap, backlog = recent(max_rows=10), Backlog(10, StillClock())
    many = TopicsForgotten(["t"] * 6)

    tap.record(many, many)
    backlog.put(many, many)

    assert (tap.oldest, backlog.lost) == (2, 1)


def test_the_oldest_entries_are_dropped_when_there_are_too_many() -> None:
    tap = recent(max_entries=3)
    tap.record(*(alarm(str(number)) for number in range(5)))
    assert [entry.number for entry in tap.after(0, 10)] == [3, 4, 5]


def test_entries_after_a_number_come_in_order_and_in_portions() -> None:
    tap = recent()
    tap.record(*(alarm(str(number)) for number in range(5)))
    assert [entry.number for entry in tap.after(2, 2)] == [3, 4]
    assert tap.after(5, 2) == []


def test_without_entries_the_oldest_is_the_one_to_come() -> None:
    tap = recent()
    assert (tap.oldest, tap.newest, list(tap.newest_first())) == (1, 0, [])


async def test_a_waiting_task_wakes_when_there_is_a_newer_entry() -> None:
    tap = recent()
    tap.record(alarm("a"))
    await tap.wait(0)
    waiting = asyncio.create_task(tap.wait(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    tap.record(alarm("b"))
    await asyncio.wait_for(waiting, 5)


async def test_several_tasks_may_wait_at_once() -> None:
    tap = recent()
    waiting = [asyncio.create_task(tap.wait(0)) for _ in range(3)]
    await asyncio.sleep(0)
    tap.record(alarm("a"))
    await asyncio.wait_for(asyncio.gather(*waiting), 5)


def test_terms_are_kept_longer_than_other_entries() -> None:
    tap = recent(max_entries=2)
    tap.record(TermRecord("elected", 12, 3, "us", ""), TermRecord("resigned", 12, 3, "us", "upgrade"))
    tap.record(*(alarm(str(number)) for number in range(5)))

    assert [(entry.number, entry.epoch, entry.record) for entry in tap.terms] == [
        (1, 12, TermRecord("elected", 12, 3, "us", "")),
        (2, 12, TermRecord("resigned", 12, 3, "us", "upgrade")),
    ]
    assert tap.oldest == 6


def test_of_very_many_terms_the_newest_are_kept() -> None:
    tap = recent(max_entries=2)
    tap.record(*(TermRecord("elected", epoch, 3, "us", "") for epoch in range(1, 701)))

    assert [entry.epoch for entry in tap.terms] == list(range(201, 701))
