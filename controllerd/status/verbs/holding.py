"""``POST /v1/pause``, ``/v1/resume`` and ``/v1/resync``: hold the controller back, and have it look again."""

from http import HTTPStatus
from typing import Final

from aiohttp import web

from controllerd.clock import iso
from controllerd.core.counted import counted
from controllerd.core.pauses import LONGEST_MS, drained_by
from controllerd.status.problems import Refused
from controllerd.status.routing import Route
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import PauseRequest, ResumeRequest, ResyncRequest
from controllerd.status.tasks import Items, Operation
from controllerd.status.verbs.cluster import Cluster
from controllerd.status.verbs.desk import Desk, verb
from controllerd.views import say_pause
from events.admin import Requester
from events.cluster import Resync
from events.operator import Pause, Resume

LONGEST_S: Final = LONGEST_MS // 1000
_PICTURE: Final = "picture"


class HoldingApi:
    """Pauses, and reading everything again."""

    def __init__(self, desk: Desk, cluster: Cluster) -> None:
        self._desk = desk
        self._cluster = cluster

    def routes(self) -> list[Route]:
        """All three."""
        return [
            verb("/v1/pause", self.pause, "Leave something alone for a while", PauseRequest),
            verb("/v1/resume", self.resume, "End a pause", ResumeRequest),
            verb("/v1/resync", self.resync, "Read ZooKeeper again without an election", ResyncRequest),
        ]

    async def pause(self, request: web.Request) -> web.Response:
        """Leave something alone for a while. :raises Refused: for too long, or no time at all."""
        asked = await self._desk.body(request, PauseRequest)
        if not 0 < asked.for_s <= LONGEST_S:
            detail = f"for_s must be 1 to {LONGEST_S} seconds, not {asked.for_s}: nobody remembers a longer pause"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)
        operation = Pausing(asked, self._desk.who(request), self._cluster)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def resume(self, request: web.Request) -> web.Response:
        """End a pause."""
        asked = await self._desk.body(request, ResumeRequest)
        operation = Resuming(asked, self._desk.who(request), self._cluster)
        return await self._desk.answer(await self._desk.admit(request, operation, asked.reason))

    async def resync(self, request: web.Request) -> web.Response:
        """Read everything again."""
        asked = await self._desk.body(request, ResyncRequest)
        return await self._desk.answer(await self._desk.admit(request, Resyncing(self._cluster), asked.reason))


class Pausing(Operation):
    """The beginning of a pause."""

    verb = "pause"

    def __init__(self, asked: PauseRequest, by: Requester, cluster: Cluster) -> None:
        self._asked = asked
        self._by = by
        self._cluster = cluster
        self._until_ms = cluster.sources.now_ms() + 1000 * asked.for_s

    async def plan(self) -> list[TaskItem]:
        """Until when, and what it replaces."""
        earlier = self._cluster.snapshot.pauses.get(self._asked.what)
        replaces = f"; until now it is {say_pause(earlier)}" if earlier is not None else ""
        return [TaskItem(subject=self._asked.what, state="planned", detail=f"until {iso(self._until_ms)}{replaces}")]

    async def run(self, items: Items) -> str:
        """Begin it."""
        asked = self._asked
        view = await self._cluster.call(Pause(asked.what, self._until_ms, asked.reason, self._by.principal))
        items.mark(asked.what, "done", say_pause(view))
        return ""


class Resuming(Operation):
    """The end of a pause."""

    verb = "resume"

    def __init__(self, asked: ResumeRequest, by: Requester, cluster: Cluster) -> None:
        self._asked = asked
        self._by = by
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """Which one."""
        pause = self._cluster.snapshot.pauses.get(self._asked.what)
        if pause is None:
            return [TaskItem(subject=self._asked.what, state="not-needed", detail="it is not paused")]
        detail = f"it is {say_pause(pause)}{self._leaving()}"
        return [TaskItem(subject=self._asked.what, state="planned", detail=detail)]

    async def run(self, items: Items) -> str:
        """End it."""
        asked = self._asked
        ended = await self._cluster.call(Resume(asked.what, asked.reason, self._by.principal))
        if ended is None:
            items.mark(asked.what, "not-needed", "it was not paused")
        else:
            items.mark(asked.what, "done", f"goes on; it was {say_pause(ended)}{self._leaving()}")
        return ""

    def _leaving(self) -> str:
        """That a broker which was drained as a whole is shutting down for us, whatever is paused."""
        broker = drained_by(self._asked.what)
        if broker is None or broker not in self._cluster.snapshot.shutting_down:
            return ""
        return f"; broker {broker} is in controlled shutdown, and leads again once it was restarted"


class Resyncing(Operation):
    """Reading everything again."""

    verb = "resync"

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def plan(self) -> list[TaskItem]:
        """Of how much."""
        snapshot = self._cluster.snapshot
        brokers, topics = counted(len(snapshot.brokers), "broker"), counted(len(snapshot.topics), "topic")
        detail = f"{brokers} and {topics} to be read again"
        return [TaskItem(subject=_PICTURE, state="planned", detail=detail)]

    async def run(self, items: Items) -> str:
        """Read."""
        items.mark(_PICTURE, "running", "is read")
        await self._cluster.call(Resync())
        items.mark(_PICTURE, "done", "brokers, topics and requests were read again")
        return ""
