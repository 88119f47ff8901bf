"""The observer: reads images of ZooKeeper at intervals, and compares another controller with dry runs of ours.

A cause is a difference between two images to which a controller has to react, such as the death of a broker. For each
cause the observer runs our handlers on the earlier image, and compares the result with the reaction of the active
controller.

The observer never writes. Loading an image into a dry run costs as much as a failover, and happens once per cause.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import structlog

from controllerd.core.model import TopicPartition
from controllerd.errors import ControllerdError
from controllerd.observer.causes import CauseKind, ObservedCause, UnexplainedChanges, causes
from controllerd.observer.dry_run import DryRunResult, dry_run, dry_run_failover
from controllerd.observer.dry_run_collaborators import WatchedConfiguration
from controllerd.observer.pending import ZOOKEEPER_LOST, PendingComparison, PendingEnd, note_overlaps, state_in
from controllerd.observer.report import ComparisonRow, Observation, ObservationReport, verdict_text
from controllerd.observer.verdicts import Ruling
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.slicer import SLICE, Slicer, in_order, sliced
from controllerd.zk.access import ZooKeeper
from controllerd.zk.image import ClusterImage, read_image

log = structlog.get_logger(__name__)

INTERVAL_S: Final = 0.5
_PAUSE_FACTOR: Final = 3
"""The shortest pause after an image, in multiples of its reading time, to limit the load on ZooKeeper."""
_COMPARED_AT_THEIR_END: Final = frozenset({CauseKind.REASSIGNED, CauseKind.TOPICS_DELETED})
"""Causes that may take long: their result is compared with the request at their end, without a dry run."""


async def ignore_image(_image: ClusterImage) -> None:
    """Ignore the image."""


def do_nothing() -> None:
    """Ignore the call."""


class Observer:
    """Observes a cluster and compares its controller with dry runs."""

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
        """``zk`` may be read-only. ``configuration`` returns the known configuration of the observed controller.

        ``show`` gets each image; ``when_torn`` is called instead for an image that cannot be used. ``pause`` waits for
        a number of seconds. ``slicer`` yields to the event loop.
        """
        self._zk, self._configuration, self._clock, self._audit = zk, configuration, clock, audit
        self._interval_s, self._show, self._pause = interval_s, show, pause
        self._when_torn = when_torn
        self._slicer = slicer or Slicer()
        self._pending: list[PendingComparison] = []
        self._pending_ends: list[PendingEnd] = []
        self.report: Final = ObservationReport()
        self.image: ClusterImage | None = None
        """The newest image that was not torn: brokers or controller did not change while it was read."""
        self.images_read = 0
        """The number of images read, including torn ones."""
        self.torn = 0
        """The number of torn images, which could not be used."""
        self.reading_since: float | None = None
        """The beginning of the current reading in monotonic seconds; None between two images."""
        self.progressed_at = clock.monotonic()
        """The time of the last progress in monotonic seconds."""

    @property
    def unsettled(self) -> int:
        """The number of pending comparisons."""
        return len(self._pending) + len(self._pending_ends)

    async def run(self) -> None:
        """Read and compare images for ever. :raises StoreUnavailable: the session is lost."""
        while True:
            began = self.reading_since = self.progressed_at = self._clock.monotonic()
            try:
                await self.observe()
            finally:
                self.reading_since = None
            took = self._clock.monotonic() - began
            await self._pause(max(self._interval_s, _PAUSE_FACTOR * took))

    async def suspend(self) -> None:
        """End the pending comparisons with dry runs as unclear, because ZooKeeper cannot be read.

        Reassignments and deletions are not ended: only their result is compared, which can still be read later.
        """
        waiting, self._pending = self._pending, []
        image, self.image = self.image, None
        for each in waiting:
            if image is not None:
                await self._report(each.cause, await each.unclear(image, ZOOKEEPER_LOST, self._slicer), image)

    async def observe(self) -> None:
        """Read one image, and report the comparisons that it completes."""
        image = await read_image(self._zk, self.image)
        self.images_read += 1
        self._note_progress()
        if image.is_torn:
            self.torn += 1
            log.info("left out torn image", so_far=self.torn)
            self._when_torn()
            return
        last, self.image = self.image, image
        await self._show(image)
        self._note_progress()
        at = self._clock.monotonic()
        if last is not None:
            await self._compare(last, image, at)
        await self._judge(image, at)

    async def _compare(self, last: ClusterImage, image: ClusterImage, at: float) -> None:
        for waiting in self._pending:
            await waiting.note_changes(last, image, at, self._slicer)
        for found in await causes(last, image, self._slicer):
            if isinstance(found, UnexplainedChanges):
                await self._report_unexplained(found, last, image)
            else:
                await self._begin_comparison(found, last, at)
            self._note_progress()

    def _note_progress(self) -> None:
        self.progressed_at = self._clock.monotonic()

    async def _begin_comparison(self, cause: ObservedCause, before: ClusterImage, at: float) -> None:
        log.info(
            "observed cause", cause=cause.kind.value, subjects=len(cause.subjects), partitions=len(cause.partitions)
        )
        if cause.kind in _COMPARED_AT_THEIR_END:
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
        # Handlers log their actions, so the lines of a dry run are marked.
        with structlog.contextvars.bound_contextvars(dry_run=cause.kind.value):
            if cause.is_failover:
                return await dry_run_failover(before, cause.facts, configuration, self._clock)
            return await dry_run(before, cause.facts, cause.events, configuration, self._clock)

    async def _judge(self, image: ClusterImage, at: float) -> None:
        for each in list(self._pending):
            rows = await each.rows(image, at, self._slicer)
            if rows is not None:
                self._pending.remove(each)
                await self._report(each.cause, rows, image)
        for ending in self._pending_ends:
            if rows := await ending.take_ended_rows(image, at, self._slicer):
                await self._report(ending.cause, rows, image)
        self._pending_ends = [ending for ending in self._pending_ends if ending.cause.partitions]

    async def _report(self, cause: ObservedCause, rows: tuple[ComparisonRow, ...], image: ClusterImage) -> None:
        different = [row for row in rows if row.verdict is not None and row.verdict.ruling is Ruling.DIFFERENT]
        if different:  # one line for all of them; the audit log has each one
            first = different[0]
            log.warning(
                "found difference between controllers",
                cause=cause.kind.value,
                partitions=len(different),
                first=str(first.tp),
                verdict=verdict_text(first.verdict),
            )
        await self._add(Observation(cause.kind.value, cause.subjects, image.controller_epoch, rows))

    async def _report_unexplained(self, found: UnexplainedChanges, last: ClusterImage, image: ClusterImage) -> None:
        """Report changes without a visible cause. Partitions of a pending cause are reported with that cause."""
        awaited = [
            *(each.partitions for each in self._pending),
            *(each.cause.partitions for each in self._pending_ends),
        ]
        left = self._slicer.each(await in_order(found.partitions.difference(*awaited), self._slicer))
        rows = tuple([ComparisonRow(tp, state_in(last, tp), None, state_in(image, tp), None) async for tp in left])
        if rows:
            subjects = tuple(f"{number} {what}" for what, number in found.notes.items())
            await self._add(Observation(found.kind.value, subjects, image.controller_epoch, rows))

    async def _add(self, observation: Observation) -> None:
        for part in sliced(observation.rows, SLICE):
            self.report.add(observation.cause, part)
            await self._slicer.yield_to_loop()
        for record in observation.records():
            self._audit.record(record)
            await self._slicer.yield_to_loop()


def _why_no_dry_run(configuration: WatchedConfiguration) -> str:
    """Return why there is no dry run: with unknown settings, a verdict would be a guess."""
    names = ", ".join(configuration.unknown)
    return f"not known, neither from brokers nor configured: {names}" if names else ""
