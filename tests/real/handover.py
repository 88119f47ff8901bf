"""A cluster under a broker's own controller, the commands that move the role to controllerd and back, and checks."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from controllerd.audit.reader import AuditReader
from controllerd.dev.cluster import BROKER_IDS, CHROOT, FIRST_NODE_ID, DevCluster, RealBroker, resolve_jars
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.observe import ZooKeeperObserver, metadata_differences
from controllerd.dev.waiting import Waiting
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.record.records import TermRecord
from tests.cli.running import controllerctl
from tests.real.operator import Operator
from wire.errors import WireError

SESSION_MS: Final = 6_000
WORST_GAP_S: Final = 5.0
"""No broker fails, so the role must change hands without waiting for a session to expire."""


@asynccontextmanager
async def brokers_first(
    directory: Path,
    *,
    when_broker_holds: str = "takeover",
    overrides: Mapping[str, str] | None = None,
    settings: Mapping[str, str] | None = None,
    version: str | None = None,
    heap_mib: int = 512,
    session_ms: int = SESSION_MS,
) -> AsyncIterator[DevCluster]:
    """Three brokers with one of them as the controller, and a controllerd that was not started yet.

    ``overrides`` are properties of the brokers, ``settings`` variables of controllerd's
    configuration; ``version`` is the brokers' release, ``session_ms`` controllerd's ZooKeeper session
    timeout.
    """
    await resolve_jars([version], print)
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(EmbeddedZooKeeper(directory / "zookeeper"))
        connect = f"{zookeeper.connect}{CHROOT}"
        observer = await stack.enter_async_context(ZooKeeperObserver(connect))
        brokers = {
            n: RealBroker(
                n, connect, directory / f"broker-{n}", overrides=overrides, version=version, heap_mib=heap_mib
            )
            for n in BROKER_IDS
        }
        for broker in brokers.values():
            stack.push_async_callback(broker.close)
        await asyncio.gather(*(broker.start() for broker in brokers.values()))
        controller = ControllerProcess(
            FIRST_NODE_ID,
            connect,
            directory / "controllerd",
            session_timeout_ms=session_ms,
            when_broker_holds=when_broker_holds,
            settings=settings,
        )
        stack.push_async_callback(controller.close)
        yield DevCluster("kafka", directory, zookeeper, observer, brokers, [controller])


class Handover:
    """Moves the role between one controllerd and the brokers' own controllers by an operator's commands."""

    def __init__(self, waiting: Waiting, operator: Operator) -> None:
        self._waiting = waiting
        self._operator = operator
        self._cluster = operator.cluster
        (self.controller,) = operator.cluster.controllers

    async def leads(self) -> int:
        """The node id in ``/controller``."""
        return int((await self._operator.read("/controller"))["brokerid"])

    async def until_brokers_lead(self) -> None:
        """Wait until one of the brokers is the controller, and all know it."""
        await self._waiting.until(lambda: missing_broker_in_the_lead(self._cluster), "the brokers lead themselves")

    async def take_over(self) -> None:
        """Run ``controllerctl takeover``: controllerd takes the role from a broker, in one epoch."""
        before = await self._epoch()
        await self._command("takeover")
        assert await self.leads() == FIRST_NODE_ID
        await self._waiting.until(self._waiting.missing_agreement, "every broker follows controllerd")
        assert await self._epoch() == before + 1

    async def resign(self) -> None:
        """Run ``controllerctl resign``: a broker wins the election, in one epoch."""
        before = await self._epoch()
        await self._command("resign")
        await self.until_brokers_lead()
        assert await self.leads() in BROKER_IDS
        assert await self._epoch() == before + 1
        assert await self.controller.role() == "standby"

    async def _epoch(self) -> int:
        return await self._cluster.observer.controller_epoch()

    async def _command(self, verb: str) -> None:
        done = await controllerctl("--api", f"http://{self.controller.http}", "--yes", "--reason", "trial", verb)
        assert done.code == 0, done.err
        print(f"  {done.out.strip().splitlines()[-1]}")


async def missing_broker_in_the_lead(cluster: DevCluster) -> str | None:
    """Why the brokers do not yet agree on one of them as the controller, or with ZooKeeper; else None."""
    try:
        metadata_by_broker = await cluster.metadata()
    except (OSError, WireError) as error:
        return f"a broker does not answer: {error}"
    holders = {metadata.controller_id for metadata in metadata_by_broker.values()}
    if len(holders) != 1 or not holders < set(BROKER_IDS):
        return f"controllers are {sorted(holders)}"
    view = await cluster.view()
    if view.leaderships.keys() != view.assignments.keys():
        return "a partition has no state yet"
    if any(FIRST_NODE_ID in metadata.brokers for metadata in metadata_by_broker.values()):
        return "a broker still shows controllerd"
    return next(iter(metadata_differences(view, metadata_by_broker, holders.pop())), None)


def role_changes(log: Path) -> list[tuple[str, int]]:
    """The changes of the role and their epochs; a resignation is recorded when it begins and when it is done."""
    records = (record for _, record in AuditReader(log) if isinstance(record, TermRecord))
    return list(dict.fromkeys((record.change, record.controller_epoch) for record in records))
