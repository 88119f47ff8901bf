"""From decisions to brokers: one fresh request batch per state-machine call, recorded before it leaves.

The order within a flush: the changes of the context go into the audit log, then each request is checked by the guard,
then the requests go into the audit log, and only when its writer has accepted them do the senders get them. So a reader
of the log finds the decision before every request that a broker got, and a guard that refuses one request keeps back
all of them. ZooKeeper's answer came before all that: the state machine filled the batch with what is written there
(``state_changes.py`` says why). A batch that fails half-way is dropped with its block; Kafka's controller kept it, and
refused every later transition because of it.
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
from controllerd.machines.recorded import journal_records
from controllerd.ports.audit import AuditLog
from controllerd.ports.channels import RequestGuard, RequestSender
from controllerd.record.records import LeadershipRecord, Record, RequestRecord
from controllerd.record.request_columns import request_records
from controllerd.slicer import Slicer


class Outbox:
    """Opens request batches and flushes them: changes and requests into the audit log, then requests to the senders."""

    def __init__(
        self,
        context: ControllerContext,
        channels: RequestSender,
        audit: AuditLog,
        new_batch: Callable[[ControllerContext], RequestBatch],
        slicer: Slicer | None = None,
        is_written: Callable[[type[Record]], bool] = lambda _kind: True,
        *,
        names_partitions: bool = True,
    ) -> None:
        """``is_written`` says whether the audit log accepts records of a kind; records of other kinds are not made.

        ``names_partitions``: whether the record of a request lists the partitions of the request.
        """
        self._names_partitions = names_partitions
        self._is_written = is_written
        self._context = context
        self._channels = channels
        self._audit = audit
        self._new_batch = new_batch
        self._is_open = False
        self.guard: RequestGuard | None = None
        """Checks requests before they leave, and raises ``InvariantBroken``."""
        self.slicer: Final = slicer or Slicer()
        """The slicer of the event task, shared by all its passes."""

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
        """Prepare and record the requests slice by slice, then hand all of them to the senders at once.

        A StopReplica that deletes is noted in the context as sent, in the same step.
        """
        await self.write_down_slowly()
        requests: list[tuple[BrokerId, ControlRequest]] = []
        for addressed in batch.requests():
            requests.append(addressed)
            if self.guard is not None:
                self.guard.check_requests((addressed,))
            await self.slicer.yield_to_loop()
        if not requests:
            return
        for record in self._request_records(requests):
            self._audit.record(record)
            await self.slicer.yield_to_loop()
        await self._audit.accepted()
        for broker, request in requests:
            if isinstance(request, StopReplicaRequest):
                self._context.pending_deletions.note_sent(
                    broker, (tp for tp, row in request.partitions.items() if row.delete)
                )
            self._channels.send(broker, request)

    def _request_records(self, requests: Sequence[tuple[BrokerId, ControlRequest]]) -> Iterator[Record]:
        is_written = self._is_written(RequestRecord)
        return request_records(requests if is_written else (), names_partitions=self._names_partitions)

    def write_down(self) -> None:
        """Put the changes of the context since the last call into the audit log."""
        self._audit.record(*self._journal())

    async def write_down_slowly(self) -> None:
        """As ``write_down``, with turns for the event loop between the records."""
        records = self._journal()
        try:
            for record in records:
                self._audit.record(record)
                await self.slicer.yield_to_loop()
        finally:
            # After a cancellation the rest is recorded here: the context no longer has the changes that were taken.
            self._audit.record(*records)

    def _journal(self) -> Iterator[Record]:
        changes = self._context.take_changes()
        return journal_records(changes if self._is_written(LeadershipRecord) else ())

    async def update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """Send UpdateMetadata as a batch of its own; without partitions, it carries only the list of live brokers."""
        async with self.batch() as batch:
            batch.add_update_metadata(brokers, partitions)

    async def update_metadata_of(self, brokers: Iterable[BrokerId], records: Sequence[PartitionRecord]) -> None:
        """As ``update_metadata``, for many partitions, in slices."""
        async with self.batch() as batch:
            batch.add_update_metadata(brokers)
            await self.slicer.for_each_slice(records, batch.add_metadata)

    async def repeat_removals(self, brokers: Iterable[BrokerId]) -> None:
        """Send each broker the removals from its metadata that its closed channels did not deliver, each as a batch.

        A removal tells a broker that a partition is gone. Removals precede all other metadata of the new channel
        (``channel_manager.removals`` says why).
        """
        for broker in brokers:
            if removals := self._channels.take_removals(broker):
                async with self.batch() as batch:
                    batch.add_removals(broker, removals)

    async def stop_replicas(self, broker: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """Send a broker StopReplica for many of its replicas, as a batch of its own."""
        async with self.batch() as batch:
            record = self._context.record
            await self.slicer.for_each_slice(
                partitions, lambda part: batch.add_stops(broker, map(record, part), delete=False)
            )
