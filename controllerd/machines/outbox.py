"""From decisions to brokers: one fresh request batch per state-machine call, written down before it leaves.

A batch that fails half-way is dropped with its block; the peer kept it and refused every later transition.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.requests import ControlRequest, StopReplicaRequest
from controllerd.errors import IllegalState
from controllerd.guards import RequestGuard
from controllerd.machines.recorded import journal_records
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, Channels
from controllerd.record.records import LeadershipRecord, Record, RequestRecord
from controllerd.record.request_columns import request_records

SLICE: Final = 1_000
"""Partitions of a pass between two looks at the clock."""


class Outbox:
    """Opens request batches and flushes them: changes and requests into the audit log, then requests to the senders."""

    def __init__(
        self,
        context: ControllerContext,
        channels: Channels,
        audit: AuditLog,
        new_batch: Callable[[ControllerContext], RequestBatch],
        pace: Pace | None = None,
        is_written: Callable[[type[Record]], bool] = lambda _kind: True,
        *,
        names_partitions: bool = True,
    ) -> None:
        """``is_written``: whether the audit log takes records of a kind; none is made that it does not take.

        ``names_partitions``: whether records of requests do so.
        """
        self._names_partitions = names_partitions
        self._is_written = is_written
        self._context = context
        self._channels = channels
        self._audit = audit
        self._new_batch = new_batch
        self._is_open = False
        self.guard: RequestGuard | None = None
        """Looks at requests before they leave, and raises ``InvariantBroken``."""
        self.pace: Final = pace or Pace()
        """The one pace of the event task: many short passes in a row are one long one to everybody else."""

    @asynccontextmanager
    async def batch(self) -> AsyncIterator[RequestBatch]:
        """A batch to fill; it is flushed at the end of the block, and dropped when the block fails.

        :raises IllegalState: another batch is still open.
        """
        if self._is_open:
            raise IllegalState("a request batch is still open: its requests would be sent out of order")
        self._is_open = True
        try:
            batch = self._new_batch(self._context)
            yield batch
            await self._flush(batch)
        finally:
            self._is_open = False

    async def _flush(self, batch: RequestBatch) -> None:
        """Everything is prepared in slices and recorded; then all of it goes to the senders in one go."""
        await self.write_down_slowly()
        requests: list[tuple[BrokerId, ControlRequest]] = []
        for addressed in batch.requests():
            requests.append(addressed)
            if self.guard is not None:
                self.guard.check_requests((addressed,))
            await self.pace.breathe()
        if not requests:
            return
        for record in self._request_records(requests):
            self._audit.record(record)
            await self.pace.breathe()
        await self._audit.accepted()
        for broker, request in requests:
            if isinstance(request, StopReplicaRequest):
                self._context.pending_deletions.order(
                    broker, (tp for tp, row in request.partitions.items() if row.delete)
                )
            self._channels.send(broker, request)

    def _request_records(self, requests: Sequence[tuple[BrokerId, ControlRequest]]) -> Iterator[Record]:
        is_written = self._is_written(RequestRecord)
        return request_records(requests if is_written else (), names_partitions=self._names_partitions)

    def write_down(self) -> None:
        """Put what changed in the context since the last time into the audit log."""
        self._audit.record(*self._journal())

    async def write_down_slowly(self) -> None:
        """The same, with turns for the event loop in between."""
        records = self._journal()
        try:
            for record in records:
                self._audit.record(record)
                await self.pace.breathe()
        finally:
            self._audit.record(*records)  # nothing unless it was cancelled: what was taken is written down

    def _journal(self) -> Iterator[Record]:
        changes = self._context.take_changes()
        return journal_records(changes if self._is_written(LeadershipRecord) else ())

    async def update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """An explicit UpdateMetadata, as a batch of its own. Without partitions: only the live brokers changed."""
        async with self.batch() as batch:
            batch.add_update_metadata(brokers, partitions)

    async def update_metadata_of(self, brokers: Iterable[BrokerId], records: Sequence[PartitionRecord]) -> None:
        """The same for many partitions, in slices."""
        async with self.batch() as batch:
            batch.add_update_metadata(brokers)
            for part in sliced(records, SLICE):
                batch.add_metadata(part)
                await self.pace.breathe()

    async def repeat_removals(self, brokers: Iterable[BrokerId]) -> None:
        """Send each broker what its closed channels were still to remove from its metadata, as a batch of its own.

        This comes before all other metadata of the new channel (``channel_manager.removals`` says why).
        """
        for broker in brokers:
            if removals := self._channels.take_removals(broker):
                async with self.batch() as batch:
                    batch.add_removals(broker, removals)

    async def stop_replicas(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """Tell a broker to stop many of its replicas, as a batch of its own."""
        async with self.batch() as batch:
            for part in sliced(partitions, SLICE):
                batch.add_stops(broker, map(self._context.record, part), delete=False)
                await self.pace.breathe()
