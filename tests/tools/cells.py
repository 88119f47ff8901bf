"""What is tried with Kafka's tools and other admin clients: one cell per action, tried by way of every entrance.

``docs/compatibility.md`` is made of these cells, and ``tests/real/test_tools.py`` runs each of them.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controllerd.dev.kafka import ToolResult, run_tool
from tests.real.operator import tp
from tests.real.scene import Scene

WAYS: Final = ("broker", "controllerd")
"""Where a client bootstraps from."""
WORKS: Final = "works"
SLOW: Final = 3
"""The broker that nothing is moved to in time."""
AT_ONCE: Final = 2
"""So many virtual machines of tools may run."""
_COMPLAINT: Final = re.compile(r"^\S+ \S+ (?:WARN|ERROR|FATAL) .*", re.MULTILINE)
TOLD: Final[ContextVar[list[str]]] = ContextVar("told")
"""What the tools of a cell printed: several cells may be under way."""


@dataclass(frozen=True, slots=True)
class Client:
    """A tool or a library; ``main_class`` is how it is started, or the class that is used."""

    name: str
    main_class: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An action of a client, and what comes of it, in words for operators."""

    client: Client
    action: str
    run: "Callable[[Way], Awaitable[None]]"
    result: str = WORKS
    while_away: bool = False
    """Whether it needs a broker that is down."""
    alone: bool = False
    """Whether other cells would disturb it, or it them: it is about all partitions, or about what is under way."""

    @property
    def id(self) -> str:
        """Its name among the tests."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.client.name} {self.action}".lower()).strip("-")


CELLS: Final[list[Cell]] = []
"""In the order of the page."""


def cell(
    client: Client, action: str, result: str = WORKS, *, while_away: bool = False, alone: bool = False
) -> "Callable[[Callable[[Way], Awaitable[None]]], Callable[[Way], Awaitable[None]]]":
    """Enter a function into the table."""

    def enter(run: "Callable[[Way], Awaitable[None]]") -> "Callable[[Way], Awaitable[None]]":
        CELLS.append(Cell(client, action, run, result, while_away, alone))
        return run

    return enter


class Way:
    """A cluster seen through one entrance, and names that no other cell uses."""

    def __init__(self, scene: Scene, entrance: str, bootstrap: str, home: Path) -> None:
        self.scene = scene
        self.entrance = entrance
        self.bootstrap = bootstrap
        self.prepared: dict[str, str] = {}
        """Topics for the time while a broker is down, by what they are for."""
        self.whole = True
        """Whether every broker runs, so that no tool has a reason to complain."""
        self._home = home
        self._names = 0
        self._room = asyncio.Semaphore(AT_ONCE)

    def new_name(self, what: str = "t") -> str:
        """A name for a topic, a group or a user."""
        self._names += 1
        return f"{what}-{self.entrance}-{self._names}"

    def file(self, content: object) -> str:
        """A file with JSON for a tool."""
        self._names += 1
        path = self._home / f"{self.entrance}-{self._names}.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    # -- tools -------------------------------------------------------------------------------------------------------

    async def tool(
        self,
        client: Client,
        *arguments: str,
        stdin: str = "",
        connect: str = "--bootstrap-server",
        complaining: bool = False,
    ) -> str:
        """What a tool prints that ends well, and logs no warning unless it is ``complaining`` or a broker is down."""
        done = await self.ended(client, *arguments, stdin=stdin, connect=connect)
        assert done.exit_status == 0, done
        if self.whole and not complaining:
            assert complaints(done.stderr) == []
        return done.stdout

    async def refused(self, client: Client, *arguments: str, says: str) -> None:
        """A tool fails with this sentence."""
        done = await self.ended(client, *arguments)
        assert done.exit_status == 1, done
        assert says in done.stdout + done.stderr, done

    async def ended(
        self, client: Client, *arguments: str, stdin: str = "", connect: str = "--bootstrap-server"
    ) -> ToolResult:
        """How a tool ends."""
        options = [*(connect, self.bootstrap)] if connect else []
        async with self._room:
            done = await run_tool(client.main_class, [*options, *arguments], directory=self._home, stdin=stdin)
        TOLD.get().append(f"{client.name} {' '.join(arguments)}: exit {done.exit_status}")
        TOLD.get().extend(text for text in (done.stdout.strip(), done.stderr.strip()) if text)
        return done

    # -- what a cell begins with -------------------------------------------------------------------------------------

    async def topic(
        self, replicas: Mapping[int, Sequence[int]], configs: Mapping[str, str] | None = None, what: str = "t"
    ) -> str:
        """A new topic that every running broker shows, with a leader for each partition."""
        name = self.new_name(what)
        await self.scene.cluster.observer.create_topic(name, replicas, configs)
        await self.until_shown(name, replicas)
        return name

    async def until_shown(self, name: str, partitions: Collection[int]) -> None:
        """Wait until every running broker shows these partitions of a topic with leaders."""

        async def shown() -> bool:
            told = (await self.scene.cluster.metadata()).values()
            known = [metadata.topics.get(name) for metadata in told]
            return all(topic is not None and _led(topic.partitions) == set(partitions) for topic in known)

        await self.scene.until_seen(shown, f"every broker shows {name}")

    async def moved_topic(self) -> str:
        """A topic of one partition on 2 and 1 that 1 leads, so that a preferred election moves it."""
        name = await self.topic({0: [1, 2]})
        await self.scene.until_isr(name, {1, 2})
        await self.scene.operator.reassign({tp(name): [2, 1]})
        await self.scene.until_assigned(name, [2, 1])
        assert (await self.scene.state(name)).leader == 1
        return name

    @asynccontextmanager
    async def stuck_topic(self) -> AsyncIterator[str]:
        """A topic of one partition that is on its way from 1 to 3, and is given up in the end."""
        name = await self.topic({0: [1]}, {"min.insync.replicas": "1"})
        await self.scene.throttle(name, SLOW)
        try:
            await self.scene.ballast(name)
            await self.scene.operator.reassign({tp(name): [SLOW]})
            yield name
        finally:
            await self.scene.operator.reassign({tp(name): None})
            await self.scene.unthrottle(SLOW)

    async def slow_topic(self) -> str:
        """A topic of two partitions on 1 with so much in it that 3, throttled to a byte a second, cannot catch up."""
        name = await self.topic({0: [1], 1: [1]}, {"min.insync.replicas": "1"})
        # What a tool sets itself some broker may hear after it has begun to fetch, and be done at once.
        await self.scene.throttle(name, SLOW)
        for partition in (0, 1):
            await self.scene.ballast(name, partition)
        return name

    # -- what has become of it ---------------------------------------------------------------------------------------

    async def replicas(self, name: str) -> dict[int, tuple[int, ...]]:
        """The replicas of each partition, as ZooKeeper has them."""
        view = await self.scene.cluster.view()
        return {one.partition: tuple(found.replicas) for one, found in view.assignments.items() if one.topic == name}

    async def configs(self, entity: str) -> dict[str, str]:
        """The configurations of ``topics/x`` or ``users/x/clients/y``, as ZooKeeper has them."""
        path = f"/config/{entity}"
        if not await self.scene.operator.exists(path):
            return {}
        read: Any = await self.scene.operator.read(path)
        return dict(read["config"])

    async def until_deleted(self, name: str) -> None:
        """Wait until neither ZooKeeper nor a disk has anything of a topic."""
        for path in ("/brokers/topics", "/admin/delete_topics", "/config/topics"):
            await self.scene.until_gone(f"{path}/{name}")
        await self.scene.until_hosted(name, ())

    async def led_uncleanly(self, name: str) -> None:
        """A topic that was on 3 and 2, in sync on 3 alone, is led by 2 now, which is what is left of it."""

        async def shown() -> bool:
            told = (await self.scene.cluster.metadata()).values()
            return all(metadata.topics[name].partitions[0].leader == 2 for metadata in told)

        state = await self.scene.state(name)
        assert (state.leader, list(state.isr)) == (2, [2])
        await self.scene.until_seen(shown, f"every broker shows {name} as led by 2")


def _led(partitions: Mapping[int, object]) -> set[int]:
    return {number for number, partition in partitions.items() if getattr(partition, "leader", -1) >= 0}


def contains(text: str, *parts: str) -> None:
    """All of these are in what was printed, whatever the spaces."""
    plain = " ".join(text.split())
    missing = [part for part in parts if part not in plain]
    assert not missing, f"{missing} not in:\n{text}"


def complaints(logged: str) -> list[str]:
    """The warnings and errors in what a tool logged."""
    return _COMPLAINT.findall(logged)


async def in_thread(function: Callable[..., object], *arguments: object) -> None:
    """What a library does that blocks."""
    await asyncio.to_thread(function, *arguments)
