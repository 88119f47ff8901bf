"""Waiting until a cluster is as it should be, and saying what is missing while it is not."""

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
"""None when it holds, else what is still missing."""


async def _asked(missing: Condition) -> str | None:
    """ZooKeeper itself may be away for a while; that is one more thing to wait for."""
    try:
        return await missing()
    except StoreUnavailable as error:
        return f"ZooKeeper does not answer: {error}"


class Waiting:
    """Conditions over one cluster."""

    def __init__(self, cluster: DevCluster, tell: Tell) -> None:
        self._cluster = cluster
        self._tell = tell

    async def until(self, missing: Condition, what: str, *, timeout_s: float = _TIMEOUT_S) -> None:
        """Wait until nothing is missing; says every few seconds what it waits for. :raises DevError: out of time."""
        deadline, remind_at = time.monotonic() + timeout_s, time.monotonic() + _PATIENCE_S
        while (lack := await _asked(missing)) is not None:
            now = time.monotonic()
            if now > deadline:
                raise DevError(f"waited {timeout_s:.0f} s until {what}, but {lack}")
            if now > remind_at:
                self._tell(f"    waiting until {what}: {lack}")
                remind_at = now + _PATIENCE_S
            await asyncio.sleep(_POLL_S)

    async def missing_agreement(self) -> str | None:
        """All running brokers show what ZooKeeper has, and no broker lacks a partition."""
        active = await self._cluster.active()
        if active is None:
            return "no instance of controllerd leads"
        try:
            told = await self._cluster.metadata()
        except (OSError, WireError) as error:
            return f"a broker does not answer: {error}"
        view = await self._cluster.view()
        running = {BrokerId(i) for i, broker in self._cluster.brokers.items() if broker.running}
        if view.brokers != running:
            return f"registered are {sorted(view.brokers)}, running {sorted(running)}"
        if view.leaderships.keys() != view.assignments.keys():
            return "a partition has no state yet"
        return next(iter(metadata_differences(view, told, active.node_id)), None)

    async def missing_leaders(self, dead: BrokerId) -> str | None:
        """Every partition has a leader other than ``dead``."""
        view = await self._cluster.view()
        left = [str(tp) for tp, state in view.leaderships.items() if state.leader in {dead, -1}]
        return f"no live leader for {', '.join(left[:3])}" if left else None

    async def missing_isr(self) -> str | None:
        """Every partition has a leader and all its replicas in the ISR."""
        view = await self._cluster.view()
        return None if view.is_whole() else "in-sync replicas are missing"

    async def missing_controller(self) -> str | None:
        """An instance of controllerd leads."""
        return None if await self._cluster.active() is not None else "no instance leads"

    async def missing_audit(self, active: ControllerProcess, view: ZooKeeperView) -> str | None:
        """The audit log of ``active`` folds to ``view``."""
        directory = active.audit_directory(await self._cluster.observer.cluster_id())
        differences = await asyncio.to_thread(audit_differences, directory, view)
        return differences[0] if differences else None

    async def leadership(self, topic: str, partition: int) -> LeaderAndIsr:
        """The leadership of one partition as ZooKeeper has it now. :raises KeyError: it has none."""
        return (await self._cluster.view()).leaderships[TopicPartition(topic, partition)]

    async def led_by(self, broker: BrokerId) -> int:
        """How many partitions the broker leads, as ZooKeeper has it now."""
        return sum(state.leader == broker for state in (await self._cluster.view()).leaderships.values())

    async def active(self) -> ControllerProcess:
        """The instance that leads. :raises DevError: none does."""
        active = await self._cluster.active()
        if active is None:
            raise DevError("no instance of controllerd leads")
        return active
