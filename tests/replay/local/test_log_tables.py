"""Invariants and the last state are computed from the logs of all nodes together, in bounded memory and rows."""

from pathlib import Path

import pytest

from controllerd.record.envelope import Envelope
from controllerd.record.records import LeadershipRecord, Record, RequestRecord, SnapshotBegin, TermRecord
from replay.facts.engine import ReplayError, ReplayProgress, Row
from replay.facts.results import MOST, violation_rows
from replay.facts.tables import BY_NAME
from replay.local.log_tables import tables_from_logs
from tests.record.logs import NODE, good_log, log_of
from tests.replay.local.logs import lines_of, write_segment

GOOD = [record for _, record in good_log()]
BAD = RequestRecord("UpdateMetadata", 6, [2], [102], [], [], [], [], [], [1, 2])


def judged(*paths: Path, processes: int = 1) -> dict[str, list[Row]]:
    """Both tables."""
    return tables_from_logs(paths, processes=processes)


def with_bad(records: list[Record]) -> list[Record]:
    """The log with a request of another term before its last event ends."""
    return [*records[:-1], BAD, records[-1]]


def test_a_good_log_breaks_nothing_and_leaves_its_last_state(tmp_path: Path) -> None:
    tables = judged(write_segment(tmp_path, lines_of(GOOD)))
    assert tables["violations"] == []
    [row] = tables["partitions"]
    assert row == {
        "cluster": "cluster",
        "topic": "a",
        "partition": 0,
        "leader": 2,
        "leader_epoch": 4,
        "isr": [2, 1],
        "partition_epoch": 10,
        "replicas": [1, 2],
        "adding": [],
        "removing": [],
        "state": "OnlinePartition",
    }
    assert tuple(row) == tuple(column.name for column in BY_NAME["partitions"].columns)


@pytest.mark.parametrize("processes", [1, 2])
def test_a_violation_is_a_row_with_its_place(tmp_path: Path, processes: int) -> None:
    rows = judged(write_segment(tmp_path, lines_of(with_bad(GOOD))), processes=processes)["violations"]
    assert {row["id"] for row in rows} >= {"I-03"}
    row = next(row for row in rows if row["id"] == "I-03")
    assert (row["cluster"], row["node"], row["boot"], row["seq"]) == ("cluster", NODE, "boot", len(GOOD))
    assert row["ts_ms"] == 1_700_000_000_000 + len(GOOD)
    assert tuple(row) == tuple(column.name for column in BY_NAME["violations"].columns)
    assert all(row[name] for name in ("severity", "title", "question", "evidence"))


def test_the_logs_of_two_nodes_are_judged_as_one(tmp_path: Path) -> None:
    first = write_segment(tmp_path / "1", lines_of(GOOD, node=1))
    second = write_segment(tmp_path / "2", lines_of(GOOD, node=2))
    rows = judged(first, second)["violations"]
    assert "I-01" in {row["id"] for row in rows}


def test_the_last_state_is_that_of_the_latest_term_on_any_node(tmp_path: Path) -> None:
    later = [
        TermRecord("elected", 8, 13, "controllerd", "nobody held it"),
        SnapshotBegin(8),
        *GOOD[3:6],
        LeadershipRecord(["a"], [0], [1], [9], [[1]], [8], [30], [0]),
        GOOD[7],
    ]
    new = write_segment(tmp_path / "1", lines_of(later, node=1, epoch=8))
    old = write_segment(tmp_path / "2", lines_of(GOOD, node=2))
    [row] = judged(old, new)["partitions"]
    assert (row["leader"], row["leader_epoch"]) == (1, 9)


def test_segments_follow_their_numbers_and_not_the_names_of_boots(tmp_path: Path) -> None:
    first = write_segment(tmp_path, lines_of(GOOD)[:9], boot="z", number=9)
    second = write_segment(tmp_path, lines_of(GOOD)[9:], boot="a", number=10)
    tables = judged(second, first)
    assert tables["violations"] == []
    assert len(tables["partitions"]) == 1


def test_evidence_is_capped_and_the_rest_is_counted() -> None:
    log: list[tuple[Envelope, Record]] = log_of([*GOOD[:-1], *[BAD] * (MOST + 7)])
    rows = [row for row in violation_rows("c", log) if row["id"] == "I-03"]
    assert len(rows) == MOST + 1
    assert rows[-1]["evidence"] == "7 more that are not listed"
    assert sum(int(str(row["times"])) for row in rows) == MOST + 7


def test_a_segment_that_is_gone_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="restore it, or choose other tables"):
        judged(tmp_path / "boot-00000001.jsonl")


def test_progress_is_reported_in_records(tmp_path: Path) -> None:
    progress_made: list[ReplayProgress] = []
    path = write_segment(tmp_path, lines_of(GOOD))
    tables_from_logs([path], progress=progress_made.append, lines=len(GOOD), processes=1)
    assert progress_made[-1] == ReplayProgress("judge", len(GOOD), len(GOOD), "records")
