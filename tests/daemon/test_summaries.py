"""The one line that an event leaves in the daemon's own log."""

from structlog.testing import capture_logs

from controllerd.daemon.summaries import MAX_NAMED, EventSummaries
from controllerd.record.records import (
    BrokersRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    TermRecord,
)


def line_of(*records: Record) -> list[dict[str, object]]:
    """The lines about these records in the course of one event."""
    assert {type(record) for record in records} <= EventSummaries.takes
    with capture_logs() as lines:
        EventSummaries().record(
            TermRecord("elected", 7, 12, "controllerd", ""),
            EventBegin(25, "BrokerChange", 2, 0.1),
            *records,
            EventEnd(25, "BrokerChange", "done", 1.26),
        )
    return [dict(line) for line in lines]


def leaders(topics: list[str], partitions: list[int]) -> LeadershipRecord:
    """Leaderships of these partitions."""
    n = len(topics)
    return LeadershipRecord(topics, partitions, [1] * n, [3] * n, [[1]] * n, [7] * n, [1] * n, [0] * n)


def test_an_event_is_one_line_with_its_topics_and_brokers() -> None:
    (line,) = line_of(BrokersRecord(gone=[1]), leaders(["payments", "orders"], [0, 3]))

    assert line == {
        "event": "event handled",
        "event_id": 25,
        "event_name": "BrokerChange",
        "outcome": "done",
        "epoch": 7,
        "took_ms": 1.3,
        "topics": ["orders", "payments"],
        "brokers": [1],
        "log_level": "info",
    }


def test_partitions_are_named_where_there_is_one_topic() -> None:
    states = PartitionStateRecord(["payments"] * 2, [7, 4], ["OnlinePartition"] * 2, ["OfflinePartition"] * 2)

    (line,) = line_of(states)

    assert (line["topics"], line["partitions"]) == (["payments"], [4, 7])


def test_of_many_topics_some_are_named_and_the_others_counted() -> None:
    names = [f"t{number:03}" for number in range(100)]

    (line,) = line_of(leaders(names, [0] * 100))

    assert line["topics"] == names[:MAX_NAMED]
    assert line["more_topics"] == 100 - MAX_NAMED


def test_an_event_without_effects_has_no_line() -> None:
    assert line_of() == []


def test_effects_of_an_event_are_not_in_the_line_of_the_next() -> None:
    summaries = EventSummaries()
    with capture_logs() as lines:
        summaries.record(EventBegin(1, "BrokerChange", 2, 0.1), BrokersRecord(gone=[1]))
        summaries.record(EventEnd(1, "BrokerChange", "done", 1.0))
        summaries.record(EventBegin(2, "BrokerChange", 2, 0.1), BrokersRecord(gone=[2]))
        summaries.record(EventEnd(2, "BrokerChange", "done", 1.0))

    assert [line["brokers"] for line in lines] == [[1], [2]]
