"""One run: a restored ZooKeeper, stubs, a fresh controllerd, and one workload after another, observed from outside.

During a measurement the harness only waits. It decodes requests and logs when the run is over.
"""

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench import layout
from bench.frames import State
from bench.observe import Ask, LoopProbe, Spent, busy_s, read_requests, spent
from bench.prepare import HEAP_MIB, SESSION_MS, WAIT_S, BenchError, commit, restore, session, template, warm_up
from bench.shutdown import shut_down
from bench.stubs import LOOPBACK, ReceivedFrame, StubBrokers, read_saved, stub_brokers
from controllerd.core.model import Broker, BrokerId, Endpoint, ReplicaAssignment, TopicPartition
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.txnlog import LoggedTransaction, TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.registration import BrokerRegistration

NODE: Final = 2_000_000_000
SLOW: Final = BrokerId(layout.BROKERS)
"""The stub that is late or silent in W12."""
SLOW_S: Final = 5.0
_CONTROLLER_SESSION_MS: Final = 18_000
_NO_REBALANCE: Final = {"CONTROLLERD__KAFKA__AUTO_LEADER_REBALANCE_ENABLE": "false"}
"""No preferred elections: moved partitions have other preferred leaders, whose election would come at any time."""
_POLL_S: Final = 0.05
_CALM_S: Final = 0.5
_LONGEST_S: Final = 300.0
_PROFILED: Final = Path(__file__).with_name("profiled.py")

Status = dict[str, Any]

