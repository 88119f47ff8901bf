"""Windows by SQL equal those that a simple program finds, whatever controllers may have written down."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Final

import pytest

from replay.facts.engine import Row, Value
from tests.replay.sql.book import Book, answer, facts_of

LOGS: Final = 150
PARTITIONS: Final = ("t-0", "t-1", "u-0")
COLUMNS: Final = ("start_epoch", "start_seq", "end_epoch", "end_seq", "ended_by")
Window = tuple[Value, ...]


def random_log(chance: Random, cluster: str) -> Book:
    """A few terms, each with a snapshot of some partitions, in which anything happens in any order."""
    book = Book(cluster=cluster)
    number = 0
    for epoch in sorted(chance.sample(range(1, 9), chance.randint(1, 4))):
        node = chance.choice((7, 8))
        number += 1
        book.at(1000 * epoch, epoch=epoch, node=node, boot=f"b{node}")
        if chance.random() < 0.9:
            there = chance.sample(PARTITIONS, chance.randint(0, 3))
            book.snapshot(*((tp, chance.choice((-1, 1, 2))) for tp in there), event=number)
        else:
            book.event(number, "Startup")
        for _ in range(chance.randint(0, 12)):
            happens(chance, book, chance.choice(PARTITIONS))
            if chance.random() < 0.4:
                number += 1
                book.done().event(number, "E")
            if chance.random() < 0.05:
                book.done().snapshot((chance.choice(PARTITIONS), chance.choice((-1, 1))), event=0)
                number += 1
                book.event(number, "E")
        book.done()
    return book


def happens(chance: Random, book: Book, tp: str) -> None:
    """Write one random change of the partition or its topic."""
    topic = tp[0]
    match chance.randint(0, 8):
        case 0 | 1:
            book.state(tp, "Offline")
        case 2 | 3:
            book.state(tp, "Online")
        case 4:
            book.leads(tp, -1, 1)
        case 5 | 6:
            book.add("decision", topic=topic, partition=int(tp[2:]), unclean=chance.random() < 0.5)
            book.leads(tp, chance.randint(1, 3), 1, 2)
        case 7:
            book.state(tp, chance.choice(("New", "NonExistent")))
        case _:
            book.add(chance.choice(("deletion", "topics_forgotten")), topic=topic, after="queued")


@dataclass
class Known:
    """The state of one partition so far."""

    state: str = ""
    leader: int = -2
    doomed: bool = False
    unclean: bool = False
    was_read: bool = False
    epoch: Value = None
    start: Row | None = None
    start_state: str = ""

    @property
    def lacks(self) -> bool:
        if self.doomed or self.state == "NonExistentPartition":
            return False
        return self.state in {"OfflinePartition", "NewPartition"} or self.leader == -1


@dataclass
class Reference:
    """Walks through one log, a fact at a time, in the order of controllers."""

    known: dict[str, Known] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    opened: Row | None = None
    seen: set[str] = field(default_factory=set)
    is_reading: bool = False

    def walk(self, rows: list[Row]) -> list[Window]:
        for row in sorted(rows, key=lambda row: [row[name] for name in ("epoch", "node", "boot", "seq", "row")]):
            if row["kind"] == "snapshot_begin":
                self.is_reading, self.seen = True, set()
                self.opened = row if row["event"] else None
            elif row["kind"] == "snapshot_end":
                self.close_snapshot()
            else:
                self.take(row)
        for tp, known in self.known.items():
            if known.start is not None:
                self.windows.append(self.window(tp, known.start, None, None))
        return self.windows

    def close_snapshot(self) -> None:
        self.is_reading = False
        if self.opened is None:
            return
        for tp in [tp for tp in self.known if tp not in self.seen]:
            gone = self.known.pop(tp)
            if gone.start is not None:
                self.windows.append(self.window(tp, gone.start, self.opened, "unknown"))

    def take(self, row: Row) -> None:
        for tp in self.concerned(row):
            self.seen.add(tp)
            known = self.known.setdefault(tp, Known())
            if known.epoch != row["epoch"]:
                known.epoch, known.doomed = row["epoch"], False
            self.change(known, row)
            self.look(tp, known, row)

    def concerned(self, row: Row) -> Iterator[str]:
        if row["kind"] in {"deletion", "topics_forgotten"}:
            yield from (tp for tp in PARTITIONS if tp[0] == row["topic"])
        elif "topic" in row:
            yield f"{row['topic']}-{row['partition']}"

    def change(self, known: Known, row: Row) -> None:
        match row["kind"]:
            case "partition_state":
                known.state = str(row["after"])
                known.unclean = known.unclean and known.state not in {"OfflinePartition", "NewPartition"}
            case "leadership":
                assert isinstance(row["leader"], int)
                known.leader, known.was_read = row["leader"], self.is_reading
                known.unclean = known.unclean and known.leader >= 0
            case "decision":
                known.unclean = bool(row["unclean"])
            case "deletion":
                known.doomed = True
            case "topics_forgotten":
                known.state, known.leader, known.doomed = "NonExistentPartition", -2, False
            case _:
                pass

    def look(self, tp: str, known: Known, row: Row) -> None:
        if known.lacks and known.start is None:
            known.start, known.start_state = row, known.state
        elif not known.lacks and known.start is not None:
            is_deleted = known.doomed or known.state == "NonExistentPartition"
            how = "unclean leader" if known.unclean and not known.was_read else "leader"
            start, known.start = known.start, None
            is_one_event = all(start[name] == row[name] for name in ("epoch", "node", "boot", "event"))
            if not ((is_deleted or known.start_state == "NewPartition") and is_one_event and row["event"]):
                self.windows.append(self.window(tp, start, row, "deleted" if is_deleted else how))

    def window(self, tp: str, start: Row, end: Row | None, how: str | None) -> Window:
        ends = (None, None) if end is None else (end["epoch"], end["seq"])
        return start["cluster"], tp, start["epoch"], start["seq"], *ends, how


@pytest.mark.parametrize("seed", range(4))
def test_sql_finds_the_windows_that_a_walk_through_the_log_finds(seed: int) -> None:
    chance = Random(seed)
    books = [random_log(chance, f"c{number:03}") for number in range(LOGS)]
    expected = [window for book in books for window in Reference().walk(book.rows)]
    found = [
        (row["cluster"], f"{row['topic']}-{row['partition']}", *(row[name] for name in COLUMNS))
        for row in answer(facts_of([row for book in books for row in book.rows]), "windows")
    ]
    assert len(expected) > LOGS
    assert {window[-1] for window in expected} == {None, "leader", "unclean leader", "deleted", "unknown"}
    assert sorted(map(repr, found)) == sorted(map(repr, expected))
