"""Writes periodic snapshots and digests of the controller's state into the audit log.

A replay may begin at a snapshot instead of the start of an epoch. It compares its own state with each digest. Both are
written between events, in steps of a few milliseconds. A snapshot has every topic as it is at the step that writes it:
earlier changes are in the snapshot, and later changes follow as records of their events.
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
    ZnodeQuarantined,
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
"""The most partitions in a step (one topic may exceed it): about three milliseconds."""
_CHECK_INTERVAL_S: Final = 1.0
"""The interval between two checks whether a snapshot or digest is due."""
_STEP_PAUSE_S: Final = 0.002
"""The pause between two steps, in which the event loop does other work."""

Steps = Iterator[list[Record]]


class Checkpoints:
    """Writes snapshots and digests when they are due, and a snapshot at once after records were lost.

    The snapshot after a loss gives replays a known state again (``controllerd.audit.writer``).
    """

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
        """``now`` gives monotonic seconds; ``step_rows`` is the size of a step in partitions (``STEP_ROWS``)."""
        self._step_rows = step_rows
        self.gaps: Callable[[], int] = lambda: 0
        """Gives the number of gap records so far."""
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
        """Write the next part of the snapshot or digest that is due, if any. Called only between two events.

        Returns whether there may be more to write.
        """
        if self._context.epoch != self._epoch:
            self._begin_term()
        if self._epoch == 0:
            return False
        work = self._work or self._begin_due()
        if work is None:
            return False
        records = next(work, None)
        self._work = work if records is not None else None
        self._audit.record(*(records or ()))
        return True

    async def run(self, is_idle: Callable[[], bool]) -> None:
        """Take steps for ever, while no event is handled. ``step`` may be called besides."""
        while True:
            has_more = is_idle() and self.step()
            await asyncio.sleep(_STEP_PAUSE_S if has_more else _CHECK_INTERVAL_S)

    def _begin_term(self) -> None:
        """Restart the intervals: each term begins with a snapshot of its own, written by the take-over of the role."""
        self._epoch, self._work, now = self._context.epoch, None, self._now()
        self._snapshot_at, self._digest_at = now + self._snapshot_interval_s, now + self._digest_interval_s
        self._digested_change = -1

    def _begin_due(self) -> Steps | None:
        """Return the steps of the snapshot or digest that is due, and set the time of the next; None if none is due."""
        now = self._now()
        if now >= self._snapshot_at or self.gaps() != self._gaps_seen:
            self._snapshot_at, self._gaps_seen = now + self._snapshot_interval_s, self.gaps()
            self._digest_at = now  # so that a replay that begins at the snapshot is verified at once,
            self._digested_change = -1  # even if nothing has changed since the last digest
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
    """The digest of the published snapshot of the cluster. An update costs only the topics that changed."""

    def __init__(self, context: ControllerContext, snapshot: ClusterSnapshot) -> None:
        self._context = context
        self._snapshot = snapshot
        self._running = RunningDigest()
        self._views: dict[str, TopicView] = {}

    def catching_up(self, step_rows: int = STEP_ROWS) -> Iterator[None]:
        """Steps that update the digest until no topic changed during a pass. Call ``record`` after the last step."""
        while changed := self._changed():
            rows = 0
            for name in changed:
                rows += self._update_topic(name)
                if rows >= step_rows:
                    rows = 0
                    yield

    def record(self) -> DigestRecord:
        """The current digest."""
        context = self._context
        partitions = sum(len(view.partitions) for view in self._views.values())
        epochs: dict[int, int] = {broker.id: broker.epoch for broker in context.brokers.values()}
        digest = self._running.of(epochs, context.shutting_down)
        return DigestRecord(digest, partitions, len(context.brokers))

    def _changed(self) -> list[str]:
        views, shown = self._views, self._snapshot.topics
        gone = [name for name in views if name not in shown]
        return gone + [name for name, view in shown.items() if views.get(name) is not view]

    def _update_topic(self, name: str) -> int:
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
    """The steps of a snapshot of the context. Each step has the state at the moment at which it is taken."""
    begin = SnapshotBegin(context.epoch, periodic=True, epoch_zk_version=context.epoch_zk_version)
    yield [begin, *journal_records(list(_beside_topics(context)))]
    yield from _topics(context, step_rows)
    partitions = sum(len(topic.partitions) for topic in context.topics.values())
    yield [SnapshotEnd(len(context.brokers), len(context.topics), partitions)]


def _beside_topics(context: ControllerContext) -> Iterator[Change]:
    """The changes that lead from an empty context to everything in it except topics."""
    yield from map(BrokerLive, context.brokers.values())
    yield from map(BrokerShuttingDown, sorted(context.shutting_down))
    for broker, partitions in context.offline_dirs.items():
        yield OfflineDirsSet(broker, partitions)
    yield from (ZnodeQuarantined(path, reason) for path, reason in context.quarantine.items())
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
    """The topics that existed at the beginning and still exist at their step. New topics have their own records."""
    part = _SnapshotPart()
    for name in list(context.topics):
        topic = context.topics.get(name)
        if topic is None:
            continue
        part.add_topic(name, topic)
        for rows in sliced(list(topic.partitions.values()), step_rows):
            part.rows += rows
            if len(part.rows) >= step_rows:
                yield list(part.records())
                part = _SnapshotPart()
                if context.topics.get(name) is not topic:
                    break  # deleted meanwhile, and perhaps created anew
    yield list(part.records())


class _SnapshotPart:
    """A part of a snapshot: some topics and partitions in their current state."""

    def __init__(self) -> None:
        self.rows: list[PartitionRecord] = []
        self._topics = TopicsRecord([], [], [])

    def add_topic(self, name: str, topic: TopicRecord) -> None:
        """Add a topic without its partitions."""
        self._topics.names.append(name)
        self._topics.ids.append(topic.topic_id)
        self._topics.znode_versions.append(topic.znode_version)

    def records(self) -> Iterator[Record]:
        """The records of the part. A state is recorded as a transition from itself to itself."""
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
