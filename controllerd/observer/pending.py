"""Causes whose end has not come yet: when one can be judged, and the rows that come of it.

A picture right after a cause shows a controller at work. So it is judged when its partitions have rested for a while;
and where ours would have written what has not moved at all, only when there is no more hope: the other may be slow.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from controllerd.core.model import LeaderAndIsr, TopicImage, TopicPartition
from controllerd.errors import BadZnode
from controllerd.machines.passes import in_order, paced
from controllerd.observer.causes import Cause, Kind
from controllerd.observer.judge import (
    NOT_SETTLED,
    Ruling,
    Verdict,
    deliberate,
    judge,
    judge_deleted,
    judge_reassigned,
)
from controllerd.observer.rehearsal import Rehearsed, state_of
from controllerd.observer.report import Row
from controllerd.pace import Pace
from controllerd.zk import codecs, paths
from controllerd.zk.pictures import Picture

SETTLE_S: Final = 2.0
"""Seconds for which nothing of a cause may have moved."""
LONGEST_S: Final = 30.0
"""Seconds after which nobody waits for a cause any longer."""
DOOMED: Final = "leaders of a topic whose deletion waits are given up when their broker dies, as any others"
"""A row of ``docs/deviations.md``: the built-in controller lets the states say that they still lead."""
OVERLAPPED: Final = Verdict(
    Ruling.UNCLEAR, reason="something else happened to it at the same time, or before it was settled"
)
OUT_OF_SIGHT: Final = Verdict(Ruling.UNCLEAR, reason="ZooKeeper was out of reach before it was settled")
RENEWED: Final = Verdict(Ruling.UNCLEAR, reason="its topic went, or was created again, before it was settled")
WITHDRAWN: Final = Verdict(
    Ruling.UNCLEAR, reason="the request to delete is gone, the topic is not, or one of its name was created since"
)


@dataclass(eq=False)
class Rehearsing:
    """A cause of which is known what ours would have done."""

    cause: Cause
    before: Picture
    would: Rehearsed | None
    since: float
    """Monotonic seconds at which it was seen."""
    failure: str = ""
    """Why it could not be rehearsed."""
    partitions: frozenset[TopicPartition] = frozenset()
    overlapped: set[TopicPartition] = field(default_factory=set)
    """Partitions that another cause concerns as well."""
    doomed: frozenset[str] = frozenset()
    """Topics whose deletion was asked for before."""
    moved_at: float = 0.0

    def __post_init__(self) -> None:
        touched = self.would.touched if self.would is not None else frozenset()
        self.partitions = self.cause.partitions | touched
        self.overlapped |= self.cause.mixed
        self.doomed = frozenset(self.before.names(paths.DELETE_TOPICS))
        self.moved_at = self.since

    async def look(self, last: Picture, now: Picture, at: float, pace: Pace) -> None:
        """Note whether something moved between two pictures."""
        async for tp in paced(self.partitions, pace):
            path = paths.partition_state(tp)
            if last.nodes.get(path) != now.nodes.get(path):
                self.moved_at = at
                return

    async def rows(self, now: Picture, at: float, pace: Pace) -> tuple[Row, ...] | None:
        """What came of it; None: too early."""
        is_quiet, is_late = at - self.moved_at >= SETTLE_S, at - self.since >= LONGEST_S
        if not is_late and not (is_quiet and await self._has_moved(now, pace)):
            return None
        return await self._rows(now, pace, is_quiet=is_quiet)

    async def _rows(self, now: Picture, pace: Pace, *, is_quiet: bool) -> tuple[Row, ...]:
        partitions = await in_order(self.partitions, pace)
        return tuple([self._row(tp, now, is_quiet=is_quiet) async for tp in paced(partitions, pace)])

    async def _has_moved(self, now: Picture, pace: Pace) -> bool:
        """Whether everything that ours would have written was written by the other."""
        async for tp in paced(self.would.touched if self.would is not None else (), pace):
            path = paths.partition_state(tp)
            if now.nodes.get(path) == self.before.nodes.get(path):
                return False
        return True

    async def unclear(self, now: Picture, verdict: Verdict, pace: Pace) -> tuple[Row, ...]:
        """It is not waited for any longer."""
        return tuple([row._replace(verdict=verdict) for row in await self._rows(now, pace, is_quiet=True)])

    def _row(self, tp: TopicPartition, now: Picture, *, is_quiet: bool) -> Row:
        before, after = state_in(self.before, tp), state_in(now, tp)
        if self.would is None:
            return Row(tp, before, None, after, Verdict(Ruling.UNCLEAR, reason=self.failure))
        try:
            would = self.would.state(tp)
        except BadZnode:  # ours leaves it alone, and so should the other
            would = None
        verdict = judge(before, would, after) if is_quiet else NOT_SETTLED
        if verdict.ruling is Ruling.DIFFERENT and tp in self.overlapped:
            verdict = OVERLAPPED
        if verdict.ruling is not Ruling.UNCLEAR and self._has_other_topic(tp.topic, now):
            verdict = RENEWED
        if tp.topic in self.doomed:
            verdict = deliberate(verdict, DOOMED)
        return Row(tp, before, would, after, verdict)

    def _has_other_topic(self, name: str, now: Picture) -> bool:
        """Whether the topic is another one by now, or none: what became of it is no answer to the cause."""
        path = paths.topic(name)
        then, there = self.cause.facts.get(path, self.before.nodes.get(path)), now.nodes.get(path)
        return then is not None and (there is None or there.czxid != then.czxid)


@dataclass(eq=False)
class Ending:
    """A cause of which only the end is judged: a reassignment, or a deletion. It may take long."""

    cause: Cause
    before: Mapping[TopicPartition, LeaderAndIsr | None]
    """The states when it was seen: a whole picture would be kept for as long as it takes."""
    gone_since: dict[str, float] = field(default_factory=dict)

    async def rows(self, now: Picture, at: float, pace: Pace) -> tuple[Row, ...]:
        """Those partitions that have come to their end since; they are waited for no longer."""
        ends, verdicts = _Ends(now, at, self.gone_since), dict[TopicPartition, Verdict]()
        of = ends.of_reassignment if self.cause.kind is Kind.REASSIGNED else ends.of_deletion
        async for tp in paced(self.cause.partitions, pace):
            verdicts[tp] = of(tp)
        ended = {tp: verdict for tp, verdict in verdicts.items() if verdict != NOT_SETTLED}
        if not ended:
            return ()
        self.cause = replace(self.cause, partitions=self.cause.partitions - ended.keys())
        partitions = paced(await in_order(ended, pace), pace)
        return tuple([Row(tp, self.before[tp], None, state_in(now, tp), ended[tp]) async for tp in partitions])


class _Ends:
    """What one picture says of what is to come to its end. Each topic is decoded once."""

    def __init__(self, now: Picture, at: float, gone_since: dict[str, float]) -> None:
        self._now, self._at, self._gone_since = now, at, gone_since
        self._asked: Final = frozenset(now.names(paths.DELETE_TOPICS))
        self._images: dict[str, TopicImage | BadZnode | None] = {}

    def of_reassignment(self, tp: TopicPartition) -> Verdict:
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

    def of_deletion(self, tp: TopicPartition) -> Verdict:
        is_asked = tp.topic in self._asked
        if paths.topic(tp.topic) in self._now.nodes:
            return NOT_SETTLED if is_asked else WITHDRAWN
        rests = self._at - self._gone_since.setdefault(tp.topic, self._at) >= SETTLE_S
        return judge_deleted(is_topic_there=False, is_marker_there=is_asked) if rests else NOT_SETTLED


def state_in(picture: Picture, tp: TopicPartition) -> LeaderAndIsr | None:
    """The state of a partition in a picture; None without one, and for one that cannot be understood."""
    try:
        return state_of(tp, picture.nodes.get(paths.partition_state(tp)))
    except BadZnode:
        return None


def note_overlaps(new: Rehearsing, others: Iterable[Rehearsing]) -> None:
    """A new cause concerns partitions of causes that have not settled: none of them can be told apart there."""
    for other in others:
        both = new.partitions & other.partitions
        other.overlapped |= both
        new.overlapped |= both
