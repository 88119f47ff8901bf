"""Pending comparisons: the time at which a cause can be compared, and the resulting rows.

An image right after a cause shows an unfinished reaction. So a cause is compared when its partitions have not changed
for a while. If a partition that the dry run wrote has not changed at all, the comparison waits for the full time,
because the observed controller may be slow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controllerd.core.model import LeaderAndIsr, TopicImage, TopicPartition
from controllerd.errors import BadZnode
from controllerd.observer.causes import CauseKind, ObservedCause
from controllerd.observer.dry_run import DryRunResult, state_of
from controllerd.observer.report import ComparisonRow
from controllerd.observer.verdicts import (
    NOT_SETTLED,
    PartitionVerdict,
    Ruling,
    deliberate,
    judge,
    judge_deleted,
    judge_reassigned,
)
from controllerd.slicer import Slicer, in_order
from controllerd.zk import codecs, paths
from controllerd.zk.image import ClusterImage

SETTLE_S: Final = 2.0
"""The time without changes after which a cause is compared, in seconds."""
LONGEST_S: Final = 30.0
"""The time after which a cause is compared in any case, in seconds."""
DELETION_DEVIATION: Final = "leaders of a topic whose deletion waits are given up when their broker dies, as any others"
"""A row of ``docs/deviations.md``: the built-in controller does not change these states."""
OVERLAPPED: Final = PartitionVerdict(
    Ruling.UNCLEAR, reason="another cause concerned it at the same time, or before it was settled"
)
ZOOKEEPER_LOST: Final = PartitionVerdict(Ruling.UNCLEAR, reason="ZooKeeper was out of reach before it was settled")
RENEWED: Final = PartitionVerdict(Ruling.UNCLEAR, reason="its topic went, or was created again, before it was settled")
WITHDRAWN: Final = PartitionVerdict(
    Ruling.UNCLEAR, reason="the request to delete is gone, the topic is not, or one of its name was created since"
)


@dataclass(eq=False)
class PendingComparison:
    """A cause with the result of its dry run."""

    cause: ObservedCause
    before: ClusterImage
    would: DryRunResult | None
    since: float
    """The time of the observation in monotonic seconds."""
    failure: str = ""
    """The reason why there is no dry run."""
    partitions: frozenset[TopicPartition] = frozenset()
    overlapped: set[TopicPartition] = field(default_factory=set)
    """The partitions that another cause concerns too."""
    being_deleted: frozenset[str] = frozenset()
    """The topics whose deletion was requested before the cause."""
    moved_at: float = 0.0
    """The time of the latest image in which a partition had changed."""

    def __post_init__(self) -> None:
        touched = self.would.touched if self.would is not None else frozenset()
        self.partitions = self.cause.partitions | touched
        self.overlapped |= self.cause.mixed
        self.being_deleted = frozenset(self.before.names(paths.DELETE_TOPICS))
        self.moved_at = self.since

    async def note_changes(self, last: ClusterImage, now: ClusterImage, at: float, slicer: Slicer) -> None:
        """Note the time if a partition changed between two images."""
        async for tp in slicer.each(self.partitions):
            path = paths.partition_state(tp)
            if last.nodes.get(path) != now.nodes.get(path):
                self.moved_at = at
                return

    async def rows(self, now: ClusterImage, at: float, slicer: Slicer) -> tuple[ComparisonRow, ...] | None:
        """Return the rows of the comparison; None if it is too early."""
        is_quiet, is_late = at - self.moved_at >= SETTLE_S, at - self.since >= LONGEST_S
        if not is_late and not (is_quiet and await self._has_moved(now, slicer)):
            return None
        return await self._rows(now, slicer, is_quiet=is_quiet)

    async def _rows(self, now: ClusterImage, slicer: Slicer, *, is_quiet: bool) -> tuple[ComparisonRow, ...]:
        partitions = await in_order(self.partitions, slicer)
        return tuple([self._row(tp, now, is_quiet=is_quiet) async for tp in slicer.each(partitions)])

    async def _has_moved(self, now: ClusterImage, slicer: Slicer) -> bool:
        """Return whether the observed controller wrote every state that the dry run wrote."""
        async for tp in slicer.each(self.would.touched if self.would is not None else ()):
            path = paths.partition_state(tp)
            if now.nodes.get(path) == self.before.nodes.get(path):
                return False
        return True

    async def unclear(self, now: ClusterImage, verdict: PartitionVerdict, slicer: Slicer) -> tuple[ComparisonRow, ...]:
        """Return the rows with this verdict at once."""
        return tuple([row._replace(verdict=verdict) for row in await self._rows(now, slicer, is_quiet=True)])

    def _row(self, tp: TopicPartition, now: ClusterImage, *, is_quiet: bool) -> ComparisonRow:
        before, after = state_in(self.before, tp), state_in(now, tp)
        if self.would is None:
            return ComparisonRow(tp, before, None, after, PartitionVerdict(Ruling.UNCLEAR, reason=self.failure))
        try:
            would = self.would.state(tp)
        except BadZnode:  # the dry run does not change an unreadable znode, nor should the observed controller
            would = None
        verdict = judge(before, would, after) if is_quiet else NOT_SETTLED
        if verdict.ruling is Ruling.DIFFERENT and tp in self.overlapped:
            verdict = OVERLAPPED
        if verdict.ruling is not Ruling.UNCLEAR and self._has_other_topic(tp.topic, now):
            verdict = RENEWED
        if tp.topic in self.being_deleted:
            verdict = deliberate(verdict, DELETION_DEVIATION)
        return ComparisonRow(tp, before, would, after, verdict)

    def _has_other_topic(self, name: str, now: ClusterImage) -> bool:
        """Return whether the topic was deleted or created anew, so that its states are no reaction to the cause."""
        path = paths.topic(name)
        then, there = self.cause.facts.get(path, self.before.nodes.get(path)), now.nodes.get(path)
        return then is not None and (there is None or there.czxid != then.czxid)


@dataclass(eq=False)
class PendingEnd:
    """A cause whose end alone is compared: a reassignment or a deletion, which may take long."""

    cause: ObservedCause
    before: Mapping[TopicPartition, LeaderAndIsr | None]
    """The states at the time of the observation. A whole image would take too much memory."""
    gone_since: dict[str, float] = field(default_factory=dict)
    """The time of the first image without the topic, by topic."""

    async def take_ended_rows(self, now: ClusterImage, at: float, slicer: Slicer) -> tuple[ComparisonRow, ...]:
        """Return the rows of the partitions that have ended, and remove these partitions."""
        ends, verdicts = _Ends(now, at, self.gone_since), dict[TopicPartition, PartitionVerdict]()
        judge_end = ends.of_reassignment if self.cause.kind is CauseKind.REASSIGNED else ends.of_deletion
        async for tp in slicer.each(self.cause.partitions):
            verdicts[tp] = judge_end(tp)
        ended = {tp: verdict for tp, verdict in verdicts.items() if verdict != NOT_SETTLED}
        if not ended:
            return ()
        self.cause = replace(self.cause, partitions=self.cause.partitions - ended.keys())
        partitions = slicer.each(await in_order(ended, slicer))
        return tuple(
            [ComparisonRow(tp, self.before[tp], None, state_in(now, tp), ended[tp]) async for tp in partitions]
        )


class _Ends:
    """The ends of reassignments and deletions in one image. Each topic is decoded once."""

    def __init__(self, now: ClusterImage, at: float, gone_since: dict[str, float]) -> None:
        self._now, self._at, self._gone_since = now, at, gone_since
        self._asked: Final = frozenset(now.names(paths.DELETE_TOPICS))
        self._images: dict[str, TopicImage | BadZnode | None] = {}

    def of_reassignment(self, tp: TopicPartition) -> PartitionVerdict:
        if tp.topic not in self._images:
            self._images[tp.topic] = self._image(tp.topic)
        image = self._images[tp.topic]
        if isinstance(image, BadZnode):
            return NOT_SETTLED
        assignment = image.assignments.get(tp.partition) if image is not None else None
        return judge_reassigned(assignment, state_in(self._now, tp))

    def _image(self, topic: str) -> TopicImage | BadZnode | None:
        node = self._now.nodes.get(paths.topic(topic))
        try:
            return codecs.decode_topic(topic, node.data, version=node.version) if node is not None else None
        except BadZnode as bad:
            return bad

    def of_deletion(self, tp: TopicPartition) -> PartitionVerdict:
        is_asked = tp.topic in self._asked
        if paths.topic(tp.topic) in self._now.nodes:
            return NOT_SETTLED if is_asked else WITHDRAWN
        is_settled = self._at - self._gone_since.setdefault(tp.topic, self._at) >= SETTLE_S
        return judge_deleted(is_topic_there=False, is_marker_there=is_asked) if is_settled else NOT_SETTLED


def state_in(image: ClusterImage, tp: TopicPartition) -> LeaderAndIsr | None:
    """Return the state of a partition in an image; None if it is missing or invalid."""
    try:
        return state_of(tp, image.nodes.get(paths.partition_state(tp)))
    except BadZnode:
        return None


def note_overlaps(new: PendingComparison, others: Iterable[PendingComparison]) -> None:
    """Mark partitions that a new cause shares with pending ones, because their changes cannot be separated."""
    for other in others:
        both = new.partitions & other.partitions
        other.overlapped |= both
        new.overlapped |= both
