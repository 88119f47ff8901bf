"""Every line of a segment becomes facts; damage becomes facts that describe it."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from controllerd.audit.segments import compress
from controllerd.record.records import AlarmRecord, GapRecord, LeadershipRecord, ResponseRecord, TopicsForgotten
from replay.facts.schema import NAMES, PLACE
from replay.ingest.arrow_batches import SCHEMA
from replay.ingest.audit_segments import read_facts
from tests.audit.samples import ONE_OF_EACH, alarms
from tests.replay.local.logs import lines_of, write_segment


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
    """All rows."""
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_segment_becomes_one_fact_per_record(tmp_path: Path) -> None:
    path = write_segment(tmp_path, lines_of(ONE_OF_EACH))
    [batch] = read_facts(path, "segment")
    assert batch.schema == SCHEMA
    assert tuple(batch.schema.names) == NAMES
    first = [row for row in batch.to_pylist() if row["row"] == 0]
    assert [row["kind"] for row in first] == [record.kind for record in ONE_OF_EACH]
    assert [row["line"] for row in first] == list(range(1, len(ONE_OF_EACH) + 1))
    assert {(row["date"], row["source"], row["file"]) for row in first} == {("2023-11-14", "audit", "segment")}


def test_hashes_chain_facts_as_they_chain_lines(tmp_path: Path) -> None:
    rows = rows_of(read_facts(write_segment(tmp_path, lines_of(alarms(5))), "segment"))
    assert rows[0]["prev"] == 0
    assert [row["prev"] for row in rows[1:]] == [row["hash"] for row in rows[:-1]]


def test_a_compressed_segment_has_the_same_facts(tmp_path: Path) -> None:
    path = write_segment(tmp_path, lines_of(ONE_OF_EACH))
    plain = rows_of(read_facts(path, "segment"))
    assert rows_of(read_facts(compress(path), "segment")) == plain


def test_batches_are_bounded_in_rows_and_in_bytes(tmp_path: Path) -> None:
    path = write_segment(tmp_path, lines_of(alarms(100)))
    assert [batch.num_rows for batch in read_facts(path, "segment", rows=40)] == [40, 40, 20]
    assert len(list(read_facts(path, "segment", size=100))) > 10


def test_the_rows_of_a_record_stay_in_one_batch(tmp_path: Path) -> None:
    records = [TopicsForgotten(["a", "b", "c"])] * 3
    batches = read_facts(write_segment(tmp_path, lines_of(records)), "segment", rows=2)
    assert [batch.num_rows for batch in batches] == [3, 3, 3]


def test_a_damaged_line_is_a_fact_with_its_place_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = lines_of(alarms(3))
    lines[1] = b'{"v":1,"kind"\n'
    rows = rows_of(read_facts(write_segment(tmp_path, lines), "segment"))
    assert [(row["kind"], row["line"], row["seq"]) for row in rows] == [
        ("alarm", 1, 1),
        ("damaged", 2, None),
        ("alarm", 3, 3),
    ]
    assert rows[1]["reason"]
    assert (rows[1]["cluster"], rows[1]["boot"], rows[1]["date"]) == ("cluster", "boot", "2023-11-14")


def test_a_torn_tail_is_a_fact(tmp_path: Path) -> None:
    *whole, last = lines_of(alarms(2))
    rows = rows_of(read_facts(write_segment(tmp_path, [*whole, last[:30]]), "segment"))
    assert [(row["kind"], row["line"]) for row in rows] == [("alarm", 1), ("torn_tail", 2)]
    assert rows[1]["reason"] == "30 bytes without an end"


def test_truncated_compression_is_a_damage(tmp_path: Path) -> None:
    path = compress(write_segment(tmp_path, lines_of(alarms(20_000))))
    path.write_bytes(path.read_bytes()[:-1000])
    rows = rows_of(read_facts(path, "segment"))
    assert "damaged" in {row["kind"] for row in rows}


def test_every_line_of_noise_is_a_damage(tmp_path: Path) -> None:
    rows = rows_of(read_facts(write_segment(tmp_path, [b"\x00\xff\n", b"{}\n"]), "segment"))
    assert [(row["kind"], row["cluster"], row["date"]) for row in rows] == [("damaged", None, "1970-01-01")] * 2


NEVER_NULL = {"date", "source", "row", "kind", "file", "line"}


@pytest.mark.parametrize("column", [column.name for column in PLACE if column.name not in NEVER_NULL])
def test_a_column_of_the_place_is_null_where_a_damaged_segment_does_not_show_it(column: str, tmp_path: Path) -> None:
    [line] = lines_of(alarms(1))
    far = re.sub(rb'"(epoch|event)":[0-9]+', rb'"\1":9000000000000000000000', line)
    segments = (write_segment(tmp_path / "noise", [b"{}\n"]), write_segment(tmp_path / "far", [far]))

    rows = [row for path in segments for row in rows_of(read_facts(path, "segment"))]

    assert None in {row[column] for row in rows}
    assert all(row[name] is not None for row in rows for name in NEVER_NULL)


def test_an_unknown_kind_is_a_fact_with_its_name(tmp_path: Path) -> None:
    [line] = lines_of(alarms(1))
    path = write_segment(tmp_path, [line.replace(b'"kind":"alarm"', b'"kind":"weather"')])
    [row] = rows_of(read_facts(path, "segment"))
    assert (row["kind"], row["name"], row["seq"]) == ("unknown_kind", "weather", 1)


def test_lines_of_a_newer_schema_are_read_as_the_current_one_and_counted_once(tmp_path: Path) -> None:
    lines = [line.replace(b'{"v":1', b'{"v":3') if number in (2, 3) else line
             for number, line in enumerate(lines_of(alarms(5)), 1)]  # fmt: skip
    rows = rows_of(read_facts(write_segment(tmp_path, lines), "segment", rows=1))
    assert [row["kind"] for row in rows] == ["alarm"] * 5 + ["newer_schema"]
    assert (rows[-1]["line"], rows[-1]["seq"], rows[-1]["boot"]) == (2, None, "boot")
    assert json.loads(rows[-1]["data"]) == {"first_seq": 2, "last_seq": 3, "lines": 2}
    assert rows[-1]["reason"].startswith("written with schema 3, this version knows 1")


def test_a_record_whose_columns_do_not_match_is_damage_with_a_number(tmp_path: Path) -> None:
    record = LeadershipRecord(["a", "b"], [0], [1], [4], [[1]], [7], [9], [0])
    [row] = rows_of(read_facts(write_segment(tmp_path, lines_of([record])), "segment"))
    assert (row["kind"], row["seq"], row["line"]) == ("damaged", 1, 1)
    assert "1 values of partition for 2 rows" in row["reason"]


def test_a_number_that_no_column_holds_is_damage_and_the_others_are_kept(tmp_path: Path) -> None:
    records = [
        AlarmRecord("a", "first"),
        ResponseRecord(2**40, 77, "LeaderAndIsr", 7, 5, 120, 1, 2.5, 0),
        LeadershipRecord(["a", "b"], [0, 1], [1, 1], [4, 4], [[1], [2**31]], [7, 7], [9, 9], [0, 0]),
        GapRecord(2, 5, 6, "last"),
    ]
    rows = rows_of(read_facts(write_segment(tmp_path, lines_of(records)), "segment"))
    assert [(row["seq"], row["kind"], row["reason"]) for row in rows] == [
        (1, "alarm", "first"),
        (2, "damaged", "broker is out of range"),
        (3, "damaged", "isr is out of range"),
        (4, "gap", "last"),
    ]


def test_a_clock_beyond_the_calendar_is_put_on_the_nearest_day(tmp_path: Path) -> None:
    [line] = lines_of(alarms(1))
    far = line.replace(b'"ts_ms":1700000000001', b'"ts_ms":9000000000000000000')
    assert far != line
    [row] = rows_of(read_facts(write_segment(tmp_path, [far]), "segment"))
    assert (row["date"], row["kind"]) == ("9999-12-31", "alarm")
