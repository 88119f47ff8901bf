"""How long an event waits for a snapshot or digest that is written within a term, in an otherwise idle event loop."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import layout
from controllerd.audit.checkpoints import Checkpoints
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.clock import SystemClock
from controllerd.core.context import ControllerContext
from controllerd.core.model import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionState,
    ReplicaAssignment,
    ReplicaState,
    TopicImage,
)
from controllerd.record.records import DigestRecord, Record, SnapshotEnd
from controllerd.slicer import prioritise_event_loop
from controllerd.snapshot import ClusterSnapshot, publish

_PROBE_S = 0.001
_NODE = 2_000_000_000


@dataclass(frozen=True, slots=True)
class StepFigure:
    """One snapshot or digest.

    Steps are in processor time, which does not depend on other load of the machine. Waits are those of a task that is
    due every millisecond.
    """

    what: str
    took_s: float
    steps: int
    longest_step_ms: float
    longest_wait_ms: float


StepFigures = list[StepFigure]


class _WatchedWriter:
    """An audit log that sets an event when a snapshot or digest is complete."""

    def __init__(self, writer: AuditWriter) -> None:
        self._writer = writer
        self.complete = asyncio.Event()
        self.wanted: type[Record] = Record

    def record(self, *records: Record) -> None:
        """Pass records on."""
        self._writer.record(*records)
        if any(isinstance(record, self.wanted) for record in records):
            self.complete.set()

    async def accepted(self) -> None:
        """Wait until the writer took them."""
        await self._writer.accepted()


def loaded(partitions: int) -> ControllerContext:
    """Return a context as after the load of a cluster of this size, with every replica online."""
    context = ControllerContext()
    context.begin_term(1, 1)
    for broker in range(1, layout.BROKERS + 1):
        context.add_broker(Broker(BrokerId(broker), broker, ()))
    for number in range(partitions // layout.TOPIC_PARTITIONS):
        assignments = {p: ReplicaAssignment(layout.replicas(p)) for p in range(layout.TOPIC_PARTITIONS)}
        context.add_topic(TopicImage(layout.name(layout.OLD, number), assignments, None, 0))
    records = list(context.records())
    replicas = [record.assignment.replicas for record in records]
    led = [LeaderAndIsr(isr[0], 0, isr, 1, 0) for isr in replicas]
    context.set_leaderships(zip(records, led, strict=True))
    context.move_partitions(records, PartitionState.ONLINE)
    for broker in range(1, layout.BROKERS + 1):
        context.move_replicas(BrokerId(broker), context.records_on(BrokerId(broker)), ReplicaState.ONLINE)
    context.take_changes()
    return context


async def measure_checkpoints(partitions: int, folder: Path) -> StepFigures:
    """Measure a digest of the whole cluster, and a snapshot with the digest after it."""
    context, snapshot = loaded(partitions), ClusterSnapshot(_NODE)
    publish(context, snapshot)
    gc.freeze()  # as after the load
    prioritise_event_loop()
    writer = AuditWriter(AuditSettings(folder), _NODE, SystemClock())
    await writer.start("bench")
    watched = _WatchedWriter(writer)
    figures = [
        await _measure("first digest", DigestRecord, context, snapshot, watched, snapshot_s=1e9, digest_s=0.0),
        await _measure("snapshot", SnapshotEnd, context, snapshot, watched, snapshot_s=0.0, digest_s=1e9),
    ]
    await writer.close()
    return figures


async def _measure(
    what: str,
    end: type[Record],
    context: ControllerContext,
    snapshot: ClusterSnapshot,
    watched: _WatchedWriter,
    *,
    snapshot_s: float,
    digest_s: float,
) -> StepFigure:
    watched.wanted, steps = end, _Steps()
    watched.complete.clear()
    checkpoints = Checkpoints(
        context, snapshot, watched, time.monotonic, snapshot_interval_s=snapshot_s, digest_interval_s=digest_s
    )
    began = time.perf_counter()
    async with _running(checkpoints.run(steps.between)), _running(steps.probe()):
        await watched.complete.wait()
    return StepFigure(what, time.perf_counter() - began, steps.count, steps.longest_s * 1000, steps.latest_s * 1000)


class _Steps:
    """Measure steps. A step is the time of the loop's thread from a call of ``between`` to the next callback."""

    def __init__(self) -> None:
        self.count = 0
        self.longest_s = 0.0
        self.latest_s = 0.0

    def between(self) -> bool:
        """Begin a step."""
        self.count += 1
        began = time.thread_time()
        asyncio.get_running_loop().call_soon(self._ended, began)
        return True

    def _ended(self, began: float) -> None:
        self.longest_s = max(self.longest_s, time.thread_time() - began)

    async def probe(self) -> None:
        """Measure the delay of a task that is due every millisecond, as an event that arrives then."""
        while True:
            due = time.perf_counter() + _PROBE_S
            await asyncio.sleep(_PROBE_S)
            self.latest_s = max(self.latest_s, time.perf_counter() - due)


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
