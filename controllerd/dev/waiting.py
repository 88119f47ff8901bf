"""Wait for conditions of a cluster, and print the missing part while a condition does not hold."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.dev.cluster import DevCluster, Tell
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.observe import ZooKeeperView, audit_differences, metadata_differences
from controllerd.dev.processes import DevError
from controllerd.errors import StoreUnavailable
from wire.errors import WireError

_TIMEOUT_S: Final = 60.0
_POLL_S: Final = 0.05
_PATIENCE_S: Final = 5.0

Condition = Callable[[], Awaitable[str | None]]
"""Return None if the condition holds, else a text on the missing part."""


async def _check(missing: Condition) -> str | None:
    """Check a condition; while ZooKeeper does not answer, that is the missing part."""
    try:
        return await missing()
    except StoreUnavailable as error:
        return f"ZooKeeper does not answer: {error}"


class Waiting:
    """Conditions of one cluster."""

    def __init__(self, cluster: DevCluster, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell

    async def until(self, missing: Condition, what: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until nothing is missing; print the missing part every few seconds. :raises DevError: time is up."""
        deadline, remind_at = time.monotonic() + timeout_s, time.monotonic() + _PATIENCE_S
        while (lack := await _check(missing)) is not None:
            now = time.monotonic()
            if now > deadline:
                raise DevError(f"waited {timeout_s:.0f} s until {what}, but {lack}")
            if now > remind_at:
                self._tell(f"    waiting until {what}: {lack}")
                remind_at = now + _PATIENCE_S
            await asyncio.sleep(_POLL_S)

    async def missing_agreement(self) -> str | None:
        """Check that all running brokers serve the state in ZooKeeper, with every partition."""
        active = await self._cluster.active()
        if active is None:
            return "no instance of controllerd is active"
        try:
            received = await self._cluster.metadata()
        except (OSError, WireError) as error:
            return f"a broker does not answer: {error}"
        view = await self._cluster.view()
        running = {BrokerId(i) for i, broker in self._cluster.brokers.items() if broker.running}
        if view.brokers != running:
            return f"registered are {sorted(view.brokers)}, running {sorted(running)}"
        if view.leaderships.keys() != view.assignments.keys():
            return "a partition has no state yet"
        return next(iter(metadata_differences(view, received, active.node_id)), None)

    async def missing_leaders(self, dead: BrokerId) -> str | None:
        """Check that every partition has a leader other than ``dead``."""
        view = await self._cluster.view()
        left = [str(tp) for tp, state in view.leaderships.items() if state.leader in {dead, -1}]
        return f"no live leader for {', '.join(left[:3])}" if left else None

    async def missing_isr(self) -> str | None:
        """Check that every partition has a leader and all its replicas in the ISR."""
        view = await self._cluster.view()
        return None if view.is_whole() else "in-sync replicas are missing"

    async def missing_controller(self) -> str | None:
        """Check that an instance of controllerd is active."""
        return None if await self._cluster.active() is not None else "no instance is active"

    async def missing_audit(self, active: ControllerProcess, view: ZooKeeperView) -> str | None:
        """Check that the audit log of ``active`` folds to ``view``."""
        directory = active.audit_directory(await self._cluster.observer.cluster_id())
        differences = await asyncio.to_thread(audit_differences, directory, view)
        return differences[0] if differences else None

    async def leadership(self, topic: str, partition: int) -> LeaderAndIsr:
        """Return the current state of one partition in ZooKeeper. :raises KeyError: it has none."""
        return (await self._cluster.view()).leaderships[TopicPartition(topic, partition)]

    async def led_by(self, broker: BrokerId) -> int:
        """Return how many partitions the broker leads by their current states in ZooKeeper."""
        return sum(state.leader == broker for state in (await self._cluster.view()).leaderships.values())

    async def active(self) -> ControllerProcess:
        """Return the active instance. :raises DevError: there is none."""
        active = await self._cluster.active()
        if active is None:
            raise DevError("no instance of controllerd is active")
        return active
