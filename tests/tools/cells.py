"""The cells of the table of tools and clients: one per action, run by way of every bootstrap server.

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
"""The kinds of bootstrap server of a client."""
WORKS: Final = "works"
SLOW: Final = 3
"""The broker that is throttled, so that a reassignment to it stays under way."""
AT_ONCE: Final = 2
"""The number of Java processes of tools that may run at once."""
_COMPLAINT: Final = re.compile(r"^\S+ \S+ (?:WARN|ERROR|FATAL) .*", re.MULTILINE)
TOOL_OUTPUT: Final[ContextVar[list[str]]] = ContextVar("tool_output")
"""The output of the tools of a cell, apart from that of other cells under way."""


@dataclass(frozen=True, slots=True)
class Client:
    """A tool or a library; ``main_class`` is the class that starts the tool, or the class of the library."""

    name: str
    main_class: str


@dataclass(frozen=True, slots=True)
class Cell:
    """An action of a client and its result, in words for operators."""

    client: Client
    action: str
    run: "Callable[[Way], Awaitable[None]]"
    result: str = WORKS
    while_away: bool = False
    """Whether the cell needs a broker that is down."""
    alone: bool = False
    """Whether the cell must run alone, because it concerns all partitions or all reassignments."""

    @property
    def id(self) -> str:
        """The name of the cell among the tests."""
        return re.sub(r"[^a-z0-9]+", "-", f"{self.client.name} {self.action}".lower()).strip("-")


CELLS: Final[list[Cell]] = []
"""All cells, in the order of the page."""


def cell(
    client: Client, action: str, result: str = WORKS, *, while_away: bool = False, alone: bool = False
) -> "Callable[[Callable[[Way], Awaitable[None]]], Callable[[Way], Awaitable[None]]]":
    """Add a function to the table."""

    def enter(run: "Callable[[Way], Awaitable[None]]") -> "Callable[[Way], Awaitable[None]]":
        CELLS.append(Cell(client, action, run, result, while_away, alone))
        return run

    return enter


class Way:
    """A cluster by way of one bootstrap server, and names that no other cell uses."""

    def __init__(self, scene: Scene, entrance: str, bootstrap: str, home: Path) -> None:
        self.scene = scene
        self.entrance = entrance
        self.bootstrap = bootstrap
        self.prepared: dict[str, str] = {}
        """Topics for the cells while a broker is down, by purpose."""
        self.whole = True
        """Whether every broker runs, so that no tool has a reason for a warning."""
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
        """The output of a tool that must succeed, without warnings unless ``complaining`` or a broker is down."""
        done = await self.ended(client, *arguments, stdin=stdin, connect=connect)
        assert done.exit_status == 0, done
        if self.whole and not complaining:
            assert complaints(done.stderr) == []
        return done.stdout

    async def refused(self, client: Client, *arguments: str, says: str) -> None:
        """Run a tool that must fail with this message."""
        done = await self.ended(client, *arguments)
        assert done.exit_status == 1, done
        assert says in done.stdout + done.stderr, done

    async def ended(
        self, client: Client, *arguments: str, stdin: str = "", connect: str = "--bootstrap-server"
    ) -> ToolResult:
        """Run a tool, and return its result."""
        options = [*(connect, self.bootstrap)] if connect else []
        async with self._room:
            done = await run_tool(client.main_class, [*options, *arguments], directory=self._home, stdin=stdin)
        TOOL_OUTPUT.get().append(f"{client.name} {' '.join(arguments)}: exit {done.exit_status}")
        TOOL_OUTPUT.get().extend(text for text in (done.stdout.strip(), done.stderr.strip()) if text)
        return done

    # -- fixtures of cells -------------------------------------------------------------------------------------------

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
            views = (await self.scene.cluster.metadata()).values()
            known = [metadata.topics.get(name) for metadata in views]
            return all(topic is not None and _led(topic.partitions) == set(partitions) for topic in known)

        await self.scene.until_seen(shown, f"every broker shows {name}")

    async def moved_topic(self) -> str:
        """A topic of one partition on brokers 2 and 1 that broker 1 leads, so that a preferred election moves it."""
        name = await self.topic({0: [1, 2]})
        await self.scene.until_isr(name, {1, 2})
        await self.scene.operator.reassign({tp(name): [2, 1]})
        await self.scene.until_assigned(name, [2, 1])
        assert (await self.scene.state(name)).leader == 1
        return name

    @asynccontextmanager
    async def stuck_topic(self) -> AsyncIterator[str]:
        """A topic of one partition with a reassignment from broker 1 to 3, which is cancelled at the end."""
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
        """A topic of two partitions on broker 1 with so many records that the throttled broker 3 cannot catch up."""
        name = await self.topic({0: [1], 1: [1]}, {"min.insync.replicas": "1"})
        # A broker might apply the throttle of the tool itself only after it has fetched everything.
        await self.scene.throttle(name, SLOW)
        for partition in (0, 1):
            await self.scene.ballast(name, partition)
        return name

    # -- effects -----------------------------------------------------------------------------------------------------

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
        """Check that broker 2 leads a topic on brokers 3 and 2 whose only ISR member was broker 3."""

        async def shown() -> bool:
            views = (await self.scene.cluster.metadata()).values()
            return all(metadata.topics[name].partitions[0].leader == 2 for metadata in views)

        state = await self.scene.state(name)
        assert (state.leader, list(state.isr)) == (2, [2])
        await self.scene.until_seen(shown, f"every broker shows {name} as led by 2")


def _led(partitions: Mapping[int, object]) -> set[int]:
    return {number for number, partition in partitions.items() if getattr(partition, "leader", -1) >= 0}


def contains(text: str, *parts: str) -> None:
    """Check that the output has all of these parts, without regard to spaces."""
    plain = " ".join(text.split())
    missing = [part for part in parts if part not in plain]
    assert not missing, f"{missing} not in:\n{text}"


def complaints(logged: str) -> list[str]:
    """The warnings and errors in the log of a tool."""
    return _COMPLAINT.findall(logged)


async def in_thread(function: Callable[..., object], *arguments: object) -> None:
    """Run a blocking call of a library in a thread."""
    await asyncio.to_thread(function, *arguments)
