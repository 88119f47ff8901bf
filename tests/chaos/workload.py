"""The steps of a random run, carried out on a cluster under load, and the checks at its end."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from kazoo.exceptions import NodeExistsError, NoNodeError
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.elect_leaders.v2.response import ElectLeadersResponse
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i8, i32

from controllerd.audit.reader import AuditReader
from controllerd.dev.cluster import BROKER_IDS, open_cluster
from controllerd.dev.load import LoadResult, ProducerLoad
from controllerd.dev.observe import audit_violations
from controllerd.dev.processes import DevError
from controllerd.dev.verification import consume_all, verify
from controllerd.errors import StoreUnavailable
from controllerd.record.records import DigestRecord
from tests.chaos.plan import KEPT, ChaosStep, Planner
from tests.real.operator import DELETE, ELECT, REASSIGN, TIMEOUT, tp
from tests.real.scene import SMALL_FETCHES, Scene
from wire.errors import WireError

RATES: Final = {"orders": 100.0, "pairs": 60.0, "solo": 30.0}
"""Records a second, by topic."""
CONFIGS: Final = {"orders": {"min.insync.replicas": "2"}, "pairs": {"min.insync.replicas": "1"}}
SLOW: Final = "pairs"
SLOW_BYTES: Final = "40000"
"""Bytes a second, for replicas of that topic that lag: several times the load."""
PATIENCE_S: Final = 120.0
REFUSALS: Final = {
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.invalid_replica_assignment,
    ErrorCode.not_controller,
    ErrorCode.no_reassignment_in_progress,
    ErrorCode.election_not_needed,
    ErrorCode.preferred_leader_not_available,
    ErrorCode.invalid_topic_exception,
    ErrorCode.request_timed_out,
}
"""The errors that the controller may answer to a step that does not fit the state of the cluster."""
EXPIRED: Final = "ZooKeeperClientExpiredException"
SETTINGS: Final = {
    "CONTROLLERD__KAFKA__LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS": "20",
    # The controller's context is compared with the fold of its log (I-30) all the time, and not once a minute.
    "CONTROLLERD__AUDIT__DIGEST_INTERVAL_S": "1",
}


class ChaosRun:
    """One cluster, its loads, and its past steps."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.cluster, self.operator = scene, scene.cluster, scene.operator
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self._began = time.monotonic()
        self._starting: dict[str, asyncio.Task[None]] = {}
        self._loads: dict[str, ProducerLoad] = {}
        self._acts: dict[str, Callable[[ChaosStep], Awaitable[str]]] = {
            "settle": self._settle,
            "create": self._create,
            "add partitions": self._add_partitions,
            "reassign": self._reassign,
            "cancel": self._reassign,
            "elect": self._elect,
            "delete": self._delete,
            "stop": self._stop,
            "start": self._start,
            "end the controller": self._end_controller,
            "restart ZooKeeper": self._restart_zookeeper,
        }

    def tell(self, line: str) -> None:
        """Print one line about the run."""
        print(f"{time.monotonic() - self._began:7.1f}  {line}", flush=True)

    async def begin(self) -> None:
        """Create the permanent topics with their loads; moves of one take so long that they can be cancelled."""
        for name, assignments in KEPT.items():
            await self.scene.create(name, assignments, CONFIGS.get(name))
        await self.operator.set_topic(SLOW, **{"follower.replication.throttled.replicas": "*"})
        for broker in BROKER_IDS:
            await self.operator.set_broker(broker, **{"follower.replication.throttled.rate": SLOW_BYTES})
        for name, rate in RATES.items():
            load = ProducerLoad(self.cluster.bootstrap, name, len(KEPT[name]), records_per_s=rate, max_seconds=7_200)
            self._loads[name] = load
            load.start()

    async def go(self, seed: int, seconds: float) -> None:
        """Carry out the steps of the seed until the time is over."""
        deadline = time.monotonic() + seconds
        for step in Planner(seed).steps():
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(step.pause_s)
            outcome = await self._act(step)
            self.done[step.verb] += 1
            self.tell(f"{step.number:4}  {step}: {outcome}")

    async def _act(self, step: ChaosStep) -> str:
        try:
            return await self._acts[step.verb](step)
        except StoreUnavailable as error:  # the session of this test, after ZooKeeper was restarted
            return self._was_refused(step, str(error))

    # -- requests ----------------------------------------------------------------------------------------------------

    async def _create(self, step: ChaosStep) -> str:
        try:
            await self.cluster.observer.create_topic(step.topic, dict(step.partitions))
        except FileExistsError:
            return self._was_refused(step, "it is not gone yet")
        return "asked"

    async def _add_partitions(self, step: ChaosStep) -> str:
        try:
            await self.operator.add_partitions(step.topic, dict(step.partitions))
        except NoNodeError:
            return self._was_refused(step, "there is no such topic")
        return "asked"

    async def _delete(self, step: ChaosStep) -> str:
        try:
            await self.operator.delete_topic(step.topic)
        except NodeExistsError:
            return self._was_refused(step, "it was asked before")
        return "asked"

    async def _reassign(self, step: ChaosStep) -> str:
        targets = {tp(step.topic, p): replicas or None for p, replicas in step.partitions}
        if step.way == "api":
            return await self._outcome_of(step, self.operator.reassign(targets))
        try:
            await self.operator.reassign_by_znode({tp(step.topic, p): replicas for p, replicas in step.partitions})
        except NodeExistsError:
            return self._was_refused(step, "another request is there")
        return "asked"

    async def _elect(self, step: ChaosStep) -> str:
        partitions = [p for p, _ in step.partitions]
        if step.way == "api":
            return await self._outcome_of(step, self._elect_by_api(step.topic, partitions))
        try:
            await self.operator.prefer_by_znode(*(tp(step.topic, p) for p in partitions))
        except NodeExistsError:
            return self._was_refused(step, "another request is there")
        return "asked"

    async def _elect_by_api(self, topic: str, partitions: list[int]) -> dict[Any, ErrorCode]:
        rows = (TopicPartitions(topic=TopicName(topic), partitions=tuple(i32(p) for p in partitions)),)
        request = ElectLeadersRequest(election_type=i8(0), topic_partitions=rows, timeout=TIMEOUT)
        answer = await self.operator.ask(request, ElectLeadersResponse)
        if answer.error_code is not ErrorCode.none:
            return {"all": answer.error_code}
        return {
            tp(r.topic, p.partition_id): p.error_code
            for r in answer.replica_election_results
            for p in r.partition_result
        }

    async def _outcome_of(self, step: ChaosStep, call: Coroutine[Any, Any, dict[Any, ErrorCode]]) -> str:
        """The outcome of a call as text; an error that no step explains ends the run."""
        try:
            answers = await call
        except (OSError, WireError) as error:
            return self._was_refused(step, f"no answer ({type(error).__name__})")
        errors = Counter(error for error in answers.values() if error is not ErrorCode.none)
        assert set(errors) <= REFUSALS, f"{step}: {errors}"
        words = ", ".join(f"{count} {error.name}" for error, count in errors.items())
        accepted = len(answers) - errors.total()
        if accepted:
            return f"{accepted} accepted" + (f", {words}" if words else "")
        return self._was_refused(step, words) if errors else "nothing to do"

    def _was_refused(self, step: ChaosStep, why: str) -> str:
        self.refused[step.verb] += 1
        return f"refused: {why}"

    # -- faults ------------------------------------------------------------------------------------------------------

    async def _stop(self, step: ChaosStep) -> str:
        await self._all_started()
        broker, since = self.cluster.brokers[step.broker], time.monotonic()
        await (broker.kill() if step.way == "SIGKILL" else broker.terminate())
        return f"gone after {time.monotonic() - since:.1f} s"

    async def _start(self, step: ChaosStep) -> str:
        self._in_background(f"broker {step.broker}", self._start_as_supervisor(step.broker))
        return "on its way"

    async def _start_as_supervisor(self, broker: int) -> None:
        """A broker ends by itself when its session expires while it starts; its supervisor starts it again."""
        try:
            await self.cluster.brokers[broker].start()
        except DevError as error:
            if EXPIRED not in str(error):
                raise
            await self.cluster.brokers[broker].start()

    async def _end_controller(self, step: ChaosStep) -> str:
        """End the active instance and start it again at once.

        The other instance, or a broker for a while, takes over.
        """
        await self._all_started()
        active = await self.cluster.active()
        if active is None:
            return self._was_refused(step, "nobody of ours leads")
        if step.way == "SIGKILL":
            await active.process.kill()
        else:
            assert await active.process.terminate() == 0
        self._in_background(f"controllerd {active.node_id}", active.start())
        return f"controllerd {active.node_id} at epoch {await self.scene.epoch()}"

    async def _restart_zookeeper(self, _step: ChaosStep) -> str:
        await self.cluster.zookeeper.restart()
        return "it serves again"

    def _in_background(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        self._starting[name] = asyncio.create_task(work, name=name)

    async def _all_started(self) -> None:
        """Wait until every broker has started."""
        await asyncio.gather(*self._starting.values())
        self._starting.clear()

    # -- rest --------------------------------------------------------------------------------------------------------

    async def _settle(self, _step: ChaosStep) -> str:
        """Start all brokers, and wait until no work is left and all of them agree."""
        since = time.monotonic()
        await self._all_started()
        await self.scene.all_run()
        waiting = self.scene.waiting
        await waiting.until(waiting.missing_controller, "an instance leads")
        await waiting.until(self._missing_rest, "nothing is left to do", timeout_s=PATIENCE_S)
        await waiting.until(waiting.missing_isr, "the ISRs are full", timeout_s=PATIENCE_S)
        await waiting.until(waiting.missing_agreement, "every broker shows what ZooKeeper has", timeout_s=PATIENCE_S)
        view = await self.cluster.view()
        return f"whole after {time.monotonic() - since:.1f} s, {len(view.assignments)} partitions"

    async def _missing_rest(self) -> str | None:
        """The reason why the cluster is not at rest: a request waits, or a replica moves; None at rest."""
        waiting = [path for path in (REASSIGN, ELECT) if await self.operator.exists(path)]
        waiting += [f"{DELETE}/{topic}" for topic in await self.operator.children(DELETE)]
        view = await self.cluster.view()
        waiting += [str(t) for t, assignment in view.assignments.items() if assignment.is_being_reassigned]
        return f"{', '.join(waiting[:5])} wait" if waiting else None

    async def judge(self) -> None:
        """Check that no acknowledged record is lost, all brokers agree with ZooKeeper, and no rule is broken."""
        self.tell(f"the end: {await self._settle(ChaosStep(0, 0.0, 'settle'))}")
        self.tell(f"done: {dict(self.done)}; refused: {dict(self.refused)}")
        for name, load in self._loads.items():
            await self._judge_load(name, await asyncio.to_thread(load.stop))
        await self.scene.waiting.until(self.scene.missing_audit, "the audit logs fold to ZooKeeper")
        led = await self.scene.who_led(0)
        self.tell(f"led: {', then '.join(led)}")
        logs = await self.scene.audit_logs()
        assert await asyncio.to_thread(audit_violations, *logs) == []
        self.tell(f"{await asyncio.to_thread(_digests, logs)} times a controller's own picture was that of its log")
        strays = await self._strays()
        self.tell(f"unassigned replicas on disks: {strays or 'none'}")
        if not any(line.endswith("a broker") for line in led):
            assert not strays, "a broker's own controller never led, so every debt is ours"

    async def _judge_load(self, name: str, result: LoadResult) -> None:
        consumed = await asyncio.to_thread(consume_all, self.cluster.bootstrap, name)
        checked = verify(result.acknowledged, consumed)
        self.tell(f"{name}: worst gap {result.worst_gap_s():.1f} s, {checked}")
        assert checked.ok, name
        assert not result.failures, name
        assert result.fatal_error is None, name

    async def _strays(self) -> list[str]:
        """The replicas on the disks of brokers that are assigned to other brokers."""
        assigned = {f"{t}-{p}": a.replicas for (t, p), a in (await self.cluster.view()).assignments.items()}
        folders = await asyncio.to_thread(_folders, self.cluster.directory)
        return [f"{name} on {broker}" for broker, name in folders if broker not in assigned.get(name, ())]

    async def close(self) -> None:
        """End the processes that still run here."""
        for task in self._starting.values():
            task.cancel()
        await asyncio.gather(*self._starting.values(), return_exceptions=True)
        await asyncio.gather(
            *(asyncio.to_thread(load.__exit__, None, None, None) for load in self._loads.values()),
        )


def _digests(logs: Sequence[Path]) -> int:
    """How often the controllers recorded the digest of their context, to be compared with their logs."""
    return sum(isinstance(record, DigestRecord) for log in logs for _, record in AuditReader(log))


def _folders(directory: Path) -> list[tuple[int, str]]:
    return [
        (broker, folder.name)
        for broker in BROKER_IDS
        for folder in sorted((directory / f"broker-{broker}" / "data").iterdir())
        if folder.is_dir() and not folder.name.endswith("-delete")
    ]


@asynccontextmanager
async def open_run(directory: Path) -> AsyncIterator[ChaosRun]:
    """Three real brokers and two instances of controllerd, with loads."""
    overrides = dict.fromkeys(BROKER_IDS, SMALL_FETCHES)
    async with open_cluster("kafka", directory, print, settings=SETTINGS, overrides=overrides) as cluster:
        scene = Scene(cluster)
        run = ChaosRun(scene)
        await scene.operator.open()
        try:
            await run.begin()
            yield run
        finally:
            await scene.operator.close()
            await run.close()
