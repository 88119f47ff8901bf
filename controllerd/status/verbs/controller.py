"""Verbs about the controller itself: ``POST /v1/takeover``, ``/resign``, ``/pause``, ``/resume``, ``/resync``."""

import time
from http import HTTPStatus
from typing import Final

from controllerd.clock import iso
from controllerd.core.intents import LONGEST_MS, drained_by
from controllerd.core.text import counted
from controllerd.errors import CallRefused
from controllerd.status.http.problems import Refused
from controllerd.status.schema.admin import AdminRequest, ResignResponse, TakeoverRequest, TakeoverResponse
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import PauseRequest, ResumeRequest, ResyncRequest
from controllerd.status.verbs.tasks import Operation, TaskItems, VerbCall, item
from controllerd.views import say_pause
from events.cluster import Resign, Resync, Takeover
from events.operator import Pause, Resume

LONGEST_S: Final = LONGEST_MS // 1000
_ROLE: Final = "role"
_PICTURE: Final = "picture"
"""The subjects of the items, which clients see."""
_KINDS: Final = {"broker": "a broker's built-in controller", "instance": "another instance of controllerd"}


class TakeRole(Operation[TakeoverRequest]):
    """Takes the role of the controller."""

    verb = "takeover"
    summary = "Take the role, whoever holds it"
    needs_role = False

    def check(self) -> None:
        """:raises Refused: the takeover is to be remembered, and this instance cannot."""
        memory = self._cluster.sources.memory
        why_not = "this instance remembers nothing" if memory is None else memory.why_not
        if self.asked.remember and why_not is not None:
            hint = "change it there, or take over without remembering"
            raise Refused(HTTPStatus.CONFLICT, "not_remembered", why_not, hint)

    async def plan(self) -> list[TaskItem]:
        """Return who loses the role. :raises CallRefused: the holder is of another kind than the request says."""
        snapshot = self._cluster.snapshot
        holder, epoch = snapshot.holder, snapshot.controller_epoch
        if snapshot.is_active:
            self.result = _taken(epoch, epoch, str(holder), 0.0)
            return [item(_ROLE, "not-needed", f"{holder} is this instance")]
        self._check_kind()
        self.result = _taken(epoch, epoch + 1, str(holder or "nobody"), 0.0)
        detail = f"from {holder or 'nobody'}, in one transaction; the controller epoch grows by one"
        return [item(_ROLE, "planned", detail)]

    async def run(self, items: TaskItems) -> str:
        """Take it even if it is held already: a resignation that lasts ends by that."""
        started = time.monotonic()
        reply = await self._cluster.call(Takeover(self.asked.reason))
        if self.asked.remember and (memory := self._cluster.sources.memory) is not None:
            await memory.remember()
        before, after = reply.epoch_before, reply.epoch_after
        self.result = _taken(before, after, reply.held_by, time.monotonic() - started)
        items.mark(_ROLE, "done" if before != after else "not-needed", f"controller epoch {before} -> {after}")
        return f"taken from {reply.held_by}" if before != after else "it was held already"

    def _check_kind(self) -> None:
        holder, wanted = self._cluster.snapshot.holder, self.asked.from_
        if wanted == "any" or holder is None:
            return
        if holder.is_controllerd is not (wanted == "instance") or not holder.is_known:
            raise CallRefused(f"the role is to be taken from {_KINDS[wanted]}, but {holder} holds it")


def _taken(before: int, after: int, held_by: str, took_s: float) -> TakeoverResponse:
    return TakeoverResponse(epoch_before=before, epoch_after=after, held_by=held_by, took_s=took_s)


class ResignRole(Operation[AdminRequest]):
    """Gives the role of the controller away."""

    verb = "resign"
    summary = "Give the role away and stand by"

    async def plan(self) -> list[TaskItem]:
        """Return that the fastest candidate gets it."""
        self.result = ResignResponse(took_s=0.0)
        detail = "/controller is deleted, and this instance does not contend for a while: whoever is fastest leads next"
        return [item(_ROLE, "planned", detail)]

    async def run(self, items: TaskItems) -> str:
        """Give it away."""
        started = time.monotonic()
        await self._cluster.call(Resign(self.asked.reason))
        self.result = ResignResponse(took_s=time.monotonic() - started)
        items.mark(_ROLE, "done", "given away")
        return ""


class BeginPause(Operation[PauseRequest]):
    """Has the controller leave something alone for a while."""

    verb = "pause"
    summary = "Leave something alone for a while"

    def __init__(self, asked: PauseRequest, call: VerbCall) -> None:
        super().__init__(asked, call)
        self._until_ms = call.cluster.sources.now_ms() + 1000 * asked.for_s

    def check(self) -> None:
        """:raises Refused: the pause is too long."""
        if not 0 < self.asked.for_s <= LONGEST_S:
            detail = f"for_s must be 1 to {LONGEST_S} seconds, not {self.asked.for_s}: nobody remembers a longer pause"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)

    async def plan(self) -> list[TaskItem]:
        """Return the end of the pause, and the pause that it replaces."""
        earlier = self._cluster.snapshot.pauses.get(self.asked.what)
        replaces = f"; until now it is {say_pause(earlier)}" if earlier is not None else ""
        return [item(self.asked.what, "planned", f"until {iso(self._until_ms)}{replaces}")]

    async def run(self, items: TaskItems) -> str:
        """Begin it."""
        asked = self.asked
        view = await self._cluster.call(Pause(asked.what, self._until_ms, asked.reason, self._by.principal))
        items.mark(asked.what, "done", say_pause(view))
        return ""


class EndPause(Operation[ResumeRequest]):
    """Ends a pause."""

    verb = "resume"
    summary = "End a pause"

    async def plan(self) -> list[TaskItem]:
        """Return the pause that ends."""
        pause = self._cluster.snapshot.pauses.get(self.asked.what)
        if pause is None:
            return [item(self.asked.what, "not-needed", "it is not paused")]
        return [item(self.asked.what, "planned", f"it is {say_pause(pause)}{self._leaving()}")]

    async def run(self, items: TaskItems) -> str:
        """End it."""
        asked = self.asked
        ended = await self._cluster.call(Resume(asked.what, asked.reason, self._by.principal))
        if ended is None:
            items.mark(asked.what, "not-needed", "it was not paused")
        else:
            items.mark(asked.what, "done", f"goes on; it was {say_pause(ended)}{self._leaving()}")
        return ""

    def _leaving(self) -> str:
        """Return that a broker which was drained as a whole is shutting down for us, whatever is paused."""
        broker = drained_by(self.asked.what)
        if broker is None or broker not in self._cluster.snapshot.shutting_down:
            return ""
        return f"; broker {broker} is in controlled shutdown, and leads again once it was restarted"


class ReadAgain(Operation[ResyncRequest]):
    """Has the controller read everything again."""

    verb = "resync"
    summary = "Read ZooKeeper again without an election"

    async def plan(self) -> list[TaskItem]:
        """Return how much is read."""
        snapshot = self._cluster.snapshot
        brokers, topics = counted(len(snapshot.brokers), "broker"), counted(len(snapshot.topics), "topic")
        return [item(_PICTURE, "planned", f"{brokers} and {topics} to be read again")]

    async def run(self, items: TaskItems) -> str:
        """Read."""
        items.mark(_PICTURE, "running", "is read")
        await self._cluster.call(Resync())
        items.mark(_PICTURE, "done", "brokers, topics and requests were read again")
        return ""
