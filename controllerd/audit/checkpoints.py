"""Periodic snapshots, so that a replay need not begin at the start of an epoch, and digests of the controller's own
state, so that a replay can verify that it has arrived there. They are written while no event is handled.

Both are made between events and in steps, each of a few milliseconds. A snapshot shows every topic as it is at the step
that writes it: what changes before that is in it, what changes afterwards follows as a record of its event.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

from controllerd.core.changes import (
    BrokerLive,
    BrokerShuttingDown,
    Change,
    DeletionChanged,
    OfflineDirsSet,
    PendingDeletionsSet,
    Quarantined,
)
from controllerd.core.context import ControllerContext
from controllerd.core.records import PartitionRecord, TopicRecord
from controllerd.machines.recorded import journal_records
from controllerd.ports.audit import AuditLog
from controllerd.record.digest import RunningDigest
from controllerd.record.records import (
    MAX_ROWS,
    AssignmentRecord,
    DigestRecord,
    LeadershipRecord,
    PartitionStateRecord,
    Record,
    ReplicaStateRecord,
    SnapshotBegin,
    SnapshotEnd,
    TopicsRecord,
)
from controllerd.slicer import sliced
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import TopicView

STEP_ROWS: Final = 500
"""Partitions that a step takes at most, or one topic more: some three milliseconds."""
_LOOK_S: Final = 1.0
"""The interval in which it is checked whether anything is due."""
_BREATH_S: Final = 0.002
"""The event loop's share between two steps."""

Steps = Iterator[list[Record]]


