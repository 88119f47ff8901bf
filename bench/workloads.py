"""What is measured, and how: a real controllerd, a real ZooKeeper, brokers that acknowledge.

Everything but the requests that arrive at brokers and the reads of ZooKeeper comes from the audit log: the slice
between the cause of a workload and the moment in which everything is answered.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.cluster import (
    BROKERS,
    NODE,
    SESSION_MS,
    TOPIC_PARTITIONS,
    WAIT_S,
    BenchError,
    commit,
    connected,
    epoch,
    states,
    topic,
)
from bench.stubs import LOOPBACK, Arrived, StubBrokers
from controllerd.audit.reader import AuditReader
from controllerd.core.model import Broker, BrokerId, Endpoint
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.zk.client import ZooKeeperClient
from controllerd.zk.registration import BrokerRegistration
from replay.envelope import Envelope
from replay.records import Record, ResponseRecord, ZkWriteRecord

_POLL_S: Final = 0.1
_READS: Final = "zk_cnt_readlatency"
_WRITES: Final = frozenset({"create", "setData"})

Status = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figures:
    """One workload at one size. ``seconds`` from its first event to the last answer of a broker."""

    workload: str
    size: int
    partitions: int
    """Partitions whose state was read (load) or written (the others)."""
    seconds: float
    zk_transactions: int
    zk_operations: int
    zk_bytes: int
    """Bytes of data in the znodes that were created or set."""
    zk_reads: int
    requests: int
    request_bytes: int
    per_broker: list[dict[str, tuple[int, int]]] = field(default_factory=list)
    """Per broker: API to requests and bytes, size fields and headers included."""

    @property
    def partitions_per_second(self) -> float:
        """Throughput."""
        return self.partitions / self.seconds

    def as_json(self) -> dict[str, object]:
        """For the result file."""
        return asdict(self) | {"partitions_per_second": round(self.partitions_per_second)}


@dataclass(frozen=True, slots=True)
class _Slice:
    """What is known when a workload is over, before the audit log is read."""

    workload: str
    began_ns: int
    ended_ns: int
    zk_reads: int
    per_broker: list[dict[str, tuple[int, int]]]


class Bench:
    """One cluster of one size, and the workloads on it one after another."""

    def __init__(self, size: int, server: EmbeddedZooKeeper, stubs: StubBrokers, directory: Path) -> None:
        self._size = size
        self._server = server
        self._stubs = stubs
        self._connect = f"{server.connect}/bench-{size}"
        self._brokers: dict[int, BrokerRegistration] = {}
        self._slices: list[_Slice] = []
        self._controller = ControllerProcess(NODE, self._connect, directory, session_timeout_ms=SESSION_MS)

    async def run(self) -> list[Figures]:
        """All workloads. :raises DevError: something did not come up. :raises TimeoutError: or did not end."""
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._controller.close)
            for number, port in enumerate(self._stubs.ports, 1):
                await self._register(number, port)
                stack.push_async_callback(self._brokers[number].close)
            client = await stack.enter_async_context(connected(self._connect))
            await commit(client, [topic("old", t) for t in range(self._topics)])
            await commit(client, [epoch(), *states("old", self._topics)])
            await self._measure("failover load", self._controller.start, self._has_loaded)
            await self._measure("broker failure", self._brokers[1].close, self._has_moved)
            new = [topic("new", t) for t in range(self._topics)]
            await self._measure("create topics", lambda: commit(client, new), self._has_created)
            await self._controller.process.terminate()
            return await self._figures(client)

    @property
    def _topics(self) -> int:
        return self._size // TOPIC_PARTITIONS

    async def _register(self, number: int, port: int) -> None:
        registration = self._brokers[number] = BrokerRegistration(self._connect, SESSION_MS, lambda _epoch: None)
        await registration.open(WAIT_S)
        endpoint = Endpoint("PLAINTEXT", LOOPBACK, port)
        await registration.register(Broker(BrokerId(number), 0, (endpoint,)), wait_s=WAIT_S)

    # -- one workload ------------------------------------------------------------------------------------------------

    async def _measure(
        self, workload: str, cause: Callable[[], Awaitable[object]], is_over: Callable[[Status], bool]
    ) -> None:
        arrived, reads = await self._stubs.arrived(), await self._reads()
        began_ns = time.monotonic_ns()
        await cause()
        await self._quiet(is_over)
        ended_ns = time.monotonic_ns()
        per_broker = [_since(before, now) for before, now in zip(arrived, await self._stubs.arrived(), strict=True)]
        self._slices.append(_Slice(workload, began_ns, ended_ns, await self._reads() - reads, per_broker))

    async def _quiet(self, is_over: Callable[[Status], bool]) -> None:
        """Wait until the workload is over, nothing waits, and nothing more is being written down."""
        deadline, recorded = time.monotonic() + WAIT_S, -1
        while time.monotonic() < deadline:
            status = await self._controller.status()
            if status is not None and is_over(status) and _is_idle(status):
                before, recorded = recorded, status["audit"]["records_written"]
                if before == recorded:
                    return
            await asyncio.sleep(_POLL_S)
        raise BenchError(f"the workload was not over within {WAIT_S:g} s: {await self._controller.status()}")

    def _has_loaded(self, status: Status) -> bool:
        return bool(status["role"] == "active" and status["counts"]["partitions"] == self._size)

    def _has_moved(self, status: Status) -> bool:
        return len(status["brokers"]) == BROKERS - 1 and status["counts"]["under_replicated"] > 0

    def _has_created(self, status: Status) -> bool:
        return bool(status["counts"]["partitions"] == 2 * self._size and status["counts"]["waiting"] == 0)

    async def _reads(self) -> int:
        """Read requests that ZooKeeper has answered, a MultiRead of many znodes as one."""
        reader, writer = await asyncio.open_connection(LOOPBACK, self._server.port)
        writer.write(b"mntr")
        lines = (await reader.read()).decode().splitlines()
        writer.close()
        values = dict(line.split("\t", 1) for line in lines if "\t" in line)
        return int(values[_READS])

    # -- afterwards --------------------------------------------------------------------------------------------------

    async def _figures(self, client: ZooKeeperClient) -> list[Figures]:
        directory = self._controller.audit_directory(await client.store.cluster_id())
        log = await asyncio.to_thread(lambda: list(AuditReader(directory)))
        return [await self._figures_of(part, _within(log, part), client) for part in self._slices]

    async def _figures_of(
        self, part: _Slice, log: Sequence[tuple[Envelope, Record]], client: ZooKeeperClient
    ) -> Figures:
        writes = [record for _, record in log if isinstance(record, ZkWriteRecord)]
        written = Counter(path for write in writes for path in _written(write))
        nodes = await client.zk.read(list(written))
        moved = sum(path.endswith("/state") for path in written)
        first = next(envelope.mono_ns for envelope, record in log if record.kind == "event_begin")
        last = max(envelope.mono_ns for envelope, record in log if isinstance(record, ResponseRecord))
        return Figures(
            workload=part.workload,
            size=self._size,
            partitions=moved or self._size,
            seconds=(last - first) / 1e9,
            zk_transactions=len(writes),
            zk_operations=sum(len(write.operations) for write in writes),
            zk_bytes=sum(
                len(node.data or b"") * written[path] for path, node in zip(written, nodes, strict=True) if node
            ),
            zk_reads=part.zk_reads,
            requests=sum(requests for broker in part.per_broker for requests, _ in broker.values()),
            request_bytes=sum(size for broker in part.per_broker for _, size in broker.values()),
            per_broker=part.per_broker,
        )


def _is_idle(status: Status) -> bool:
    queue = status["queue"]
    waiting = sum(broker["queue_depth"] for broker in status["brokers"])
    return not queue["depth"] and not queue["current_event"] and not waiting


def _since(before: Arrived, now: Arrived) -> dict[str, tuple[int, int]]:
    nothing = (0, 0)
    both = {api: (before.get(api, nothing), counts) for api, counts in now.items()}
    return {api: (new[0] - old[0], new[1] - old[1]) for api, (old, new) in both.items() if new != old}


def _within(log: Iterable[tuple[Envelope, Record]], part: _Slice) -> list[tuple[Envelope, Record]]:
    return [entry for entry in log if part.began_ns <= entry[0].mono_ns <= part.ended_ns]


def _written(write: ZkWriteRecord) -> list[str]:
    rows = zip(write.operations, write.paths, write.results, strict=True)
    return [path for operation, path, result in rows if operation in _WRITES and result == "ok"]