GROWING: Final = ("W7", "W8", "W8S")
"""Workloads whose size is the number of partitions that they delete or move, not the size of the cluster."""
MOVED_TOPICS: Final = 10
"""The number of topics whose partitions W8 moves."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The plan of a run: ``workloads`` one after another at this size. W12 slows down a stub from the start."""

    partitions: int
    workloads: tuple[str, ...]
    new_topics: int
    slow: str = "none"
    """``none``, ``slow`` or ``silent``: how the last stub answers."""
    in_full: bool = False
    """Whether the stubs name every partition in their answers, as brokers do."""
    warm: bool = False
    """Whether ZooKeeper is warmed up, as it is when the controller of a running cluster fails."""
    profile: Path | None = None
    """The file for the samples of the profiler."""
    affected: int = 0
    """How many partitions W7 deletes, or W8 moves."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further variables of the daemon's configuration."""

    @property
    def topics(self) -> int:
        """The number of topics before the workloads."""
        return self.partitions // layout.TOPIC_PARTITIONS

    @property
    def final_partitions(self) -> list[TopicPartition]:
        """Every partition that exists after the workloads."""
        every = [*layout.partitions(layout.OLD, self.topics)]
        if "W6" in self.workloads:
            every += layout.partitions(layout.NEW, self.new_topics)
        return [tp for tp in (*every, *self.big) if tp.topic not in self.deleted_topics]

    @property
    def big(self) -> list[TopicPartition]:
        """The partitions of the one topic of W8S."""
        size = self.affected if "W8S" in self.workloads else 0
        return [TopicPartition(layout.name(layout.BIG, 0), p) for p in range(size)]

    @property
    def deleted_topics(self) -> list[str]:
        """The topics that W7 deletes."""
        number = self.affected // layout.TOPIC_PARTITIONS if "W7" in self.workloads else 0
        return [layout.name(layout.OLD, topic) for topic in range(number)]

    @property
    def moves(self) -> dict[TopicPartition, tuple[BrokerId, ...]]:
        """The targets of W8 and W8S."""
        if "W8" in self.workloads:
            share = range(self.affected // MOVED_TOPICS)
            names = [layout.name(layout.OLD, topic) for topic in range(MOVED_TOPICS)]
            return {TopicPartition(name, p): layout.moved(p) for name in names for p in share}
        return {tp: layout.moved(tp.partition) for tp in self.big}


@dataclass(frozen=True, slots=True)
class Window:
    """One observed workload. Times in ns of CLOCK_MONOTONIC; add ``realtime_ns`` to get the wall clock."""

    workload: str
    began_ns: int
    ended_ns: int
    realtime_ns: int
    zk_reads: int
    before: Spent
    after: Spent
    zk_cpu_s: float = 0.0
    """Seconds of processor time of the ZooKeeper server."""
    others: float = 0.0
    """The share of the machine's processors that other processes used."""
    answered_ns: int = 0
    """W5: when the last ControlledShutdown was answered."""


@dataclass(slots=True)
class ObservedRun:
    """The observations of a run."""

    plan: Plan
    windows: list[Window] = field(default_factory=list)
    arrived: list[ReceivedFrame] = field(default_factory=list)
    logged: list[LoggedTransaction] = field(default_factory=list)
    states: dict[TopicPartition, State] = field(default_factory=dict)
    """The partition states in ZooKeeper at the end."""
    replicas: dict[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    """The assignments at the end."""
    brokers: list[int] = field(default_factory=list)
    """The brokers that are registered at the end."""
    asked: list[Ask] = field(default_factory=list)
    late: list[Ask] = field(default_factory=list)


class Rig:
    """The parts of a run, started and stopped as one."""

    def __init__(self, plan: Plan, server: EmbeddedZooKeeper, stubs: StubBrokers, folder: Path) -> None:
        self._plan = plan
        self._server = server
        self._stubs = stubs
        self._brokers: dict[BrokerId, BrokerRegistration] = {}
        self._epochs: dict[BrokerId, int] = {}
        self._partitions = plan.partitions
        program = ("-m", "controllerd") if plan.profile is None else (str(_PROFILED), str(plan.profile))
        self.controller = ControllerProcess(
            NODE,
            server.connect,
            folder,
            session_timeout_ms=_CONTROLLER_SESSION_MS,
            program=program,
            settings={**_NO_REBALANCE, **plan.settings},
        )
        self.probe = LoopProbe(self.controller.http)
        self.watched = ObservedRun(plan)
        self._answered_ns = 0

    async def register(self, broker: BrokerId) -> None:
        """Register a broker in a session of its own."""
        registration = self._brokers[broker] = BrokerRegistration(self._server.connect, SESSION_MS, lambda _epoch: None)
        await registration.open(WAIT_S)
        endpoint = Endpoint("PLAINTEXT", LOOPBACK, self._stubs.ports[broker - 1])
        self._epochs[broker] = await registration.register(Broker(broker, 0, (endpoint,)), wait_s=WAIT_S)

    async def close(self) -> None:
        """End the controller and the sessions of the brokers."""
        if self._plan.profile is not None and self.controller.process.running:
            await self.controller.process.terminate()
        await self.controller.close()
        for registration in self._brokers.values():
            await registration.close()

    # -- the workloads: their causes, and the conditions of their end --------------------------------------------------

    async def perform(self, workload: str, zk: KazooZooKeeper) -> None:
        """Cause a workload, and observe until it is over."""
        match workload:
            case "W3":
                await self._watch(workload, self._start, self._has_loaded)
            case "W1":
                await self._watch(
                    workload, self._end_session, lambda status: len(status["brokers"]) == len(self._brokers)
                )
            case "W2":
                await self._watch(
                    workload,
                    lambda: self.register(layout.VICTIM),
                    lambda status: len(status["brokers"]) == layout.BROKERS,
                )
            case "W5":
                await self._watch(workload, self._shut_down, lambda _status: True)
            case "W6":
                new = [layout.topic(layout.NEW, number) for number in range(self._plan.new_topics)]
                self._partitions += self._plan.new_topics * layout.TOPIC_PARTITIONS
                await self._watch(workload, lambda: commit(zk, new), self._has_loaded)
            case "W7":
                deletions = [Create(paths.delete_topic(topic), None) for topic in self._plan.deleted_topics]
                self._partitions -= self._plan.affected
                await self._watch(workload, lambda: commit(zk, deletions), self._has_loaded)
            case "W8" | "W8S":
                await self._create_big(zk)
                await self._stubs.catch_up(self.controller.kafka_port.port, self._epochs)
                await self._watch(workload, lambda: self._reassign(zk), self._has_loaded)
            case _:
                raise BenchError(f"there is no workload {workload}")

    async def _create_big(self, zk: KazooZooKeeper) -> None:
        """Create the topic of W8S before the measurement."""
        if size := len(self._plan.big):
            await commit(zk, [layout.topic(layout.BIG, 0, size)])
            self._partitions += size
            await self._calm("creation", self._has_loaded)

    async def _reassign(self, zk: KazooZooKeeper) -> None:
        """Create the znode that requests the reassignments, and wait until the controller deletes it."""
        await commit(zk, [Create(paths.REASSIGN_PARTITIONS, codecs.encode_reassignments(self._plan.moves))])
        deadline = time.monotonic() + _LONGEST_S
        while (await zk.read([paths.REASSIGN_PARTITIONS]))[0] is not None:
            if time.monotonic() > deadline:
                raise BenchError(f"the reassignments did not end within {_LONGEST_S:g} s")
            await asyncio.sleep(_POLL_S)

    async def _start(self) -> None:
        self.controller.process.start()

    async def _end_session(self) -> None:
        await self._brokers.pop(layout.VICTIM).close()

    async def _shut_down(self) -> None:
        await shut_down(self.controller.kafka_port.port, layout.VICTIM, self._epochs[layout.VICTIM])
        self._answered_ns = time.monotonic_ns()

    def _has_loaded(self, status: Status) -> bool:
        counts = status["counts"]
        return bool(status["role"] == "active" and counts["partitions"] == self._partitions and not counts["waiting"])

    # -- observing -----------------------------------------------------------------------------------------------------

    def _spent(self) -> Spent:
        return spent(self.controller.process.pid) if self.controller.process.running else Spent(0, 0)

    def _foreign_s(self) -> float:
        """Return the processor time of all processes that are no part of the run."""
        times = os.times()
        ours = self._spent().cpu_s + spent(self._server.process.pid).cpu_s + spent(self._stubs.pid).cpu_s
        return busy_s() - ours - times.user - times.system

    async def _watch(
        self, workload: str, cause: Callable[[], Awaitable[object]], is_over: Callable[[Status], bool]
    ) -> None:
        reads, before, foreign = await read_requests(self._server.port), self._spent(), self._foreign_s()
        zk_cpu_s = spent(self._server.process.pid).cpu_s
        began_ns, realtime_ns = time.monotonic_ns(), time.time_ns() - time.monotonic_ns()
        await cause()
        await self._calm(workload, is_over)
        ended_ns, after = time.monotonic_ns(), self._spent()
        zk_cpu_s = spent(self._server.process.pid).cpu_s - zk_cpu_s
        others = (self._foreign_s() - foreign) * 1e9 / (ended_ns - began_ns) / (os.cpu_count() or 1)
        reads = await read_requests(self._server.port) - reads
        self.watched.windows.append(
            Window(workload, began_ns, ended_ns, realtime_ns, reads, before, after, zk_cpu_s, others, self._answered_ns)
        )

    async def _calm(self, workload: str, is_over: Callable[[Status], bool]) -> None:
        """Wait until no request has arrived for half a second, and the daemon reports that it is idle."""
        began = changed = time.monotonic()
        count: list[int] = []
        while (now := time.monotonic()) < began + _LONGEST_S:
            if (counted := await self._stubs.count()) != count:
                count, changed = counted, now
            if now - changed >= _CALM_S:
                status = await self.controller.status()
                if status is not None and is_over(status) and self._is_idle(status):
                    return
                changed = now
            if not self.controller.process.running:
                raise BenchError(f"controllerd ended: {self.controller.process.log_tail()}")
            await asyncio.sleep(_POLL_S)
        raise BenchError(f"{workload} was not over within {_LONGEST_S:g} s: {await self.controller.status()}")

    def _is_idle(self, status: Status) -> bool:
        queue, late = status["queue"], set() if self._plan.slow == "none" else {SLOW}
        waiting = sum(broker["queue_depth"] for broker in status["brokers"] if broker["id"] not in late)
        return not queue["depth"] and not queue["current_event"] and not waiting

    # -- after the workloads -------------------------------------------------------------------------------------------

    async def collect(self, zk: KazooZooKeeper, folder: Path) -> ObservedRun:
        """Collect everything that ``analyse`` needs."""
        watched = self.watched
        await self._stubs.save(folder / "arrived")
        watched.arrived = await asyncio.to_thread(lambda: list(read_saved(folder / "arrived")))
        watched.logged = await asyncio.to_thread(TransactionLog(folder / "zookeeper" / "data").read_new)
        watched.states = await _states(zk, self._plan.final_partitions)
        watched.replicas = await _assignments(zk, self._plan)
        watched.brokers = sorted(self._brokers)
        watched.asked, watched.late = self.probe.asked, self.probe.late_ns
        return watched


async def _assignments(zk: KazooZooKeeper, plan: Plan) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """Read the assignments in the topic znodes.

    :raises BenchError: a reassignment has not ended, or has not reached its target
    """
    names = list(dict.fromkeys(tp.topic for tp in plan.final_partitions))
    nodes, found = await zk.read([paths.topic(name) for name in names]), {}
    for name, node in zip(names, nodes, strict=True):
        if node is None:
            raise BenchError(f"topic {name} is gone")
        image = codecs.decode_topic(name, node.data, version=node.version)
        for partition, assignment in image.assignments.items():
            tp = TopicPartition(name, partition)
            wanted = plan.moves.get(tp, layout.replicas(partition))
            if assignment != ReplicaAssignment(wanted):
                raise BenchError(f"{tp} is assigned to {assignment}, not to {wanted}")
            found[tp] = assignment.replicas
    return found


async def _states(zk: KazooZooKeeper, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, State]:
    nodes = await zk.read([paths.partition_state(tp) for tp in wanted])
    states = {}
    for tp, node in zip(wanted, nodes, strict=True):
        if node is None:
            raise BenchError(f"{tp} has no state")
        state = codecs.decode_state(tp, node.data, node.version)
        isr = b"".join(broker.to_bytes(4, "big") for broker in state.isr)
        states[tp] = State(state.leader, state.leader_epoch, isr, state.partition_epoch)
    return states


async def perform(plan: Plan, cache: Path) -> ObservedRun:
    """Perform a whole run.

    :raises BenchError: a workload did not end, or an operation was refused
    :raises DevError: a server did not start
    """
    kept = await template(plan.partitions, cache)
    with tempfile.TemporaryDirectory(prefix="controllerd-bench-") as name:
        folder = Path(name)
        await asyncio.to_thread(restore, kept, folder / "zookeeper")
        async with AsyncExitStack() as stack:
            server = EmbeddedZooKeeper(folder / "zookeeper", heap_mib=HEAP_MIB, durable=True)
            await stack.enter_async_context(server)
            await asyncio.to_thread(os.sync)
            stubs = await stack.enter_async_context(stub_brokers(layout.BROKERS))
            zk = await stack.enter_async_context(session(server.connect))
            rig = Rig(plan, server, stubs, folder / "controllerd")
            stack.push_async_callback(rig.close)
            await _perform_all(rig, plan, stubs, zk)
            return await rig.collect(zk, folder)


async def _perform_all(rig: Rig, plan: Plan, stubs: StubBrokers, zk: KazooZooKeeper) -> None:
    for broker in range(1, layout.BROKERS + 1):
        await rig.register(BrokerId(broker))
    if plan.warm:
        await warm_up(zk)
    if plan.in_full:
        await stubs.answer_in_full()
    if plan.slow == "slow":
        await stubs.slow_down(SLOW, SLOW_S)
    elif plan.slow == "silent":
        await stubs.silence(SLOW)
    async with _background(rig.probe.run()):
        for workload in plan.workloads:
            await rig.perform(workload, zk)


@asynccontextmanager
async def _background(run: Any) -> AsyncIterator[None]:
    task = asyncio.create_task(run)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
