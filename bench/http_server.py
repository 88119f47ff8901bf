"""The status endpoint over a cluster of a given size, in a process of its own, with everything in its loop timed.

``python -m bench.http_server PARTITIONS SIZE`` serves that many partitions in topics of SIZE, prints its port, and
then answers each line on its standard input by a line of JSON: the measurements since the previous line. An event
arrives every few milliseconds, and a worker takes it as the controller's does; its wait is measured. The end of the
input ends the process.
"""

import asyncio
import gc
import json
import sys
import time
from asyncio.events import Handle
from types import MappingProxyType
from typing import Final

from bench import layout
from controllerd.clock import SystemClock
from controllerd.config.model import Address, HttpConfig
from controllerd.core.model import Broker, BrokerId, Endpoint, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.core.replica_states import ReplicaStates
from controllerd.recent import MAX_ROWS, Recent
from controllerd.record.records import MAX_ROWS as ROWS_OF_A_RECORD
from controllerd.record.records import LeadershipRecord
from controllerd.slicer import prioritise_event_loop
from controllerd.snapshot import ClusterSnapshot
from controllerd.status.server import StatusServer
from controllerd.status.sources import AuditView, StatusSources
from controllerd.views import ChannelView, Holder, PartitionView, Role, SessionView, TopicView, WorkerView
from events.cluster import ControllerChange, Reelect
from events.queue import EventQueue

NODE: Final = 2_000_000_001
EVENT_EVERY_S: Final = 0.003


class Holds:
    """Measure how long single callbacks held the event loop, and how long events waited."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin a new measurement."""
        self.longest_s = self.longest_cpu_s = 0.0
        self.waited_s: list[float] = []
        self.began_cpu_s = time.process_time()

    def watch(self) -> None:
        """Time every callback of every loop of this process from now on."""
        run = Handle._run  # noqa: SLF001  # asyncio offers no hook that costs so little

        def timed(handle: Handle) -> None:
            began, began_cpu = time.perf_counter(), time.thread_time()
            run(handle)
            self.longest_cpu_s = max(self.longest_cpu_s, time.thread_time() - began_cpu)
            self.longest_s = max(self.longest_s, time.perf_counter() - began)

        Handle._run = timed  # type: ignore[method-assign,assignment]  # noqa: SLF001  # as above

    def report(self) -> str:
        """Return the measurements as JSON."""
        waited = sorted(self.waited_s) or [0.0]
        return json.dumps({
            "hold_ms": self.longest_s * 1000,
            "hold_cpu_ms": self.longest_cpu_s * 1000,
            "cpu_ms": (time.process_time() - self.began_cpu_s) * 1000,
            "events": len(self.waited_s),
            "wait_p50_ms": waited[len(waited) // 2] * 1000,
            "wait_p99_ms": waited[len(waited) * 99 // 100] * 1000,
            "wait_max_ms": waited[-1] * 1000,
        })  # fmt: skip


def partition(number: int) -> PartitionView:
    """Return a partition: one in a hundred has no leader, one in ten a leader other than the preferred replica."""
    ids = layout.replicas(number)
    leader = BrokerId(-1) if number % 100 == 1 else ids[1] if number % 10 == 2 else ids[0]
    state = PartitionState.OFFLINE if leader == -1 else PartitionState.ONLINE
    leadership = LeaderAndIsr(leader, 3, ids if number % 50 else ids[:2], 7, 9)
    return PartitionView(number, state, ReplicaAssignment(ids), leadership, (), ReplicaStates.nothing())


def cluster(partitions: int, size: int) -> ClusterSnapshot:
    """Return a snapshot as the active controller publishes it, in topics of this size."""
    snapshot = ClusterSnapshot(NODE, "bench", Role.ACTIVE, 7, Holder(NODE, "bench", 0), "elected")
    brokers = [Broker(BrokerId(n), n, (Endpoint("PLAINTEXT", "b", 9092),)) for n in range(1, layout.BROKERS + 1)]
    snapshot.brokers = MappingProxyType({broker.id: broker for broker in brokers})
    for name in (layout.name(layout.OLD, number) for number in range(partitions // size)):
        snapshot.topics[name] = TopicView(name, None, tuple(map(partition, range(size))))
    everywhere = (each for view in snapshot.topics.values() for each in view.partitions)
    snapshot.offline_partitions = sum(each.state is PartitionState.OFFLINE for each in everywhere)
    snapshot.announce()
    return snapshot


def fill(recent: Recent, partitions: int, size: int) -> None:
    """Record as many changes as the recent records hold."""
    numbers = [1] * ROWS_OF_A_RECORD
    for at in range(MAX_ROWS // ROWS_OF_A_RECORD):
        which = [(at * ROWS_OF_A_RECORD + row) % partitions for row in range(ROWS_OF_A_RECORD)]
        topics = [layout.name(layout.OLD, number // size) for number in which]
        rows = [number % size for number in which]
        recent.record(LeadershipRecord(topics, rows, numbers, numbers, [[1, 2]] * len(rows), numbers, numbers, numbers))


async def put_events(queue: EventQueue) -> None:
    """Put an event of each of two kinds every few milliseconds; equal events would be merged in the queue."""
    while True:
        queue.put(Reelect())
        queue.put(ControllerChange())
        await asyncio.sleep(EVENT_EVERY_S)


async def take_events(queue: EventQueue, holds: Holds) -> None:
    """Take events as the controller does, and note how long each waited."""
    while True:
        queued = await queue.take()
        holds.waited_s.append(time.monotonic() - queued.enqueued_at)


async def serve(partitions: int, size: int) -> None:
    """Serve until the standard input ends."""
    clock, holds = SystemClock(), Holds()
    queue, recent, snapshot = EventQueue(clock.monotonic), Recent(clock), cluster(partitions, size)
    fill(recent, partitions, size)
    sources = StatusSources(
        instance="bench",
        queue=queue,
        snapshot=lambda: snapshot,
        worker=WorkerView,
        channels=lambda: dict.fromkeys(snapshot.brokers, ChannelView()),
        session=lambda: SessionView("connected", 1, 1),
        audit=AuditView,
        now_ms=clock.now_ms,
        recent=recent,
        record=recent.record,
    )
    server = StatusServer(sources, HttpConfig(listen=Address("127.0.0.1", 0)))
    gets = [route.path for route in server.routes() if route.method == "GET"]
    prioritise_event_loop()
    gc.collect()
    gc.freeze()  # as the daemon does with its cluster image
    holds.watch()
    print(json.dumps({"port": await server.start(), "paths": gets}), flush=True)
    async with asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(put_events(queue)), tasks.create_task(take_events(queue, holds))]
        while await asyncio.to_thread(sys.stdin.readline):
            print(holds.report(), flush=True)
            holds.begin()
        for task in beside:
            task.cancel()
    await server.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
