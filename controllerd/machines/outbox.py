"""From decisions to brokers: one fresh request batch per state-machine call, written down before it leaves.

A batch that fails half-way is dropped with its block; the peer kept it and refused every later transition.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from channel_manager.batch import RequestBatch
from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import IllegalState
from controllerd.ports import AuditLog, Channels
from replay.columns import records_of, request_records


class Outbox:
    """Opens request batches and flushes them: changes and requests into the audit log, then requests to the senders."""

    def __init__(
        self,
        context: ControllerContext,
        channels: Channels,
        audit: AuditLog,
        new_batch: Callable[[ControllerContext], RequestBatch],
    ) -> None:
        self._context = context
        self._channels = channels
        self._audit = audit
        self._new_batch = new_batch
        self._is_open = False

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
        self.write_down()
        requests = batch.take()
        if not requests:
            return
        self._audit.record(*request_records(requests))
        await self._audit.accepted()
        for broker, request in requests:
            self._channels.send(broker, request)

    def write_down(self) -> None:
        """Put what changed in the context since the last time into the audit log."""
        changes = self._context.take_changes()
        if changes:
            self._audit.record(*records_of(changes))

    async def update_metadata(self, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition] = ()) -> None:
        """An explicit UpdateMetadata, as a batch of its own. Without partitions: only the live brokers changed."""
        async with self.batch() as batch:
            batch.add_update_metadata(brokers, partitions)
