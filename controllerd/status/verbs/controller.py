"""Verbs about the controller itself: ``POST /v1/takeover``, ``/resign``, ``/pause``, ``/resume``, ``/resync``."""

import time
from http import HTTPStatus
from typing import Final

from controllerd.clock import iso
from controllerd.core.intents import LONGEST_MS, drained_by
from controllerd.core.text import counted
from controllerd.errors import CallRefused
from controllerd.status.http.problems import Refused
from controllerd.status.schema.tasks import ResignResponse, TakeoverResponse, TaskItem
from controllerd.status.schema.verbs import PauseRequest, ResumeRequest, TakeoverRequest, VerbRequest
from controllerd.status.verbs.admission import Verb
from controllerd.status.verbs.tasks import Operation, TaskItems, VerbCall, item
from controllerd.views import describe_pause
from events.cluster import Resign, Resync, Takeover
from events.operator import Pause, Resume

LONGEST_S: Final = LONGEST_MS // 1000
_ROLE: Final = "role"
_IMAGE: Final = "picture"
"""The subjects of the items; clients and the audit log have these values."""
_KINDS: Final = {"broker": "a broker's built-in controller", "instance": "another instance of controllerd"}


class TakeRole(Operation[TakeoverRequest]):
    """Takes the role of the active controller."""

    verb = "takeover"
    summary = "Take the role from its holder"
    needs_role = False

    def check(self) -> None:
        """Check ``remember``. :raises Refused: this instance cannot keep the decision."""
        memory = self._cluster.sources.memory
        why_not = "this instance keeps no decisions" if memory is None else memory.why_not
        if self.request.remember and why_not is not None:
            hint = "change that setting, or take over without remember"
            raise Refused(HTTPStatus.CONFLICT, "not_remembered", why_not, hint)

    async def plan(self) -> list[TaskItem]:
        """Return the holder that loses the role. :raises CallRefused: it is not of the kind that the request names."""
        snapshot = self._cluster.snapshot
        holder, epoch = snapshot.holder, snapshot.controller_epoch
        if snapshot.is_active:
            self.result = _takeover_response(epoch, epoch, str(holder), 0.0)
            return [item(_ROLE, "not-needed", f"{holder} is this instance")]
        self._check_kind()
        self.result = _takeover_response(epoch, epoch + 1, str(holder or "nobody"), 0.0)
        detail = f"from {holder or 'nobody'}, in one transaction; the controller epoch grows by one"
        return [item(_ROLE, "planned", detail)]

    async def run(self, items: TaskItems) -> str:
        """Take the role, even if this instance has it already: that also ends the standby after a resignation."""
        started = time.monotonic()
        reply = await self._cluster.call(Takeover(self.request.reason))
        if self.request.remember and (memory := self._cluster.sources.memory) is not None:
            await memory.remember()
        before, after = reply.epoch_before, reply.epoch_after
        self.result = _takeover_response(before, after, reply.held_by, time.monotonic() - started)
        items.mark(_ROLE, "done" if before != after else "not-needed", f"controller epoch {before} -> {after}")
        return f"taken from {reply.held_by}" if before != after else "it was held already"

    def _check_kind(self) -> None:
        holder, wanted = self._cluster.snapshot.holder, self.request.from_
        if wanted == "any" or holder is None:
            return
        if holder.is_controllerd is not (wanted == "instance") or not holder.is_known:
            raise CallRefused(f"the role is to be taken from {_KINDS[wanted]}, but {holder} holds it")


def _takeover_response(before: int, after: int, held_by: str, took_s: float) -> TakeoverResponse:
    return TakeoverResponse(epoch_before=before, epoch_after=after, held_by=held_by, took_s=took_s)


class ResignRole(Operation[VerbRequest]):
    """Gives the role of the active controller away."""

    verb = "resign"
    summary = "Give the role away and stand by"

    async def plan(self) -> list[TaskItem]:
        """Return that another candidate gets the role."""
        self.result = ResignResponse(took_s=0.0)
        detail = "/controller is deleted, and this instance does not contend for a while: another candidate leads next"
        return [item(_ROLE, "planned", detail)]

    async def run(self, items: TaskItems) -> str:
        """Give the role away."""
        started = time.monotonic()
        await self._cluster.call(Resign(self.request.reason))
        self.result = ResignResponse(took_s=time.monotonic() - started)
        items.mark(_ROLE, "done", "given away")
        return ""


