"""One fact per record, or one per partition; no value of a record that a query needs is lost."""

import json
from dataclasses import replace
from typing import Any

import pytest

from controllerd.record.envelope import UnknownRecord
from controllerd.record.families.operators import SettingsRecord
from controllerd.record.kinds import KINDS
from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DecisionRecord,
    EventBegin,
    LeadershipRecord,
    OfflineDirsRecord,
    PendingDeletionsRecord,
    Record,
    RequestRecord,
    TermRecord,
    TopicsForgotten,
)
from replay.facts.buffer import FactBuffer, UnevenColumns, short_hash
from replay.facts.explode import explode
from replay.facts.schema import NAMES
from tests.audit.samples import ONE_OF_EACH
from tests.record.logs import log_of

HASH = "80" + "00" * 31


def rows_of(*records: Record) -> list[dict[str, Any]]:
    """The facts of records, without the columns that are null."""
    buffer = FactBuffer()
    for line, (envelope, record) in enumerate(log_of(records), 1):
        explode(buffer, envelope, record, file="file", line=line, digest=HASH)
    columns = buffer.take()
    assert {len(values) for values in columns.values()} == {len(columns["seq"])}
    return [
        {name: values[index] for name, values in columns.items() if values[index] is not None}
        for index in range(len(columns["seq"]))
    ]


def test_every_kind_of_record_has_facts_in_columns_of_the_schema() -> None:
    assert {record.kind for record in ONE_OF_EACH} | {"digest"} >= KINDS.keys()
    rows = rows_of(*ONE_OF_EACH)
    assert {row["kind"] for row in rows} == {record.kind for record in ONE_OF_EACH}
    assert {name for row in rows for name in row} <= set(NAMES)


def test_a_leadership_is_a_row_per_partition() -> None:
    record = LeadershipRecord(["a", "b"], [0, 3], [1, -1], [4, 5], [[1, 2], []], [7, 7], [9, 10], [0, 1])
    first, second = rows_of(record)
    assert (first["row"], second["row"]) == (0, 1)
    assert (second["topic"], second["partition"], second["leader"], second["leader_epoch"]) == ("b", 3, -1, 5)
    assert (second["isr"], second["state_epoch"], second["partition_epoch"], second["recovery"]) == ([], 7, 10, 1)


def test_the_hash_of_a_line_stands_on_its_first_row_alone() -> None:
    first, second = rows_of(TopicsForgotten(["a", "b"]))
    assert first["hash"] == -(2**63)
    assert "hash" not in second


def test_columns_of_other_kinds_are_null() -> None:
    [decision, forgotten, again] = rows_of(
        DecisionRecord("offline", ["a"], [0], [2], [[2]], [True]),
        TopicsForgotten(["b"]),
        DecisionRecord("preferred", ["c"], [1], [3], [[3]], [False]),
    )
    assert (decision["name"], decision["unclean"]) == ("offline", True)
    assert not {"name", "leader", "isr", "unclean", "partition"} & forgotten.keys()
    assert (again["name"], again["topic"], again["leader"], again["unclean"]) == ("preferred", "c", 3, False)


def test_brokers_are_a_row_each_with_their_state_afterwards() -> None:
    rows = rows_of(BrokersRecord([BrokerRow(1, 77, ["P=PLAINTEXT://h:9092"], "r")], [2], [3]))
    assert [(row["broker"], row["after"], row.get("zxid")) for row in rows] == [
        (1, "live", 77),
        (2, "gone", None),
        (3, "shutting_down", None),
    ]
    assert json.loads(rows[0]["data"]) == {"endpoints": ["P=PLAINTEXT://h:9092"], "rack": "r"}


def test_settings_are_a_row_each_with_the_value_before_and_why_brokers_disagree() -> None:
    first, second = rows_of(
        SettingsRecord(["a", "b"], ["1", "2"], ["1", "6"], ["configuration", "brokers"], ["broker 3 has 2", None])
    )
    assert (first["name"], first["before"], first["after"], first["reason"]) == ("a", "1", "1", "broker 3 has 2")
    assert (second["name"], second["before"], second["after"], second.get("reason")) == ("b", "2", "6", None)
    assert json.loads(first["data"]) == {"sources": ["configuration", "brokers"]}


def test_a_request_is_one_row_whatever_it_carries() -> None:
    [row] = rows_of(
        RequestRecord("StopReplica", 7, [1], [77], ["a", "b"], [0, 1], [], [4, 4], [], delete=[True, False])
    )
    assert row["name"] == "StopReplica"
    assert json.loads(row["data"])["topics"] == ["a", "b"]


@pytest.mark.parametrize("record", [TopicsForgotten([]), AssignmentRecord([], [], [], [], []), BrokersRecord()])
def test_a_record_without_rows_has_a_fact_all_the_same(record: Record) -> None:
    [row] = rows_of(record)
    assert (row["kind"], row["seq"]) == (record.kind, 1)


@pytest.mark.parametrize("record", [OfflineDirsRecord(4, [], []), PendingDeletionsRecord(4, [], [], [])])
def test_a_broker_without_partitions_is_named(record: Record) -> None:
    [row] = rows_of(record)
    assert (row["broker"], row.get("topic")) == (4, None)


def test_an_event_has_whole_microseconds_and_its_own_number() -> None:
    [row] = rows_of(EventBegin(812, "BrokerChange", 2, 0.2504, {"broker": 3}))
    assert (row["event"], row["name"], row["state"], row["queued_us"]) == (812, "BrokerChange", 2, 250)
    assert json.loads(row["data"]) == {"broker": 3}


def test_the_beginning_of_a_term_counts_to_its_term() -> None:
    won, held = rows_of(TermRecord("elected", 9, 12, "us", ""), TermRecord("held", 3, -1, "them", "alive"))
    assert (won["epoch"], won["name"]) == (9, "elected")
    assert held["epoch"] == 7


def test_an_unknown_kind_has_a_fact_with_its_name() -> None:
    [row] = rows_of(UnknownRecord("weather"))
    assert (row["kind"], row["name"]) == ("unknown_kind", "weather")


def test_columns_of_unequal_length_are_refused_and_leave_no_trace() -> None:
    buffer = FactBuffer()
    [(envelope, good), (other, bad)] = log_of(
        [TopicsForgotten(["a"]), AssignmentRecord(["a"], [0, 1], [[]], [[]], [[]])]
    )
    explode(buffer, envelope, good, file="file", line=1)
    with pytest.raises(UnevenColumns, match="2 values of partition for 1 rows"):
        explode(buffer, other, bad, file="file", line=2)
    assert buffer.take()["kind"] == ["topics_forgotten"]


def test_a_link_that_is_no_hash_is_refused() -> None:
    [(envelope, record)] = log_of([TopicsForgotten(["a"])])
    with pytest.raises(ValueError, match="hex"):
        explode(FactBuffer(), replace(envelope, prev="xyz"), record, file="file", line=1)


def test_hashes_are_shortened_to_signed_numbers() -> None:
    assert short_hash("00" * 7 + "01" + "ff" * 24) == 1
