"""The demo: a cluster whose brokers and controllers fail one after the other. Every step is printed and checked."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from controllerd.core.text import counted
from controllerd.dev.cluster import DevCluster, Tell
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.load import ProducerLoad
from controllerd.dev.observe import audit_violations, metadata_differences
from controllerd.dev.processes import DevError
from controllerd.dev.verification import consume_all, verify
from controllerd.dev.waiting import Waiting
from wire.errors import WireError

TOPIC: Final = "orders"
PARTITIONS: Final = 3
REPLICATION: Final = 3

Detail = dict[str, object]


@dataclass(slots=True)
class DemoStep:
    """One step of the demo, as ``summary.json`` holds it."""

    name: str
    ok: bool
    seconds: float
    detail: Detail = field(default_factory=dict)
    error: str | None = None


@dataclass(slots=True)
class DemoSummary:
    """The result of the whole demo."""

    brokers: str
    ok: bool = False
    seconds: float = 0.0
    steps: list[DemoStep] = field(default_factory=list)

    def as_dict(self) -> dict[str, object]:
        """Return the summary as plain data for JSON."""
        return asdict(self)


class Demo:
    """The steps of the demo, in order, on one cluster."""

    def __init__(self, cluster: DevCluster, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell
        self._waiting = Waiting(cluster, tell)
        self._load: ProducerLoad | None = None

    async def run(self) -> DemoSummary:
        """Run every step until one fails."""
        summary = DemoSummary(self._cluster.kind)
        started = time.monotonic()
        try:
            for name, work in self._steps().items():
                summary.steps.append(await self._run(name, work))
                if not summary.steps[-1].ok:
                    break
        finally:
            if self._load is not None:
                await asyncio.to_thread(self._load.stop)
        summary.seconds = round(time.monotonic() - started, 2)
        summary.ok = all(step.ok for step in summary.steps)
        return summary

    def _steps(self) -> Mapping[str, Callable[[], Awaitable[Detail]]]:
        with_load = self._cluster.kind == "kafka"
        return {
            "create a topic by its znode": self._create_topic,
            **({"start a producer (acks=all, idempotent)": self._start_load} if with_load else {}),
            "kill the broker that leads partition 0": self._kill_leader,
            "start it again": self._start_again,
            "shut another broker down (controlled shutdown)": self._controlled_shutdown,
            "start that broker again too": self._start_again,
            "kill the active controllerd while a second one stands by": self._kill_controller,
            "create another topic under the new controller": self._create_second_topic,
            **({"consume everything that was acknowledged": self._verify_load} if with_load else {}),
            "compare ZooKeeper, controller, brokers and audit log": self._compare,
        }

    async def _run(self, name: str, work: Callable[[], Awaitable[Detail]]) -> DemoStep:
        self._tell(f"> {name}")
        started = time.monotonic()
        try:
            detail, error = await work(), None
        except (DevError, OSError, WireError) as failure:
            detail, error = {}, f"{type(failure).__name__}: {failure}"
        step = DemoStep(name, error is None, round(time.monotonic() - started, 2), detail, error)
        what = ", ".join(f"{key} {value}" for key, value in detail.items()) or error or "done"
        self._tell(f"  {'ok    ' if step.ok else 'FAILED'} {step.seconds:6.2f} s  {what}")
        return step

    # -- steps -------------------------------------------------------------------------------------------------------

    async def _create_topic(self) -> Detail:
        await self._create(TOPIC)
        return {"partitions": PARTITIONS, "replicas": REPLICATION}

    async def _create_second_topic(self) -> Detail:
        await self._create("after-the-failover")
        return {"partitions": PARTITIONS}

    async def _create(self, topic: str) -> None:
        brokers = list(self._cluster.brokers)
        assignments = {p: [brokers[(p + i) % len(brokers)] for i in range(REPLICATION)] for p in range(PARTITIONS)}
        await self._cluster.observer.create_topic(topic, assignments, {"min.insync.replicas": "2"})
        await self._waiting.until(self._waiting.missing_agreement, f"every broker has the metadata of {topic}")

    async def _start_load(self) -> Detail:
        self._load = ProducerLoad(self._cluster.bootstrap, TOPIC, PARTITIONS)
        self._load.start()
        load = self._load

        async def missing() -> str | None:
            return None if load.acknowledged > 500 else f"{load.acknowledged} records acknowledged"

        await self._waiting.until(missing, "the first records are acknowledged")
        return {"records per second": 250}

    async def _kill_leader(self) -> Detail:
        leader = (await self._waiting.leadership(TOPIC, 0)).leader
        led = await self._waiting.led_by(leader)
        await self._cluster.brokers[leader].kill()
        await self._waiting.until(lambda: self._waiting.missing_leaders(leader), f"broker {leader} leads no partition")
        await self._waiting.until(self._waiting.missing_agreement, "the live brokers agree")
        return {"broker": int(leader), "leaders moved": led}

    async def _start_again(self) -> Detail:
        dead = next(i for i, broker in self._cluster.brokers.items() if not broker.running)
        await self._cluster.brokers[dead].start()
        await self._waiting.until(self._waiting.missing_isr, "every replica is in sync again")
        await self._waiting.until(self._waiting.missing_agreement, "every broker agrees")
        return {"broker": dead, "in-sync replicas": "full"}

    async def _controlled_shutdown(self) -> Detail:
        leader = (await self._waiting.leadership(TOPIC, 1)).leader
        led = await self._waiting.led_by(leader)
        status = await self._cluster.brokers[leader].terminate()
        if status != 0:
            raise DevError(f"broker {leader} ended with status {status} instead of 0")
        left = await self._waiting.led_by(leader)
        if left:
            raise DevError(f"broker {leader} ended while it still led {counted(left, 'partition')}")
        await self._waiting.until(self._waiting.missing_agreement, "the live brokers agree")
        return {"broker": int(leader), "leaders moved before it went": led}

    async def _kill_controller(self) -> Detail:
        before = await self._waiting.active()
        epoch = await _epoch(before)
        await before.process.kill()
        started = time.monotonic()
        await self._waiting.until(self._waiting.missing_controller, "another instance leads")
        after = await self._waiting.active()
        took = round(time.monotonic() - started, 2)
        await self._waiting.until(self._waiting.missing_agreement, "every broker follows the new controller")
        await before.start()
        epochs = f"{epoch} -> {await _epoch(after)}"
        return {"killed": before.node_id, "leads now": after.node_id, "epoch": epochs, "after s": took}

    async def _verify_load(self) -> Detail:
        load, self._load = self._load, None
        if load is None:
            raise DevError("there is no producer")
        result = await asyncio.to_thread(load.stop)
        consumed = await asyncio.to_thread(consume_all, self._cluster.bootstrap, TOPIC)
        checked = verify(result.acknowledged, consumed)
        detail: Detail = {
            "acknowledged": len(result.acknowledged),
            "lost": checked.lost,
            "duplicated": checked.duplicated,
            "out of order": checked.out_of_order,
            "worst gap s": round(result.worst_gap_s(), 2),
        }
        if not checked.ok or result.failures or result.fatal_error:
            raise DevError(f"records were lost: {detail}, {result.failures[:3]} {result.fatal_error}")
        return detail

    async def _compare(self) -> Detail:
        await self._waiting.until(self._waiting.missing_agreement, "all brokers agree with ZooKeeper")
        active = await self._waiting.active()
        view = await self._cluster.view()
        received = {f"controllerd {active.node_id}": await active.metadata()}
        differences = metadata_differences(view, received, active.node_id)
        await self._waiting.until(
            lambda: self._waiting.missing_audit(active, view), "the audit log folds to the state in ZooKeeper"
        )
        broken = [line for directory in await self._audit_directories() for line in audit_violations(directory)]
        if differences or broken:
            raise DevError("; ".join(differences + broken))
        return {"partitions": len(view.leaderships), "differences": 0, "invariants broken": 0}

    async def _audit_directories(self) -> list[Path]:
        cluster_id = await self._cluster.observer.cluster_id()
        return [controller.audit_directory(cluster_id) for controller in self._cluster.controllers]


async def _epoch(controller: ControllerProcess) -> int:
    status = await controller.status()
    if status is None:
        raise DevError(f"controllerd {controller.node_id} does not answer")
    return int(status["controller_epoch"])
