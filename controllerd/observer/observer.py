"""The observer: reads an image of ZooKeeper at intervals, and compares another controller with a dry run per cause.

The observer never writes. Loading an image into a dry run costs as much as a failover, and happens once per cause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerdError
from controllerd.observer.causes import CauseKind, ObservedCause, Unjudged, causes
from controllerd.observer.dry_run import DryRunResult, dry_run, dry_run_failover
from controllerd.observer.dry_run_collaborators import WatchedConfiguration
from controllerd.observer.pending import OUT_OF_SIGHT, PendingComparison, PendingEnd, note_overlaps, state_in
from controllerd.observer.report import ComparisonRow, Observation, ObservationReport, verdict_text
from controllerd.observer.verdicts import Ruling
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.slicer import SLICE, Slicer, in_order, sliced
from controllerd.zk.access import ZooKeeper
from controllerd.zk.image import ClusterImage, read_image

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 0.5
_REST: Final = 3
"""The pause after an image, at least, as a multiple of the time that its reading took: ZooKeeper serves others, too."""
_BY_THEIR_END: Final = frozenset({CauseKind.REASSIGNED, CauseKind.TOPICS_DELETED})


async def ignore_image(_picture: ClusterImage) -> None:
    """Ignore the image."""


def do_nothing() -> None:
    """Ignore the call."""


class Observer:
    """Observes and compares, as long as it runs."""

    def __init__(
        self,
        zk: ZooKeeper,
        configuration: Callable[[], WatchedConfiguration],
        clock: Clock,
        audit: AuditLog,
        *,
        interval_s: float = INTERVAL_S,
        show: Callable[[ClusterImage], Awaitable[None]] = ignore_image,
        when_torn: Callable[[], None] = do_nothing,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        slicer: Slicer | None = None,
    ) -> None:
        """``zk`` need not be able to write; ``show`` gets each image; ``pause`` waits for so many seconds.

        ``manner`` returns what is known now of the configuration of the controller that is watched.
        ``when_torn`` is called instead of ``show`` where an image cannot be used. ``pace`` says when the loop gets a
        turn.
        """
        self._zk, self._configuration, self._clock, self._audit = zk, configuration, clock, audit
        self._interval_s, self._show, self._pause = interval_s, show, pause
        self._when_torn = when_torn
        self._slicer = slicer or Slicer()
        self._pending: list[PendingComparison] = []
        self._pending_ends: list[PendingEnd] = []
        self.report: Final = ObservationReport()
        self.picture: ClusterImage | None = None
        """The newest one that was not torn."""
        self.looks = 0
        """Number of images read, torn ones included."""
        self.torn = 0
        """Number of images that could not be used."""
        self.looking_since: float | None = None
        """Monotonic seconds at which the reading in progress began; None between two images."""
        self.progressed_at = clock.monotonic()
        """Monotonic seconds of the last progress."""

    @property
    def unsettled(self) -> int:
        """Number of causes whose comparison is pending."""
        return len(self._pending) + len(self._pending_ends)

    async def run(self) -> None:
        """Read and compare images for ever. :raises StoreUnavailable: the session is lost."""
        while True:
            began = self.looking_since = self.progressed_at = self._clock.monotonic()
            try:
                await self.look()
            finally:
                self.looking_since = None
            took = self._clock.monotonic() - began
            await self._pause(max(self._interval_s, _REST * took))

    async def look_away(self) -> None:
        """Stop comparing while ZooKeeper cannot be read: pending comparisons end as unclear."""
        waiting, self._pending = self._pending, []
        picture, self.picture = self.picture, None
        for each in waiting:
            if picture is not None:
                await self._report(each.cause, await each.unclear(picture, OUT_OF_SIGHT, self._slicer), picture)

    async def look(self) -> None:
        """Read one image, and report the comparisons that it completes."""
        picture = await read_image(self._zk, self.picture)
        self.looks += 1
        self._note_progress()
        if picture.is_torn:
            self.torn += 1
            log.info("left out torn image", so_far=self.torn)
            self._when_torn()
            return
        last, self.picture = self.picture, picture
        await self._show(picture)
        self._note_progress()
        at = self._clock.monotonic()
        if last is not None:
            await self._compare(last, picture, at)
        await self._judge(picture, at)

    async def _compare(self, last: ClusterImage, picture: ClusterImage, at: float) -> None:
        for waiting in self._pending:
            await waiting.look(last, picture, at, self._slicer)
        for found in await causes(last, picture, self._slicer):
            if isinstance(found, Unjudged):
                await self._note_unjudged(found, last, picture)
            else:
                await self._take_up(found, last, at)
            self._note_progress()

    def _note_progress(self) -> None:
        self.progressed_at = self._clock.monotonic()

    async def _take_up(self, cause: ObservedCause, before: ClusterImage, at: float) -> None:
        log.info(
            "observed cause", cause=cause.kind.value, subjects=len(cause.subjects), partitions=len(cause.partitions)
        )
        if cause.kind in _BY_THEIR_END:
            known = frozenset[TopicPartition]().union(*(ending.cause.partitions for ending in self._pending_ends))
            if left := cause.partitions - known:
                states = {tp: state_in(before, tp) async for tp in self._slicer.each(left)}
                self._pending_ends.append(PendingEnd(replace(cause, partitions=left), states))
            return
        configuration = self._configuration()
        try:
            would = None if configuration.unknown else await self._dry_run(cause, before, configuration)
            waiting = PendingComparison(cause, before, would, at, _why_no_dry_run(configuration))
        except ControllerdError as error:
            log.exception("dry run failed", cause=cause.kind.value)
            waiting = PendingComparison(cause, before, None, at, f"no dry run: {error}")
        note_overlaps(waiting, self._pending)
        self._pending.append(waiting)

    async def _dry_run(
        self, cause: ObservedCause, before: ClusterImage, configuration: WatchedConfiguration
    ) -> DryRunResult:
        # Handlers log their actions: a reader must not take the lines of a dry run for real ones.
        with structlog.contextvars.bound_contextvars(dry_run=cause.kind.value):
            if cause.is_failover:
                return await dry_run_failover(before, cause.facts, configuration, self._clock)
            return await dry_run(before, cause.facts, cause.events, configuration, self._clock)

    async def _judge(self, picture: ClusterImage, at: float) -> None:
        for each in list(self._pending):
            rows = await each.rows(picture, at, self._slicer)
            if rows is not None:
                self._pending.remove(each)
                await self._report(each.cause, rows, picture)
        for ending in self._pending_ends:
            if rows := await ending.rows(picture, at, self._slicer):
                await self._report(ending.cause, rows, picture)
        self._pending_ends = [ending for ending in self._pending_ends if ending.cause.partitions]

    async def _report(self, cause: ObservedCause, rows: tuple[ComparisonRow, ...], picture: ClusterImage) -> None:
        different = [row for row in rows if row.verdict is not None and row.verdict.ruling is Ruling.DIFFERENT]
        if different:  # one line for all of them; the audit log has each
            first = different[0]
            log.warning(
                "controllers differ",
                cause=cause.kind.value,
                partitions=len(different),
                first=str(first.tp),
                verdict=verdict_text(first.verdict),
            )
        await self._add(Observation(cause.kind.value, cause.subjects, picture.controller_epoch, rows))

    async def _note_unjudged(self, found: Unjudged, last: ClusterImage, picture: ClusterImage) -> None:
        """Report changes without a visible cause; partitions of a pending cause are reported with that."""
        awaited = [
            *(each.partitions for each in self._pending),
            *(each.cause.partitions for each in self._pending_ends),
        ]
        left = self._slicer.each(await in_order(found.partitions.difference(*awaited), self._slicer))
        rows = tuple([ComparisonRow(tp, state_in(last, tp), None, state_in(picture, tp), None) async for tp in left])
        if rows:
            subjects = tuple(f"{number} {what}" for what, number in found.notes.items())
            await self._add(Observation(found.kind.value, subjects, picture.controller_epoch, rows))

    async def _add(self, observation: Observation) -> None:
        for part in sliced(observation.rows, SLICE):
            self.report.add(observation.cause, part)
            await self._slicer.yield_to_loop()
        for record in observation.records():
            self._audit.record(record)
            await self._slicer.yield_to_loop()


def _why_no_dry_run(configuration: WatchedConfiguration) -> str:
    """Return why there is no dry run: with guessed settings a verdict would say nothing of the controller."""
    names = ", ".join(configuration.unknown)
    return f"not known, neither from brokers nor configured: {names}" if names else ""
