"""Fifty sessions of a leading controller expire in a row: each time it leads again, and its memory does not grow."""

import asyncio
import gc
import logging
import threading
import time
import tracemalloc
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from controllerd.daemon.node import ControllerNode
from controllerd.dev.txnlog import TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.scenarios.nodes import Rig, expire, kazoo_of, rig_of, served, session_of
from tests.zk.proxy import ZooKeeperProxy
from tests.zk.world import until

pytestmark = pytest.mark.zookeeper

EXPIRIES = 50
NEVER_BY_ITSELF_MS = "60000"
"""The longest that the server grants: a machine that stalls must not end a fifty-first session."""
WARM = 10
GROWTH = 64 * 1024
"""Bytes that forty expiries may add in all: less than two kilobytes each, the noise of caches and deques."""
RSS_GROWTH = 6 * 1024 * 1024
"""The same as the kernel counts it, in pages that malloc has not given back."""
TASKS_UNDER_WAY = 4
"""Questions to brokers and pauses that may be under way at one of the moments; one for each expiry would be forty."""


@dataclass(frozen=True)
class Size:
    """How much of everything there is at one moment."""

    traced: int
    """Bytes of Python objects."""
    rss: int
    tasks: int
    threads: int
    watched: int
    """Paths that kazoo has a watcher for."""
    watchers: int

    def __str__(self) -> str:
        return (
            f"{self.traced / 1024:.0f} KiB traced, {self.rss / 1024:.0f} KiB resident, {self.tasks} tasks, "
            f"{self.threads} threads, {self.watchers} watchers of {self.watched} paths"
        )


@pytest.fixture(scope="module")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its transaction log."""
    return tmp_path_factory.mktemp("expiry")


@pytest.fixture(scope="module")
def server(server_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of this module's own, whose transaction log can be read."""
    yield from served(server_directory)


@pytest.fixture
async def rig(server: EmbeddedZooKeeper, server_directory: Path, chroot: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """A chroot with three partitions' worth of a cluster to come."""
    async with (
        ZooKeeperProxy(server.connect) as proxy,
        rig_of(server.connect, chroot, proxy, TransactionLog(server_directory / "data"), tmp_path) as running,
    ):
        yield running


@pytest.fixture
def traced(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Python counts what it allocates, and pytest keeps none of kazoo's warnings, which would count as well."""
    caplog.set_level(logging.CRITICAL, "kazoo")
    tracemalloc.start()
    yield
    tracemalloc.stop()


def size_of(node: ControllerNode, rig: Rig) -> Size:
    """Return the present size, without data of the test itself and of bounded caches."""
    for stub in rig.stubs.values():
        stub.got.clear()
        stub.writers.clear()
    rig.peer.events.all.clear()
    rig.peer.audit.records.clear()
    node.recent._entries.clear()
    node.recent._rows = 0
    node.recent.terms.clear()
    meters = node.instance.meters
    for timer in (meters.events.all, *meters.events._by_state.values(), *meters.channels.queued.values()):
        timer.sample._kept.clear()
    gc.collect()
    kazoo = kazoo_of(session_of(node))
    registries = [kazoo._data_watchers, kazoo._child_watchers]
    return Size(
        traced=tracemalloc.get_traced_memory()[0],
        rss=resident(),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        watched=sum(map(len, registries)),
        watchers=sum(len(found) for registry in registries for found in registry.values()),
    )


def resident() -> int:
    """Bytes of this process that are in memory."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


async def lose_a_session(node: ControllerNode, rig: Rig) -> None:
    """The session ends; when this returns the node leads in the next one, and has sent requests to every broker."""
    epoch, received = node.instance.context.epoch, {broker: len(stub.got) for broker, stub in rig.stubs.items()}
    await expire(session_of(node), rig.server)
    await until(lambda: node.snapshot.is_active and node.snapshot.controller_epoch > epoch)
    assert node.snapshot.controller_epoch == epoch + 1
    for broker, stub in rig.stubs.items():
        await stub.until(lambda stub=stub, seen=received[broker]: len(stub.got) >= seen + 3)  # type: ignore[misc]


@pytest.mark.timeout(600)
async def test_after_fifty_expired_sessions_the_instance_leads_and_no_memory_grows(rig: Rig, traced: None) -> None:
    began, sizes = time.monotonic(), dict[int, Size]()
    async with rig.brokers(1, 2), rig.node(zookeeper__session_timeout_ms=NEVER_BY_ITSELF_MS) as node:
        await rig.peer.add_topic("t", [[1, 2], [2, 1], [1, 2]])
        await rig.led_by("t", 1, 2, 1)
        for number in range(1, EXPIRIES + 1):
            await lose_a_session(node, rig)
            if number in {WARM, EXPIRIES}:
                sizes[number] = size_of(node, rig)
                print(f"after {number:2} expiries: {sizes[number]}")

        await rig.peer.add_topic("u", [[2, 1]])
        await rig.led_by("u", 2)
        assert (await rig.epoch(), session_of(node).generation) == (EXPIRIES + 1, EXPIRIES + 1)
    print(f"{EXPIRIES} expiries in {time.monotonic() - began:.1f} s")

    warm, last = sizes[WARM], sizes[EXPIRIES]
    assert last.traced - warm.traced < GROWTH
    assert last.rss - warm.rss < RSS_GROWTH
    assert last.tasks <= warm.tasks + TASKS_UNDER_WAY
    assert last.threads == warm.threads
    assert (last.watched, last.watchers) == (warm.watched, warm.watchers)
