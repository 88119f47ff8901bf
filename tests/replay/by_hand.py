"""A small log written out, and its tables calculated by hand. Moments are milliseconds since it begins."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from controllerd.record.envelope import Envelope
from controllerd.record.records import (
    AssignmentRecord,
    BrokerRow,
    BrokersRecord,
    DeletionRecord,
    EventBegin,
    EventEnd,
    LeadershipRecord,
    PartitionStateRecord,
    ReassignmentRecord,
    Record,
    ResponseRecord,
    SnapshotBegin,
    SnapshotEnd,
    TermRecord,
    TopicsForgotten,
    TopicsRecord,
)
from replay.facts.engine import Row, Value
from tests.record.logs import NODE
from tests.replay.command.lives import written

BEGIN_MS: Final = 1_700_000_000_000
ALTER: Final = "AlterPartitionReceived"
Timed = tuple[int, int, Record]
"""The milliseconds since the log begins, the number of the event, the record."""


def startup() -> list[Timed]:
    """Brokers 1 to 4; a-0, a-1 and b-0 with three replicas, old-0 with one; everything is in sync."""
    topics, numbers = ["a", "a", "b", "old"], [0, 1, 0, 0]
    replicas, leaders = [[1, 2, 3], [2, 3, 1], [1, 2, 3], [1]], [1, 2, 1, 1]
    nothing: list[list[int]] = [[], [], [], []]
    return [
        (0, 0, TermRecord("elected", 7, 12, "controllerd", "nobody held it")),
        (0, 1, EventBegin(1, "Startup", 1, 0.5)),
        (0, 1, SnapshotBegin(7)),
        (0, 1, BrokersRecord(live=[BrokerRow(broker, 100 + broker, [], None) for broker in (1, 2, 3, 4)])),
        (0, 1, TopicsRecord(["a", "b", "old"], ["id-a", "id-b", "id-old"], [0, 0, 0])),
        (0, 1, AssignmentRecord(topics, numbers, replicas, nothing, nothing)),
        (0, 1, LeadershipRecord(topics, numbers, leaders, [0] * 4, replicas, [6] * 4, [0] * 4, [0] * 4)),
        (0, 1, SnapshotEnd(4, 3, 4)),
        (0, 1, PartitionStateRecord(topics, numbers, ["NonExistentPartition"] * 4, ["OnlinePartition"] * 4)),
        (10, 1, EventEnd(1, "Startup", "done", 10.0)),
    ]


def leads(topic: str, partition: int, leader: int, epoch: int, isr: list[int], version: int) -> LeadershipRecord:
    return LeadershipRecord([topic], [partition], [leader], [epoch], [isr], [7], [version], [0])


def isr(at: int, event: int, record: Record, queued_ms: float, took_ms: float) -> list[Timed]:
    """A leader reports another ISR."""
    begin, end = EventBegin(event, ALTER, 9, queued_ms), EventEnd(event, ALTER, "done", took_ms)
    return [(at, event, begin), (at, event, record), (at, event, end)]


def churn() -> list[Timed]:
    """a-0 shrinks twice and grows twice, from one to three in one step; a-1 shrinks once."""
    return [
        *isr(100, 2, leads("a", 0, 1, 0, [1, 2], 1), 1.0, 2.0),
        *isr(200, 3, leads("a", 0, 1, 0, [1, 2, 3], 2), 3.0, 2.0),
        *isr(300, 4, leads("a", 0, 1, 0, [1], 3), 2.0, 2.0),
        *isr(400, 5, leads("a", 0, 1, 0, [1, 2, 3], 4), 4.0, 8.0),
        *isr(500, 6, leads("a", 1, 2, 0, [2, 1], 1), 10.0, 2.0),
    ]


def answers() -> list[Timed]:
    """Broker 1 takes 20, 19, ... 1 ms; the slowest answer is an error, the two fastest were sent twice."""
    return [
        *(
            (
                600,
                0,
                ResponseRecord(
                    1,
                    101,
                    "UpdateMetadata",
                    8,
                    21 - ms,
                    100,
                    2 if ms <= 2 else 1,
                    float(ms),
                    41 if ms == 20 else 0,
                ),
            )
            for ms in range(20, 0, -1)
        ),
        (601, 0, ResponseRecord(2, 102, "LeaderAndIsr", 7, 1, 250, 1, 7.0, 0)),
    ]  # fmt: skip


def reassignment() -> list[Timed]:
    """b-0 is reassigned from 1, 2, 3 to 4, 2: broker 4 needs a minute to catch up."""
    asked, done = "ApiPartitionReassignment", "PartitionReassignmentIsrChange"
    return [
        (1_000, 7, EventBegin(7, asked, 6, 0.1)),
        (1_000, 7, ReassignmentRecord("begun", ["b"], [0])),
        (1_001, 7, AssignmentRecord(["b"], [0], [[4, 2, 1, 3]], [[4]], [[1, 3]])),
        (1_002, 7, leads("b", 0, 1, 1, [1, 2, 3], 1)),
        (1_003, 7, EventEnd(7, asked, "done", 3.0)),
        *isr(61_000, 8, leads("b", 0, 1, 1, [1, 2, 3, 4], 2), 0.0, 1.0),
        (61_500, 9, EventBegin(9, done, 6, 0.1)),
        (61_500, 9, ReassignmentRecord("completing", ["b"], [0])),
        (61_510, 9, leads("b", 0, 4, 2, [4, 2], 3)),
        (61_520, 9, AssignmentRecord(["b"], [0], [[4, 2]], [[]], [[]])),
        (61_520, 9, ReassignmentRecord("completed", ["b"], [0])),
        (61_530, 9, EventEnd(9, done, "done", 30.0)),
    ]


def deletion() -> list[Timed]:
    """Topic old waits 15 of 25.5 seconds for broker 1."""
    said = [
        (70_000, DeletionRecord(["old"], ["queued"], [None])),
        (70_010, DeletionRecord(["old"], ["started"], [None])),
        (80_000, DeletionRecord(["old"], ["halted"], ["broker 1 is away"])),
        (95_000, DeletionRecord(["old"], ["resumed"], [None])),
        (95_500, TopicsForgotten(["old"])),
    ]
    return [(at, 10 + number, record) for number, (at, record) in enumerate(said)]


def write_by_hand(folder: Path) -> str:
    """Write the log as the daemon does; its folder."""
    timed = [*startup(), *churn(), *answers(), *reassignment(), *deletion()]
    log = [
        (
            Envelope(1, record.kind, "by-hand", NODE, "boot", seq, 7, event, BEGIN_MS + at, at * 10**6, ""),
            record,
        )
        for seq, (at, event, record) in enumerate(timed, 1)
    ]
    return str(written(log, folder))


EXPECTED: Final[Mapping[str, tuple[str, list[tuple[Value, ...]]]]] = {
    "churn": (
        "topic partition leader_changes shrinks expands last_ms",
        [("a", 0, 0, 2, 2, 400), ("a", 1, 0, 1, 0, 500), ("b", 0, 1, 1, 1, 61_510)],
    ),
    "isr_changes": (
        "topic partition ts_ms change before after",
        [
            ("a", 0, 100, "shrink", [1, 2, 3], [1, 2]),
            ("a", 0, 200, "expand", [1, 2], [1, 2, 3]),
            ("a", 0, 300, "shrink", [1, 2, 3], [1]),
            ("a", 0, 400, "expand", [1], [1, 2, 3]),
            ("a", 1, 500, "shrink", [2, 3, 1], [2, 1]),
            ("b", 0, 61_000, "expand", [1, 2, 3], [1, 2, 3, 4]),
            ("b", 0, 61_510, "shrink", [1, 2, 3, 4], [4, 2]),
        ],
    ),
    # Of 0, 1, 2, 3, 4, 10 ms the third is the median, the sixth all above; of 1, 2, 2, 2, 2, 8 likewise.
    "events": (
        "name count failed queued_p50_us queued_p95_us queued_max_us took_p50_us took_p95_us took_max_us",
        [
            (ALTER, 6, 0, 2_000, 10_000, 10_000, 2_000, 8_000, 8_000),
            ("ApiPartitionReassignment", 1, 0, 100, 100, 100, 3_000, 3_000, 3_000),
            ("PartitionReassignmentIsrChange", 1, 0, 100, 100, 100, 30_000, 30_000, 30_000),
            ("Startup", 1, 0, 500, 500, 500, 10_000, 10_000, 10_000),
        ],
    ),
    "requests": (
        "broker api count errors retried bytes took_p50_us took_p95_us took_p99_us took_max_us",
        [
            (1, "UpdateMetadata", 20, 1, 2, 2_000, 10_000, 19_000, 20_000, 20_000),
            (2, "LeaderAndIsr", 1, 0, 0, 250, 7_000, 7_000, 7_000, 7_000),
        ],
    ),
    "reassignments": (
        "topic partition begun_ms ended_ms duration_us outcome replicas adding removing waited_for caught_up_ms",
        [("b", 0, 1_000, 61_520, 60_520_000, "completed", [4, 2, 1, 3], [4], [1, 3], [4], 61_000)],
    ),
    "deletions": (
        "topic asked_ms started_ms ended_ms duration_us halts halted_us blocked_by",
        [("old", 70_000, 70_010, 95_500, 25_500_000, 1, 15_000_000, "broker 1 is away")],
    ),
}
"""By table: its columns, and the rows."""


def said(rows: Sequence[Row], names: str) -> list[tuple[Value, ...]]:
    """These columns of the rows; moments since the beginning of the log."""
    return [tuple(_since(name, row[name]) for name in names.split()) for row in rows]


def _since(name: str, value: Value) -> Value:
    return value - BEGIN_MS if name.endswith("_ms") and isinstance(value, int) else value
