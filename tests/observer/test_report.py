"""The results as records and as totals."""

from typing import Final

from controllerd.core.model import BrokerId, LeaderAndIsr
from controllerd.observer.report import KEPT, ComparisonRow, Observation, ObservationReport
from controllerd.observer.verdicts import EQUAL, PartitionVerdict, Ruling
from controllerd.record.families.operators import ObservationRecord
from controllerd.record.records import MAX_ROWS
from tests.fakes.world import ids, tp

BEFORE: Final = LeaderAndIsr(BrokerId(1), 0, ids(1, 2), 4, 0)
AFTER: Final = LeaderAndIsr(BrokerId(2), 1, ids(2), 4, 1)
SAME: Final = ComparisonRow(tp("t"), BEFORE, AFTER, AFTER, EQUAL)
OTHER: Final = ComparisonRow(tp("t", 1), None, AFTER, None, PartitionVerdict(Ruling.DIFFERENT, ("state",)))
UNSEEN: Final = ComparisonRow(tp("t", 2), BEFORE, None, AFTER, None)


def test_rows_are_columns_of_a_record() -> None:
    (record,) = Observation("broker died", ("1",), 4, (SAME, OTHER, UNSEEN)).records()

    assert record == ObservationRecord(
        "broker died",
        ["1"],
        4,
        ["t", "t", "t"],
        [0, 1, 2],
        [1, -2, 1],
        [0, -2, 0],
        [[1, 2], [], [1, 2]],
        [2, 2, -2],
        [1, 1, -2],
        [[2], [2], []],
        [2, -2, 2],
        [1, -2, 1],
        [[2], [], [2]],
        ["equal", "different: state", "not judged"],
    )


def test_many_rows_are_several_records() -> None:
    records = list(Observation("failover", (), 4, (SAME,) * (MAX_ROWS + 1)).records())

    assert [(len(record.topics), record.continues) for record in records] == [(MAX_ROWS, False), (1, True)]


def test_a_cause_without_partitions_is_recorded_too() -> None:
    (record,) = Observation("broker came", ("4",), 4, ()).records()

    assert (record.subjects, record.topics) == (["4"], [])


def test_partitions_are_counted_by_cause_and_ruling() -> None:
    report = ObservationReport()

    report.add("broker died", (SAME, SAME))
    report.add("broker died", (OTHER,))
    report.add("another leader", (UNSEEN,))

    assert report.totals == {
        ("broker died", "equal"): 2,
        ("broker died", "different"): 1,
        ("another leader", "not judged"): 1,
    }


def test_only_the_newest_rows_are_kept() -> None:
    report = ObservationReport()

    report.add("broker died", (SAME,) * KEPT)
    report.add("failover", (OTHER,))

    assert len(report.latest) == KEPT
    assert report.latest[-1] == ("failover", OTHER)