class BeginPause(Operation[PauseRequest]):
    """Pauses an activity of the controller for a while."""

    verb = "pause"
    summary = "Pause an activity of the controller"

    def __init__(self, request: PauseRequest, call: VerbCall) -> None:
        super().__init__(request, call)
        self._until_ms = call.cluster.sources.now_ms() + 1000 * request.for_s

    def check(self) -> None:
        """Check the duration. :raises Refused: the pause is too long."""
        if not 0 < self.request.for_s <= LONGEST_S:
            detail = f"for_s must be 1 to {LONGEST_S} seconds, not {self.request.for_s}"
            raise Refused(HTTPStatus.BAD_REQUEST, "bad_request", detail)

    async def plan(self) -> list[TaskItem]:
        """Return the end of the pause, and the pause that it replaces."""
        earlier = self._cluster.snapshot.pauses.get(self.request.what)
        replaces = f"; until now it is {describe_pause(earlier)}" if earlier is not None else ""
        return [item(self.request.what, "planned", f"until {iso(self._until_ms)}{replaces}")]

    async def run(self, items: TaskItems) -> str:
        """Begin the pause."""
        what = self.request.what
        view = await self._cluster.call(Pause(what, self._until_ms, self.request.reason, self._by.principal))
        items.mark(what, "done", describe_pause(view))
        return ""


class EndPause(Operation[ResumeRequest]):
    """Ends a pause."""

    verb = "resume"
    summary = "End a pause"

    async def plan(self) -> list[TaskItem]:
        """Return the pause that ends."""
        pause = self._cluster.snapshot.pauses.get(self.request.what)
        if pause is None:
            return [item(self.request.what, "not-needed", "it is not paused")]
        return [item(self.request.what, "planned", f"it is {describe_pause(pause)}{self._shutdown_note()}")]

    async def run(self, items: TaskItems) -> str:
        """End the pause."""
        what = self.request.what
        ended = await self._cluster.call(Resume(what, self.request.reason, self._by.principal))
        if ended is None:
            items.mark(what, "not-needed", "it was not paused")
        else:
            items.mark(what, "done", f"resumed; it was {describe_pause(ended)}{self._shutdown_note()}")
        return ""

    def _shutdown_note(self) -> str:
        """Return a note for a drained broker in controlled shutdown, which does not end with the pause."""
        broker = drained_by(self.request.what)
        if broker is None or broker not in self._cluster.snapshot.shutting_down:
            return ""
        return f"; broker {broker} is in controlled shutdown, and leads again once it was restarted"


class ResyncCluster(Operation[VerbRequest]):
    """Makes the controller read all of its znodes again."""

    verb = "resync"
    summary = "Read ZooKeeper again without an election"

    async def plan(self) -> list[TaskItem]:
        """Return the number of brokers and topics that will be read."""
        snapshot = self._cluster.snapshot
        brokers, topics = counted(len(snapshot.brokers), "broker"), counted(len(snapshot.topics), "topic")
        return [item(_IMAGE, "planned", f"{brokers} and {topics} to be read again")]

    async def run(self, items: TaskItems) -> str:
        """Read ZooKeeper again."""
        items.mark(_IMAGE, "running", "is being read")
        await self._cluster.call(Resync())
        items.mark(_IMAGE, "done", "brokers, topics and requests were read again")
        return ""


VERBS: Final = (
    Verb("/v1/pause", PauseRequest, BeginPause),
    Verb("/v1/resume", ResumeRequest, EndPause),
    Verb("/v1/resync", VerbRequest, ResyncCluster),
    Verb("/v1/takeover", TakeoverRequest, TakeRole, answers=TakeoverResponse),
    Verb("/v1/resign", VerbRequest, ResignRole, answers=ResignResponse),
)
