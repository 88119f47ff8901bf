"""A piece of the logs of a real cluster: three brokers of 3.9 under Kafka's own controller, two of which were killed.

A topic was deleted and two partitions were reassigned in between. The windows are those that ZooKeeper's transaction
log of the same run has.
"""

from pathlib import Path

import pytest

from replay.ingest.kafka.reader import is_kafka_log, read_logs
from tests.replay.kafka_logs.cases import of

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.glob("broker-*/*.log"))
TRUE = {
    ("doomed", 0): [(86_246, 86_268)],
    ("lonely.rows-1", 0): [(86_246, 87_699)],
    ("lonely.rows-1", 1): [(94_745, 97_122)],
    ("orders", 0): [(86_246, 86_268), (94_745, 94_909)],
    ("orders", 1): [(94_745, 94_911)],
    ("orders", 3): [(86_246, 86_268), (94_745, 94_911)],
    ("orders", 4): [(94_745, 94_911)],
    ("pairs-of-2", 0): [(86_246, 86_269)],
    ("pairs-of-2", 1): [(94_745, 94_911)],
}
"""Milliseconds after the beginning of 2026-11-22 04:50:00 UTC."""
BEGIN_MS = 1_795_323_000_000
NOTICED_MS, WRITTEN_MS, ROUNDING_MS = 150, 20, 2


@pytest.mark.parametrize(
    "name",
    [
        "state-change.log",
        "state-change.log.2026-01-31-03",
        "controller.log.2026-01-31-03.gz",
        "server.log.1",
        "b7-state-change.log",
        "blue-kafka-0.log",
        "kafkaServer.out",
    ],
)
def test_a_log_of_kafka_is_known_by_its_name(name: str) -> None:
    assert is_kafka_log(name)


@pytest.mark.parametrize("name", ["kafkaServer-gc.log", "kafka-request.log", "log-cleaner.log", "audit.jsonl", "a.log"])
def test_a_file_without_facts_is_no_kafka_log(name: str) -> None:
    assert not is_kafka_log(name)


def test_every_line_is_known() -> None:
    rows = list(read_logs(FILES))

    assert len(FILES) == 6
    assert all(map(is_kafka_log, FILES))
    assert of(rows, "unknown_line", "file", "line", "data") == []
    assert len(rows) > 300


def test_the_windows_agree_with_zookeeper() -> None:
    rows = list(read_logs(FILES))

    found: dict[tuple[object, object], list[list[int]]] = {}
    for row in rows:
        if row["kind"] == "partition_state":
            edges = found.setdefault((row["topic"], row["partition"]), [])
            if row["after"] == "OfflinePartition":
                edges.append([int(str(row["ts_ms"])) - BEGIN_MS])
            elif row["before"] == "OfflinePartition":
                edges[-1].append(int(str(row["ts_ms"])) - BEGIN_MS)

    assert {partition: len(edges) for partition, edges in found.items() if edges} == {
        partition: len(edges) for partition, edges in TRUE.items()
    }
    pairs = [
        (one, other) for partition, true in TRUE.items() for one, other in zip(found[partition], true, strict=True)
    ]
    assert all(-ROUNDING_MS <= start - true_start <= NOTICED_MS for (start, _), (true_start, _) in pairs)
    assert all(-ROUNDING_MS <= end - true_end <= WRITTEN_MS for (_, end), (_, true_end) in pairs)


def test_terms_reassignments_and_deletions_are_read() -> None:
    rows = list(read_logs(FILES))

    assert of(rows, "term", "epoch", "node", "name") == [(1, 2, "elected"), (2, 3, "elected")]
    assert of(rows, "reassignment", "topic", "partition", "after") == [
        ("orders", 1, "begun"),
        ("orders", 1, "completed"),
        ("pairs-of-2", 0, "begun"),
        ("pairs-of-2", 0, "completing"),
        ("pairs-of-2", 0, "completed"),
    ]
    assert of(rows, "deletion", "topic", "after") == [("doomed", "queued"), ("doomed", "started")]
    assert of(rows, "topics_forgotten", "topic") == [("doomed",)]
