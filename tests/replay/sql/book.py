"""Facts for tests, written as a controller would write them; and tables made of them."""

from collections.abc import Sequence
from typing import Final, Self

import pyarrow as pa

from replay.facts.engine import Row, Value
from replay.ingest.arrow_batches import SCHEMA
from replay.local.duck import duck

START_MS: Final = 1_700_000_000_000
_PLACE: Final[Row] = {
    "cluster": "c",
    "date": "2023-11-14",
    "source": "audit",
    "node": 7,
    "boot": "b",
    "epoch": 1,
    "event": 0,
    "file": "f",
}


class Book:
    """Facts in order: each ``add`` is a record, a millisecond after the one before.

    Moments are milliseconds since ``START_MS``; ``event`` is the number of the event that records belong to.
    """

    def __init__(self, **place: Value) -> None:
        self.rows: list[Row] = []
        self.place: Row = dict(_PLACE)
        self.place.update(place)
        self._seqs: dict[tuple[Value, Value, Value], int] = {}
        self._ms = 0

    def at(self, ms: int, **place: Value) -> Self:
        """The next record is of this moment, and this node, boot, epoch or event from now on."""
        self._ms = ms
        self.place |= place
        return self

    def event(self, number: int, name: str, *, state: int = 2, queued_us: int = 0) -> Self:
        """An event begins; the following records belong to it."""
        self.place["event"] = number
        return self.add("event_begin", name=name, state=state, queued_us=queued_us)

    def done(self, outcome: str = "done", *, took_us: int = 0) -> Self:
        """The event ends; the following records belong to no event."""
        begun = next(row for row in reversed(self.rows) if row["kind"] == "event_begin")
        self.add("event_end", name=begun["name"], after=outcome, took_us=took_us)
        self.place["event"] = 0
        return self

    def add(self, kind: str, *rows: Row, **columns: Value) -> Self:
        """A record of these rows, or of one row of these columns."""
        key = self.place["cluster"], self.place["node"], self.place["boot"]
        seq = self._seqs[key] = self._seqs.get(key, 0) + 1
        place: Row = self.place | {
            "seq": seq, "line": seq, "kind": kind, "ts_ms": START_MS + self._ms, "mono_us": 1000 * self._ms,
        }  # fmt: skip
        self._ms += 1
        self.rows += [place | {"row": number} | columns | row for number, row in enumerate(rows or ({},))]
        return self

    def skip(self, numbers: int) -> Self:
        """So many records were lost."""
        key = self.place["cluster"], self.place["node"], self.place["boot"]
        self._seqs[key] = self._seqs.get(key, 0) + numbers
        return self

    def state(self, tp: str, after: str, before: str = "OnlinePartition", **columns: Value) -> Self:
        """A partition, written ``topic-0``, changed its state; states without ``Partition``."""
        return self.add("partition_state", before=f"{before}", after=f"{after}Partition", **_named(tp), **columns)

    def leads(self, tp: str, leader: int, *isr: int, epoch: int = 0, version: int | None = None) -> Self:
        """A leadership was written."""
        return self.add(
            "leadership", **_named(tp), leader=leader, isr=list(isr), leader_epoch=epoch, partition_epoch=version
        )

    def assigned(
        self, tp: str, replicas: Sequence[int], adding: Sequence[int] = (), removing: Sequence[int] = ()
    ) -> Self:
        """An assignment was written."""
        lists: Row = {"replicas": list(replicas), "adding": list(adding), "removing": list(removing)}
        return self.add("assignment", **_named(tp), **lists)

    def snapshot(self, *partitions: tuple[str, int], event: int = 1, name: str = "Startup") -> Self:
        """An event that reads these partitions with these leaders, and is not done yet. Event 0: a periodic one."""
        if event:
            self.event(event, name, state=1)
        self.add("snapshot_begin")
        for tp, leader in partitions:
            self.assigned(tp, [1, 2]).leads(tp, leader, 1, 2)
        return self.add("snapshot_end")

    def table(self) -> pa.Table:
        """All facts."""
        return facts_of(self.rows)


def _named(tp: str) -> Row:
    topic, _, partition = tp.rpartition("-")
    return {"topic": topic, "partition": int(partition)}


def facts_of(rows: Sequence[Row]) -> pa.Table:
    """Rows of any columns as facts; the others are null."""
    return pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | row for row in rows], SCHEMA)


def answer(facts: Book | pa.Table, name: str) -> list[Row]:
    """One table of these facts."""
    with duck() as opened:
        opened.take(facts.table() if isinstance(facts, Book) else facts)
        return list(opened.tables([name])[name])


def columns(rows: Sequence[Row], *names: str) -> list[tuple[Value, ...]]:
    """Some columns of all rows; moments (``_ms``) since ``START_MS``."""
    return [tuple(_since_start(name, row[name]) for name in names) for row in rows]


def _since_start(name: str, value: Value) -> Value:
    return value - START_MS if name.endswith("_ms") and isinstance(value, int) else value
