"""Watches another controller at work: a picture every now and then, and for each cause what ours would have done.

It reads and nothing else. Loading a picture into a rehearsal costs as much as a failover, and is done once per cause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerdError
from controllerd.machines.outbox import SLICE
from controllerd.machines.passes import in_order, paced
from controllerd.observer.causes import Cause, Kind, Unjudged, causes
from controllerd.observer.judge import Ruling
from controllerd.observer.pending import OUT_OF_SIGHT, Ending, Rehearsing, note_overlaps, state_in
from controllerd.observer.rehearsal import Rehearsed, rehearse, rehearse_failover
from controllerd.observer.report import Observation, Report, Row, told
from controllerd.observer.stage import Manner
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, Clock
from controllerd.zk.access import ZooKeeper
from controllerd.zk.pictures import Picture, take_picture

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 0.5
_REST: Final = 3
"""So many times as long as a look took is the pause after it, at the least: ZooKeeper has more to do than that."""
_BY_THEIR_END: Final = frozenset({Kind.REASSIGNED, Kind.TOPICS_DELETED})


async def to_nobody(_picture: Picture) -> None:
    """Nobody wants to see it."""


def unnoticed() -> None:
    """Nobody wants to know."""


class Observer:
    """Compares, for as long as it runs."""

    def __init__(
        self,
        zk: ZooKeeper,
        manner: Callable[[], Manner],
        clock: Clock,
        audit: AuditLog,
        *,
        interval_s: float = INTERVAL_S,
        show: Callable[[Picture], Awaitable[None]] = to_nobody,
        when_torn: Callable[[], None] = unnoticed,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        pace: Pace | None = None,
    ) -> None:
        """``zk`` need not be able to write; ``show`` gets each picture; ``pause`` waits for so many seconds.

        ``manner`` returns what is known now of the configuration of the controller that is watched.
        ``when_torn`` is called instead of ``show`` where a picture cannot be used. ``pace`` says when the loop gets a
        turn.
        """
        self._zk, self._manner, self._clock, self._audit = zk, manner, clock, audit
        self._interval_s, self._show, self._pause = interval_s, show, pause
        self._when_torn = when_torn
        self._pace = pace or Pace()
        self._rehearsing: list[Rehearsing] = []
        self._ending: list[Ending] = []
        self.report: Final = Report()
        self.picture: Picture | None = None
        """The newest one that was not torn."""
        self.looks = 0
        """Pictures that were taken, those that could not be used included."""
        self.torn = 0
        """Pictures that could not be used."""
        self.looking_since: float | None = None
        """Monotonic seconds at which the look began that is under way; None between two of them."""
        self.progressed_at = clock.monotonic()
        """Monotonic seconds at which a look last got on."""

    @property
    def unsettled(self) -> int:
        """Causes that are waited for."""
        return len(self._rehearsing) + len(self._ending)

    async def run(self) -> None:
        """Look again and again. :raises StoreUnavailable: the session is lost."""
        while True:
            began = self.looking_since = self.progressed_at = self._clock.monotonic()
            try:
                await self.look()
            finally:
                self.looking_since = None
            took = self._clock.monotonic() - began
            await self._pause(max(self._interval_s, _REST * took))

    async def look_away(self) -> None:
        """Nothing can be seen for a while: what happens meanwhile is not compared, nor what has not settled yet."""
        waiting, self._rehearsing = self._rehearsing, []
        picture, self.picture = self.picture, None
        for each in waiting:
            if picture is not None:
                await self._tell(each.cause, await each.unclear(picture, OUT_OF_SIGHT, self._pace), picture)

    async def look(self) -> None:
        """Take one picture, and tell what has come to its end by it."""
        picture = await take_picture(self._zk, self.picture)
        self.looks += 1
        self._get_on()
        if picture.is_torn:
            self.torn += 1
            log.info("picture is torn, left out", so_far=self.torn)
            self._when_torn()
            return
        last, self.picture = self.picture, picture
        await self._show(picture)
        self._get_on()
        at = self._clock.monotonic()
        if last is not None:
            await self._compare(last, picture, at)
        await self._judge(picture, at)

    async def _compare(self, last: Picture, picture: Picture, at: float) -> None:
        for waiting in self._rehearsing:
            await waiting.look(last, picture, at, self._pace)
        for found in await causes(last, picture, self._pace):
            if isinstance(found, Unjudged):
                await self._note_unjudged(found, last, picture)
            else:
                await self._take_up(found, last, at)
            self._get_on()

    def _get_on(self) -> None:
        self.progressed_at = self._clock.monotonic()

    async def _take_up(self, cause: Cause, before: Picture, at: float) -> None:
        log.info("seen", cause=cause.kind.value, subjects=len(cause.subjects), partitions=len(cause.partitions))
        if cause.kind in _BY_THEIR_END:
            known = frozenset[TopicPartition]().union(*(ending.cause.partitions for ending in self._ending))
            if left := cause.partitions - known:
                states = {tp: state_in(before, tp) async for tp in paced(left, self._pace)}
                self._ending.append(Ending(replace(cause, partitions=left), states))
            return
        manner = self._manner()
        try:
            would = None if manner.unknown else await self._rehearse(cause, before, manner)
            waiting = Rehearsing(cause, before, would, at, _why_not_rehearsed(manner))
        except ControllerdError as error:
            log.exception("a cause could not be rehearsed", cause=cause.kind.value)
            waiting = Rehearsing(cause, before, None, at, f"not rehearsed: {error}")
        note_overlaps(waiting, self._rehearsing)
        self._rehearsing.append(waiting)

    async def _rehearse(self, cause: Cause, before: Picture, manner: Manner) -> Rehearsed:
        # Handlers log what they do: nobody must take that for what was done.
        with structlog.contextvars.bound_contextvars(rehearsal=cause.kind.value):
            if cause.is_failover:
                return await rehearse_failover(before, cause.facts, manner, self._clock)
            return await rehearse(before, cause.facts, cause.events, manner, self._clock)

    async def _judge(self, picture: Picture, at: float) -> None:
        for each in list(self._rehearsing):
            rows = await each.rows(picture, at, self._pace)
            if rows is not None:
                self._rehearsing.remove(each)
                await self._tell(each.cause, rows, picture)
        for ending in self._ending:
            if rows := await ending.rows(picture, at, self._pace):
                await self._tell(ending.cause, rows, picture)
        self._ending = [ending for ending in self._ending if ending.cause.partitions]

    async def _tell(self, cause: Cause, rows: tuple[Row, ...], picture: Picture) -> None:
        different = [row for row in rows if row.verdict is not None and row.verdict.ruling is Ruling.DIFFERENT]
        if different:  # one line, however many they are: the audit log has all of them
            first = different[0]
            log.warning(
                "the controller did something else",
                cause=cause.kind.value,
                partitions=len(different),
                first=str(first.tp),
                verdict=told(first.verdict),
            )
        await self._add(Observation(cause.kind.value, cause.subjects, picture.controller_epoch, rows))

    async def _note_unjudged(self, found: Unjudged, last: Picture, picture: Picture) -> None:
        """What a cause that has not settled accounts for is told with that."""
        awaited = [*(each.partitions for each in self._rehearsing), *(each.cause.partitions for each in self._ending)]
        left = paced(await in_order(found.partitions.difference(*awaited), self._pace), self._pace)
        rows = tuple([Row(tp, state_in(last, tp), None, state_in(picture, tp), None) async for tp in left])
        if rows:
            subjects = tuple(f"{number} {what}" for what, number in found.notes.items())
            await self._add(Observation(found.kind.value, subjects, picture.controller_epoch, rows))

    async def _add(self, observation: Observation) -> None:
        for part in sliced(observation.rows, SLICE):
            self.report.add(observation.cause, part)
            await self._pace.breathe()
        for record in observation.records():
            self._audit.record(record)
            await self._pace.breathe()


def _why_not_rehearsed(manner: Manner) -> str:
    """What keeps a cause from being judged: with guessed settings a verdict would say nothing of the controller."""
    names = ", ".join(manner.unknown)
    return f"not known, neither from brokers nor configured: {names}" if names else ""
