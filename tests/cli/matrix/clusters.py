"""Whole controllers behind the real HTTP server, each in a state of its own, served by a thread beside the commands."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeVar

from controllerd.config.model import Address, HttpConfig
from controllerd.core.model import BrokerId
from controllerd.core.settings_book import SettingsBook
from controllerd.recent import Recent
from controllerd.status.reads.comparison import Comparison, ComparisonProgress, Differing
from controllerd.status.server import StatusServer
from controllerd.status.sources import StatusSources
from controllerd.views import ChannelView
from events.cluster import Takeover
from events.operator import Pause
from tests.cli.documents import run
from tests.fakes.reassigning import change_isr, reassign
from tests.fakes.world import ManualClock, World, tp
from tests.status.fake_controller import FakeController, Memory, compared, serving
from tests.status.verbs.operating import sources_of, standby_of

Made = TypeVar("Made")
CLUSTER_ID: Final = "cluster-1"
LEADER: Final = "controllerd 2000000000"
SUCCESSOR: Final = "controllerd 2000000001"
STUCK_S: Final = 0.2
"""So long the server waits for an event task that takes nothing from its queue."""
CONFIG: Final = {
    "log.level": {"value": "info", "origin": "default"},
    "node.id": {"value": 2_000_000_000, "origin": "prod.toml"},
}


class ServedCluster(NamedTuple):
    """Where a cluster is asked for."""

    url: str


@contextmanager
def opened() -> Iterator[dict[str, ServedCluster]]:
    """All of them."""
    with _beside(_all()) as clusters:
        run("resync", "--yes", "--api", clusters["active"].url)  # so that there is a task to be shown
        yield clusters


@contextmanager
def fresh(name: str) -> Iterator[ServedCluster]:
    """A cluster of this kind, made for one test that changes it."""
    with _beside(_KINDS[name]()) as cluster:
        yield cluster


@asynccontextmanager
async def _all() -> AsyncIterator[dict[str, ServedCluster]]:
    async with AsyncExitStack() as stack:
        yield {name: await stack.enter_async_context(kind()) for name, kind in _KINDS.items()}


@contextmanager
def _beside(served: AbstractAsyncContextManager[Made]) -> Iterator[Made]:
    """The object that the context yields, while an event loop in another thread serves it."""
    is_up, given, ends = threading.Event(), list[Made](), list[Callable[[], object]]()

    async def serve() -> None:
        over = asyncio.Event()
        loop = asyncio.get_running_loop()
        ends.append(lambda: loop.call_soon_threadsafe(over.set))
        async with served as found:
            given.append(found)
            is_up.set()
            await over.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        finally:
            is_up.set()

    thread = threading.Thread(target=run)
    thread.start()
    is_up.wait()
    try:
        assert given, "the cluster could not be made"
        yield given[0]
    finally:
        ends[0]()
        thread.join()


# -- an active controller whose cluster needs attention ----------------------------------------------------------------


class _Staged(NamedTuple):
    """A controller, and its recent audit records."""

    world: World
    recent: Recent


async def _staged() -> _Staged:
    """Broker 4 is gone.

    So ``dark`` has no leader, and the deletion of ``old`` is held up; ``moving`` is being reassigned, and a replica
    other than the preferred one leads ``wide``.
    """
    recent = Recent(ManualClock())
    world = World(readers=[recent])
    world.snapshot.cluster_id = CLUSTER_ID
    for broker in (1, 2, 3, 4):
        world.register(broker, port=1)
    await world.start()
    world.put_topic("t", {number: [1, 2] for number in range(3)})
    for name, replicas in {"lone": [1], "wide": [3, 1, 2], "dark": [4, 2], "moving": [1, 2], "old": [4]}.items():
        world.put_topic(name, {0: replicas})
    await world.settle()
    await change_isr(world, "dark", 4)
    world.die(4)
    world.die(3)
    await world.settle()
    world.register(3, port=1)
    await world.settle()
    await change_isr(world, "wide", 1, 3)
    world.tree.put("/admin/delete_topics/old")
    await world.settle()
    await reassign(world, {tp("moving"): [1, 3]})
    await world.call(Pause("auto-rebalance", 2_000_000, "backup", "User:eve"))
    return _Staged(world, recent)


def _sources(staged: _Staged, differing: tuple[Differing, ...]) -> StatusSources:
    async def compare(_with_brokers: bool, _progress: ComparisonProgress) -> Comparison:
        return Comparison(differences=differing, partitions=8, brokers=(1, 2))

    channels: Mapping[BrokerId, ChannelView] = {
        BrokerId(1): ChannelView(),
        BrokerId(2): ChannelView(3, 1.5, connected=False, error="refused"),
        BrokerId(3): ChannelView(),
    }
    return replace(
        sources_of(staged.world),
        recent=staged.recent,
        memory=Memory(),
        config=lambda: CONFIG,
        cluster_settings=lambda: SettingsBook().current,
        compare=compare,
        channels=lambda: channels,
    )


@asynccontextmanager
async def _served(sources: StatusSources, *worlds: World) -> AsyncIterator[ServedCluster]:
    """The server, while these worlds handle their events; without any it is stuck."""
    timeout_s = 5.0 if worlds else STUCK_S
    server = StatusServer(sources, HttpConfig(listen=Address("127.0.0.1", 0)), admin_timeout_s=timeout_s)
    port = await server.start()
    handling = [asyncio.create_task(_handle_events(world)) for world in worlds]
    try:
        yield ServedCluster(f"http://127.0.0.1:{port}")
    finally:
        for task in handling:
            task.cancel()
        await server.close()


async def _handle_events(world: World) -> None:
    while True:
        await world.loop.handle(await world.queue.take())


@asynccontextmanager
async def _active() -> AsyncIterator[ServedCluster]:
    """The instance is active, and a standby waits."""
    staged = await _staged()
    sources = _sources(staged, (Differing("t-0", "leader", "2", "1"),))
    async with _served(sources, staged.world, await standby_of(staged.world)) as cluster:
        yield cluster


@asynccontextmanager
async def _stuck() -> AsyncIterator[ServedCluster]:
    """The instance is active, and its event task has stopped."""
    async with _served(_sources(await _staged(), ())) as cluster:
        yield cluster


@asynccontextmanager
async def _deposed() -> AsyncIterator[ServedCluster]:
    """The instance was active until another one took the role."""
    staged = await _staged()
    successor = await standby_of(staged.world)
    await successor.call(Takeover("maintenance"))
    await staged.world.settle()
    async with _served(_sources(staged, ()), staged.world, successor) as cluster:
        yield cluster


@asynccontextmanager
async def _stalled() -> AsyncIterator[ServedCluster]:
    """The instance was deposed, and its event task has stopped."""
    staged = await _staged()
    await (await standby_of(staged.world)).call(Takeover("maintenance"))
    await staged.world.settle()
    async with _served(_sources(staged, ())) as cluster:
        yield cluster


@asynccontextmanager
async def _observer() -> AsyncIterator[ServedCluster]:
    """The instance observes a broker's own controller, and one of its decisions differs."""
    controller = FakeController()
    controller.observe(compared("equal"), compared("different: leader", topic="audit", number=3))
    async with serving(controller) as url:
        yield ServedCluster(url)


@asynccontextmanager
async def _sound() -> AsyncIterator[ServedCluster]:
    """The instance is active, one broker is alive, and nothing needs attention."""

    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as broker:
        world = World()
        world.register(1, port=broker.sockets[0].getsockname()[1])
        await world.start()
        world.put_topic("t", {0: [1]})
        await world.settle()
        sources = replace(_sources(_Staged(world, Recent(world.clock)), ()), channels=_one_channel)
        async with _served(sources, world) as cluster:
            yield cluster


def _one_channel() -> Mapping[BrokerId, ChannelView]:
    return MappingProxyType({BrokerId(1): ChannelView()})


_KINDS: Final[Mapping[str, Callable[[], AbstractAsyncContextManager[ServedCluster]]]] = {
    "active": _active,
    "stuck": _stuck,
    "deposed": _deposed,
    "stalled": _stalled,
    "observer": _observer,
    "sound": _sound,
}
