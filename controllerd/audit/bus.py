"""The bus for records: each record goes to every subscriber that takes its kind, in one order.

The order has reasons:

1. The watch of the event loop (``controllerd.loop.WriteWatch``). When the handling of an event fails, the loop must
   know whether the event has written to ZooKeeper, because a write costs the term (a new epoch, everything reloaded).
   No failure behind the watch can hide a write from it.
2. The writer of the audit log. It comes before every reader, so that a reader that fails never keeps a record from the
   log. The stamp comes before the write: the queue of the writer gives a record its number, its moment, its term and
   its event in the same call (``audit.backlog``), and a record that begins an event carries that event's number.
3. The readers: the newest records in memory, Kafka's own logs, the lines in the daemon's log, the metrics. They do not
   depend on each other. Each of them only puts a record aside or counts it, and none of them waits.

A reader that raises fails the call, as any defect of the event that is being handled does; readers behind it do not get
the records of this call.

Requests to brokers leave after ``accepted`` has returned (``machines.outbox``): the writer thread has the records that
explain a request before a broker can act on it, or the bounded wait is over.
"""

from collections.abc import Sequence
from typing import Protocol

from controllerd.ports.audit import AuditLog
from controllerd.record.kinds import EVERY_KIND
from controllerd.record.records import Record


class Subscriber(Protocol):
    """A receiver of records that declares which kinds it takes."""

    @property
    def takes(self) -> frozenset[type[Record]]:
        """The kinds that it is given; it never sees the others."""
        ...

    def record(self, *records: Record) -> None:
        """Take records in the order in which they were recorded; never blocks."""
        ...


class RecordBus:
    """Implements ``controllerd.ports.AuditLog`` for everything that records. Belongs to the event loop's thread."""

    def __init__(
        self, writer: AuditLog, *, before: Sequence[Subscriber] = (), after: Sequence[Subscriber] = ()
    ) -> None:
        """``before`` the writer and ``after`` it the other subscribers are called, each group in its order."""
        self._writer = writer
        self._subscribers = [
            *((each.takes, each.record) for each in before),
            (EVERY_KIND, writer.record),
            *((each.takes, each.record) for each in after),
        ]

    def record(self, *records: Record) -> None:
        """Give each subscriber those records that it takes."""
        for takes, record in self._subscribers:
            if takes is EVERY_KIND:
                record(*records)
            elif taken := [each for each in records if type(each) in takes]:
                record(*taken)

    async def accepted(self) -> None:
        """Wait, for a bounded time, until the writer has taken everything."""
        await self._writer.accepted()
