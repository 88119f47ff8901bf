"""The bus for records: each record goes to every subscriber that takes its kind, in a fixed order.

The order has reasons:

1. The watch of the event loop (``controllerd.loop.WriteWatch``). When the handling of an event fails, the loop must
   know whether the event has written to ZooKeeper, because a write ends the term (a new epoch, all state reloaded).
   The watch is first, so that no failure of a later subscriber can hide a write from it.
2. The writer of the audit log. It comes before every reader, so that a failing reader never keeps a record from the
   log. The stamp comes before the write: the queue of the writer gives a record its number, its time, its term and its
   event in the same call (``audit.backlog``), and the record that begins an event carries that event's number.
3. The readers: the newest records in memory, Kafka's own logs, the lines in the daemon's log, the metrics. They do not
   depend on each other. Each of them only stores or counts a record, and none of them waits.

If a reader raises, the call fails as for any defect in the handling of the event. The readers after it do not get the
records of this call.

Requests to brokers leave only after ``accepted`` has returned: ``controllerd.audit.writer`` has the argument.
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
        """The kinds of records that the bus gives to it."""
        ...

    def record(self, *records: Record) -> None:
        """Take records in the order in which they were recorded; never blocks."""
        ...


class RecordBus:
    """Implements ``controllerd.ports.audit.AuditLog`` for all components. Used in the event loop's thread only."""

    def __init__(
        self, writer: AuditLog, *, before: Sequence[Subscriber] = (), after: Sequence[Subscriber] = ()
    ) -> None:
        """The subscribers ``before`` the writer and ``after`` it are called in their order."""
        self._writer = writer
        self._subscribers = [
            *((each.takes, each.record) for each in before),
            (EVERY_KIND, writer.record),
            *((each.takes, each.record) for each in after),
        ]

    def record(self, *records: Record) -> None:
        """Give each subscriber the records of the kinds that it takes."""
        for takes, record in self._subscribers:
            if takes is EVERY_KIND:
                record(*records)
            elif taken := [each for each in records if type(each) in takes]:
                record(*taken)

    async def accepted(self) -> None:
        """Wait, for a bounded time, until the writer has written all records so far."""
        await self._writer.accepted()
