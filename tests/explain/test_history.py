"""The search for one partition in columns, and the difference between changes and loaded state."""

from hypothesis import given
from hypothesis import strategies as st

from controllerd.clock import SystemClock
from controllerd.core.model import TopicPartition
from controllerd.explain.history import find_rows, read_history
from controllerd.recent import Recent
from controllerd.record.records import LeadershipRecord, Record, RefusedRecord, SnapshotBegin, SnapshotEnd
from tests.explain.seeding import finish

ROWS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), max_size=40)
TP = TopicPartition("a", 0)


@given(ROWS, st.sampled_from("abcd"), st.integers(0, 4))
def test_every_row_of_a_partition_is_found_and_no_other(rows: list[tuple[str, int]], topic: str, number: int) -> None:
    record = RefusedRecord("x", [name for name, _ in rows], [partition for _, partition in rows], [""] * len(rows))

    found = list(find_rows(record, TopicPartition(topic, number)))

    assert found == [at for at, row in enumerate(rows) if row == (topic, number)]


def leads(leader: int) -> LeadershipRecord:
    return LeadershipRecord(["a"], [0], [leader], [1], [[leader]], [1], [1], [0])


def loaded(*records: Record) -> dict[int, bool]:
    """Each leader, and whether its record describes loaded state."""
    recent = Recent(SystemClock())
    recent.record(*records)
    history = finish(finish(read_history(tuple(recent.newest_first()))).partition(TP))
    return {led.leader: led.is_loaded for led in history.leaderships}


def test_loaded_state_is_no_change() -> None:
    begin, end = SnapshotBegin(1), SnapshotEnd(1, 1, 1)

    assert loaded(leads(1), begin, leads(2), end, leads(3)) == {3: False, 2: True, 1: False}


def test_a_load_whose_first_record_is_forgotten_is_recognised() -> None:
    assert loaded(leads(2), SnapshotEnd(1, 1, 1), leads(3)) == {3: False, 2: True}


def test_an_unfinished_load_is_recognised() -> None:
    assert loaded(SnapshotBegin(1), leads(2)) == {2: True}


def test_without_records_there_is_no_history() -> None:
    history = finish(read_history(()))

    assert history.oldest_ms is None
    assert finish(history.partition(TP)).leaderships == []
