"""Lines in Kafka's wording, read by the parser of Kafka's own logs: nothing unknown, and the same windows."""

from pathlib import Path

import msgspec
import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, LeaderAndIsrRequest
from controllerd.kafkalogs.files import formatted
from controllerd.kafkalogs.wording import Wording
from controllerd.record.records import MAX_ROWS, PartitionStateRecord
from controllerd.record.request_columns import request_records
from replay.facts.engine import Row
from replay.ingest.kafka.reader import read_logs
from tests.record.logs import Log
from tests.record.true_logs import true_log

Window = tuple[str, int, int, int]
"""Topic, partition, and the beginning and end in milliseconds of a time without a leader."""
State = tuple[int, str, int, str]
"""Milliseconds, topic, partition, and the state from then on."""
OFFLINE = "OfflinePartition"


def written(log: Log, folder: Path) -> list[Path]:
    """The log as files, a folder for each process."""
    wordings: dict[tuple[int, str], Wording] = {}
    for envelope, record in log:
        writer = (envelope.node, envelope.boot)
        wording = wordings.setdefault(writer, Wording(envelope.node))
        for line in wording.lines(record):
            file = folder / f"{envelope.node}-{envelope.boot}" / line.file
            file.parent.mkdir(exist_ok=True, parents=True)
            with file.open("a") as out:
                out.write(formatted(envelope.ts_ms, line))
    return sorted(folder.rglob("*.log"))


def facts(log: Log, folder: Path) -> list[Row]:
    """The facts that the parser reads from the files."""
    return list(read_logs(written(log, folder)))


@pytest.mark.parametrize("seed", range(6))
def test_the_parser_knows_every_line_of_a_whole_story(seed: int, tmp_path: Path) -> None:
    unknown = [row for row in facts(true_log(seed), tmp_path) if row["kind"] == "unknown_line"]

    assert unknown == []


def windows(states: list[State]) -> set[Window]:
    """The times without a leader by the changes of states; a deletion is none."""
    found, began = set(), dict[tuple[str, int], int]()
    for at_ms, topic, partition, after in states:
        if after == OFFLINE:
            began.setdefault((topic, partition), at_ms)
        elif (start := began.pop((topic, partition), None)) is not None and after == "OnlinePartition":
            found.add((topic, partition, start, at_ms))
    return found


def logged_states(rows: list[Row]) -> list[State]:
    """The changes of states among facts."""
    states = [row for row in rows if row["kind"] == "partition_state"]
    return [msgspec.convert([row[name] for name in ("ts_ms", "topic", "partition", "after")], State) for row in states]


def true_states(log: Log) -> list[State]:
    """The changes of states in the audit log."""
    return [
        (envelope.ts_ms, topic, partition, after)
        for envelope, record in log
        if isinstance(record, PartitionStateRecord)
        for topic, partition, after in zip(record.topics, record.partitions, record.after, strict=True)
    ]


@pytest.mark.parametrize("seed", range(6))
def test_the_windows_are_equal_to_the_windows_in_the_audit_log(seed: int, tmp_path: Path) -> None:
    """If a new controller finds a partition without a leader, the audit log has the load, and the lines only a bound.

    The bound is the beginning of the term, or the line of the term with the live brokers.
    """
    log = true_log(seed)
    rows = facts(log, tmp_path)
    logged, true = windows(logged_states(rows)), windows(true_states(log))
    loaded = {(*window[:2], window[3]) for window in true if window[:3] in _loaded_offline(log)}
    bounds = {window for window in logged - true if (*window[:2], window[3]) in loaded}

    assert sorted(logged - bounds) == sorted(true - _began_later(bounds, true))
    assert len(bounds) == len(_began_later(bounds, true))
    marked = {(row["topic"], row["partition"], row["ts_ms"]) for row in rows if row["bound"] == "not after"}
    assert {window[:3] for window in bounds} <= marked


def _loaded_offline(log: Log) -> set[tuple[str, int, int]]:
    """The partitions that were offline when a term began, with the times."""
    return {
        (topic, partition, envelope.ts_ms)
        for envelope, record in log
        if isinstance(record, PartitionStateRecord)
        for topic, partition, before, after in zip(
            record.topics, record.partitions, record.before, record.after, strict=True
        )
        if before == "NonExistentPartition" and after == OFFLINE
    }


def _began_later(bounds: set[Window], windows: set[Window]) -> set[Window]:
    """The windows that end with one of these and begin after it."""
    begins = {(topic, partition, end): begin for topic, partition, begin, end in bounds}
    return {each for each in windows if begins.get((*each[:2], each[3]), each[2]) < each[2]}


@pytest.mark.parametrize("times", [1, MAX_ROWS])
@pytest.mark.parametrize("names_partitions", [True, False])
def test_a_request_says_how_many_partitions_a_broker_leads_and_follows(*, names_partitions: bool, times: int) -> None:
    leaders = (1, 2, 2) * times
    states = [LeaderAndIsr(BrokerId(leader), 4, (BrokerId(1), BrokerId(2)), 7, 9) for leader in leaders]
    rows = {
        TopicPartition("t", number): LeaderAndIsrPartition(state, ReplicaAssignment((BrokerId(1), BrokerId(2))), False)
        for number, state in enumerate(states)
    }
    requests = [(BrokerId(id_), LeaderAndIsrRequest(7, 7, 100 + id_, rows, {}, ())) for id_ in (1, 2)]
    wording = Wording(7)

    records = request_records(requests, names_partitions=names_partitions)

    assert [line.text.partition(" to ")[2] for record in records for line in wording.lines(record)] == [
        f"broker 1 with {times} become-leader and {2 * times} become-follower partitions",
        f"broker 2 with {2 * times} become-leader and {times} become-follower partitions",
    ]