class Checkpoints:
    """Takes snapshots and digests when they are due, and a snapshot at once when records were lost."""

    def __init__(
        self,
        context: ControllerContext,
        snapshot: ClusterSnapshot,
        audit: AuditLog,
        now: Callable[[], float],
        *,
        snapshot_interval_s: float,
        digest_interval_s: float,
        step_rows: int = STEP_ROWS,
    ) -> None:
        """``now`` gives monotonic seconds; ``step_rows``: so many partitions a step, or one topic more."""
        self._step_rows = step_rows
        self.gaps: Callable[[], int] = lambda: 0
        """How often the log has lost something so far and gone on."""
        self._context = context
        self._audit = audit
        self._now = now
        self._snapshot_interval_s = snapshot_interval_s
        self._digest_interval_s = digest_interval_s
        self._gaps_seen = 0
        self._digest = PublishedDigest(context, snapshot)
        self._epoch = 0
        self._work: Steps | None = None
        self._snapshot_at = self._digest_at = 0.0
        self._digested_change = -1

    def step(self) -> bool:
        """Write the next part of what is due, or nothing; whether there may be more. Only between two events."""
        if self._context.epoch != self._epoch:
            self._begin_term()
        if self._epoch == 0:
            return False
        work = self._work or self._due()
        if work is None:
            return False
        records = next(work, None)
        self._work = work if records is not None else None
        self._audit.record(*(records or ()))
        return True

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Look again and again, and take steps while the event loop has nothing to do; ``step`` may be called too."""
        while True:
            has_more = is_idle() and self.step()
            await asyncio.sleep(_BREATH_S if has_more else _LOOK_S)

    def _begin_term(self) -> None:
        """Each term opens with a snapshot of its own; if something of that was lost, another one follows at once."""
        self._epoch, self._work, now = self._context.epoch, None, self._now()
        self._snapshot_at, self._digest_at = now + self._snapshot_interval_s, now + self._digest_interval_s
        self._digested_change = -1

    def _due(self) -> Steps | None:
        now = self._now()
        if now >= self._snapshot_at or self.gaps() != self._gaps_seen:
            self._snapshot_at, self._gaps_seen = now + self._snapshot_interval_s, self.gaps()
            self._digest_at = now  # so that a reader who begins at the snapshot knows at once that he is right
            self._digested_change = -1
            return snapshot_steps(self._context, self._step_rows)
        if now >= self._digest_at:
            self._digest_at = now + self._digest_interval_s
            if self._context.change_count != self._digested_change:
                return self._digest_steps()
        return None

    def _digest_steps(self) -> Steps:
        for _ in self._digest.catching_up(self._step_rows):
            yield []
        self._digested_change = self._context.change_count
        yield [self._digest.record()]


class PublishedDigest:
    """The digest of what readers are shown, at the cost of the topics that are shown anew."""

    def __init__(self, context: ControllerContext, snapshot: ClusterSnapshot) -> None:
        self._context = context
        self._snapshot = snapshot
        self._running = RunningDigest()
        self._views: dict[str, TopicView] = {}

    def catching_up(self, step_rows: int = STEP_ROWS) -> Iterator[None]:
        """Steps, until at the end of one nothing has changed since its beginning: then ``record`` may be asked for."""
        while changed := self._changed():
            rows = 0
            for name in changed:
                rows += self._look_at(name)
                if rows >= step_rows:
                    rows = 0
                    yield

    def record(self) -> DigestRecord:
        """The digest of now."""
        context = self._context
        partitions = sum(len(view.partitions) for view in self._views.values())
        epochs: dict[int, int] = {broker.id: broker.epoch for broker in context.brokers.values()}
        digest = self._running.of(epochs, context.shutting_down)
        return DigestRecord(digest, partitions, len(context.brokers))

    def _changed(self) -> list[str]:
        views, shown = self._views, self._snapshot.topics
        gone = [name for name in views if name not in shown]
        return gone + [name for name, view in shown.items() if views.get(name) is not view]

    def _look_at(self, name: str) -> int:
        view = self._snapshot.topics.get(name)
        if view is None:
            self._running.forget(name)
            self._views.pop(name, None)
            return 1
        self._running.update(name, view.topic_id, [row[:4] for row in view.partitions])
        self._views[name] = view
        return len(view.partitions)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def snapshot_steps(context: ControllerContext, step_rows: int = STEP_ROWS) -> Steps:
    """Everything in the context, a part per step; each part shows what is there when it is asked for."""
    begin = SnapshotBegin(context.epoch, periodic=True, epoch_zk_version=context.epoch_zk_version)
    yield [begin, *journal_records(list(_beside_topics(context)))]
    yield from _topics(context, step_rows)
    partitions = sum(len(topic.partitions) for topic in context.topics.values())
    yield [SnapshotEnd(len(context.brokers), len(context.topics), partitions)]


def _beside_topics(context: ControllerContext) -> Iterator[Change]:
    """The changes that lead from nothing to what is there besides topics."""
    yield from map(BrokerLive, context.brokers.values())
    yield from map(BrokerShuttingDown, sorted(context.shutting_down))
    for broker, partitions in context.offline_dirs.items():
        yield OfflineDirsSet(broker, partitions)
    yield from (Quarantined(path, reason) for path, reason in context.quarantine.items())
    yield from (
        PendingDeletionsSet(broker, context.pending_deletions.of(broker))
        for broker in context.pending_deletions.brokers()
    )
    deletions = context.deletions
    for topic in sorted(deletions.queued):
        yield DeletionChanged(topic, "queued")
        if topic in deletions.started:
            yield DeletionChanged(topic, "started")
        if topic in deletions.halted:
            yield DeletionChanged(topic, "halted", deletions.halted[topic])


def _topics(context: ControllerContext, step_rows: int) -> Steps:
    """The topics that were there at the beginning and still are; those that came later are in records of their own."""
    part = _Part()
    for name in list(context.topics):
        topic = context.topics.get(name)
        if topic is None:
            continue
        part.add_topic(name, topic)
        for rows in sliced(list(topic.partitions.values()), step_rows):
            part.rows += rows
            if len(part.rows) >= step_rows:
                yield list(part.records())
                part = _Part()
                if context.topics.get(name) is not topic:
                    break  # gone meanwhile, and perhaps there again as another one
    yield list(part.records())


class _Part:
    """Some topics and partitions, as they are at this moment."""

    def __init__(self) -> None:
        self.rows: list[PartitionRecord] = []
        self._topics = TopicsRecord([], [], [])

    def add_topic(self, name: str, topic: TopicRecord) -> None:
        """A topic without its partitions."""
        self._topics.names.append(name)
        self._topics.ids.append(topic.topic_id)
        self._topics.znode_versions.append(topic.znode_version)

    def records(self) -> Iterator[Record]:
        """The part; a state stands as a transition from itself to itself."""
        if self._topics.names:
            yield self._topics
        if self.rows:
            yield _assignments(self.rows)
            yield _partition_states(self.rows)
            yield from _leaderships([row for row in self.rows if row.leadership is not None])
            yield from _replica_states(self.rows)


def _names(rows: list[PartitionRecord]) -> tuple[list[str], list[int]]:
    return [row.tp.topic for row in rows], [row.tp.partition for row in rows]


def _assignments(rows: list[PartitionRecord]) -> Record:
    replicas, adding, removing = zip(*(row.assignment for row in rows), strict=True)
    return AssignmentRecord(
        *_names(rows), list(map(list, replicas)), list(map(list, adding)), list(map(list, removing))
    )


def _partition_states(rows: list[PartitionRecord]) -> Record:
    states = [row.state.value for row in rows]
    return PartitionStateRecord(*_names(rows), states, states)


def _leaderships(rows: list[PartitionRecord]) -> Iterator[Record]:
    if rows:
        columns = zip(*(row.leadership for row in rows if row.leadership is not None), strict=True)
        leaders, leader_epochs, isrs, controller_epochs, partition_epochs, recovery = map(list, columns)
        yield LeadershipRecord(
            *_names(rows),
            leaders,
            leader_epochs,
            list(map(list, isrs)),
            controller_epochs,
            partition_epochs,
            list(map(int, recovery)),
        )


def _replica_states(rows: list[PartitionRecord]) -> Iterator[Record]:
    found = [(*row.tp, broker, state.value) for row in rows for broker, state in row.replica_states.items()]
    for part in sliced(found, MAX_ROWS):
        topics, partitions, brokers, states = map(list, zip(*part, strict=True))
        yield ReplicaStateRecord(topics, partitions, brokers, states, states)
