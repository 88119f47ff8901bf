"""Request the sizes of replicas from brokers, while replicas move or are deleted, or for a plan.

This happens outside of the event task: one request per broker and round, each for a bounded time. A broker that does
not answer is visible in the view, and delays no other.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Final

import structlog

from controllerd.api.broker_versions import plaintext_endpoint
from controllerd.core.model import Broker, BrokerId, TopicPartition
from controllerd.core.replica_sizes import NO_SIZES, SizeBook, SizesView
from controllerd.slicer import Slicer
from controllerd.snapshot import ClusterSnapshot
from wire.connection import KafkaConnection
from wire.errors import WireError
from wire.log_dirs import VERSION, decode_log_dirs, encode_log_dirs_query
from wire.transport import PLAINTEXT, Transport
from wire.versions import ApiKey

_CLIENT_ID: Final = "controllerd"
_AT_ONCE: Final = 8
"""Brokers that are asked at the same time."""
MOST: Final = 20_000
"""Replicas that one broker is asked for in a round; the others come when these are done."""
_LOG = structlog.get_logger(__name__)

Wanted = Mapping[BrokerId, frozenset[TopicPartition]]


class ReplicaSizes:
    """The poller and its latest view; ``run`` it as a task of its own."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        listener: str,
        now: Callable[[], float],
        *,
        every_s: float = 5.0,
        ask_s: float = 4.0,
        transport: Transport = PLAINTEXT,
    ) -> None:
        """``listener`` is that between brokers; ``now`` returns monotonic seconds; ``ask_s`` bounds one request."""
        self._snapshot = snapshot
        self._listener = listener
        self._now = now
        self._every_s = every_s
        self._ask_s = ask_s
        self._transport = transport
        self._book = SizeBook()
        self._view = NO_SIZES
        self._limit = asyncio.Semaphore(_AT_ONCE)

    def view(self) -> SizesView:
        """Return the known sizes of the replicas that move or are deleted."""
        return self._view

    async def run(self) -> None:
        """Send requests every few seconds, while replicas move or are deleted."""
        while True:
            await self.request_sizes()
            await asyncio.sleep(self._every_s)

    async def request_sizes(self) -> None:
        """Request the sizes once."""
        wanted = await self._moving_or_deleted()
        self._book.keep(wanted)
        if wanted:
            await self._ask_all(wanted, self._book)
        self._view = self._book.view() if wanted else NO_SIZES

    async def measure(self, partitions: Iterable[TopicPartition]) -> SizesView:
        """Request the sizes of all replicas of these partitions, for a plan, in about ``ask_s`` per eight brokers."""
        book = SizeBook()
        await self._ask_all(await self._on_brokers(partitions), book)
        return book.view()

    async def _moving_or_deleted(self) -> Wanted:
        """Return the replicas that move or are being deleted; none on a standby."""
        if not self._snapshot.is_active:
            return {}
        partitions = list(self._snapshot.progress.reassignments())
        for name, deletion in list(self._snapshot.deletions.items()):
            if deletion.is_queued and (topic := self._snapshot.topics.get(name)) is not None:
                partitions += TopicPartition.all_of(name, [view.partition for view in topic.partitions])
        return await self._on_brokers(partitions)

    async def _on_brokers(self, partitions: Iterable[TopicPartition]) -> Wanted:
        found: defaultdict[BrokerId, set[TopicPartition]] = defaultdict(set)
        slicer = Slicer()
        for tp in partitions:
            view = self._snapshot.partition(tp)
            for broker in view.assignment.replicas if view is not None else ():
                if broker in self._snapshot.brokers and len(found[broker]) < MOST:
                    found[broker].add(tp)
            if slicer.is_due:
                await slicer.yield_to_loop()
        return {broker: frozenset(partitions) for broker, partitions in found.items()}

    async def _ask_all(self, wanted: Wanted, book: SizeBook) -> None:
        brokers = self._snapshot.brokers
        async with asyncio.TaskGroup() as group:
            for broker, partitions in wanted.items():
                if (known := brokers.get(broker)) is not None:
                    group.create_task(self._ask(known, partitions, book), name=f"ask-sizes-{broker}")

    async def _ask(self, broker: Broker, partitions: frozenset[TopicPartition], book: SizeBook) -> None:
        endpoint = plaintext_endpoint(broker, self._listener)
        if endpoint is None:
            book.fail(broker.id, f"it has no plaintext listener {self._listener}")
            return
        try:
            async with self._limit, asyncio.timeout(self._ask_s):
                connection = await KafkaConnection.connect(
                    endpoint.host, endpoint.port, _CLIENT_ID, transport=self._transport
                )
                try:
                    question = encode_log_dirs_query(partitions)
                    answer = await connection.request(ApiKey.DESCRIBE_LOG_DIRS, VERSION, question)
                finally:
                    connection.abort()
            await self._take(broker.id, answer, book)
        except (OSError, WireError) as error:
            _LOG.info("could not read replica sizes", broker=broker.id, error=repr(error))
            book.fail(broker.id, f"no answer in {self._ask_s:g} s" if isinstance(error, TimeoutError) else str(error))

    async def _take(self, broker: BrokerId, answer: bytes, book: SizeBook) -> None:
        slicer, now, failed = Slicer(), self._now(), list[str]()
        for portion in decode_log_dirs(answer):
            book.take(broker, portion.rows, now)
            if portion.failed is not None:
                failed.append(portion.failed)
            await slicer.yield_to_loop()
        if failed:
            book.fail(broker, "; ".join(failed))


@asynccontextmanager
async def polling(sizes: ReplicaSizes) -> AsyncIterator[None]:
    """Request sizes in the background; a failure is logged, and ends no other task."""
    task = asyncio.create_task(sizes.run(), name="replica-sizes")
    task.add_done_callback(_log_end)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _LOG.error("stopped requesting replica sizes", exc_info=error)
