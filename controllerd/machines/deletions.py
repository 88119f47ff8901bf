"""The topic deletion manager: it deletes the replicas of topics, then their znodes, and says why a deletion waits.

The state of each deletion is computed anew each time (``core/deletion_progress.py``). All topics that can go on do so
together: one UpdateMetadata, one batch of requests per step, and their znodes in few transactions.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_progress import (
    can_delete,
    deletion_progress,
    is_given_up,
    names_of,
    replicas_with_data,
    waiting_reason,
)
from controllerd.core.deletion_waits import hidden_topics, reassignments_to_wait_for
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, PartitionState, ReplicaState, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.core.soundness import is_in_quarantine
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports.audit import AuditLog
from controllerd.ports.results import Written
from controllerd.ports.topics import TopicRemover
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)

OnBrokers = Mapping[BrokerId, Collection[TopicPartition]]
_ReplicaFilter = Callable[[PartitionRecord, BrokerId], bool]
"""Whether the replica of this partition on this broker is selected."""

_AT_ONCE: Final = 2_500
"""Partitions whose znodes are deleted by one call: many transactions, but the event loop still gets its turns."""
_STOPPED: Final = frozenset({ReplicaState.OFFLINE, ReplicaState.DELETION_STARTED})
"""States of replicas that a StopReplica was made for already, with or without deletion."""
_RUNNING: Final = frozenset({ReplicaState.NEW, ReplicaState.ONLINE})
_BEING_DELETED: Final = frozenset({ReplicaState.DELETION_STARTED})


class _NextSteps(NamedTuple):
    """Topics by the next step of their deletion; the last two lists may overlap."""

    done: list[str]
    """All replicas are deleted: the znodes are next."""
    ineligible: list[str]
    """A replica could not be deleted, and must be stopped again first."""
    startable: list[str]
    """Brokers can be asked to delete replicas."""


class TopicDeletionManager:
    """Deletes topics as far as it can, and goes on whenever a cause to wait is over."""

    def __init__(
        self,
        context: ControllerContext,
        topics: TopicRemover,
        outbox: Outbox,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        audit: AuditLog,
    ) -> None:
        self._context = context
        self._topics = topics
        self._outbox = outbox
        self._partitions = partitions
        self._replicas = replicas
        self._audit = audit

    # -- causes to go on -----------------------------------------------------------------------------------------------

    def queue(self, topics: Iterable[str]) -> None:
        """Queue the deletion of these known topics; ``resume`` begins it."""
        for topic in topics:
            self._context.deletions.queue(topic)

    async def resume(self) -> None:
        """Go on with every deletion that can go on."""
        await self._advance(sorted(self._context.deletions.queued))

    async def resume_for(self, topics: Iterable[str]) -> None:
        """Go on with these topics, whose cause to wait may be over; brokers that refused are asked again."""
        queued = self._queued(topics)
        for topic in queued:
            self._context.deletions.clear_refusal(topic)
        await self._advance(queued)

    async def fail(self, replicas: OnBrokers) -> None:
        """Handle replicas that went offline: replicas of hidden topics cannot be deleted now.

        Replicas whose deletion has not begun yet go offline like any other, so that they do not
        count as running. The reassignment that a deletion waited for may have become impossible, so
        that the deletion begins.
        """
        if not self._context.deletions.queued:
            return
        hidden = hidden_topics(self._context)
        running = await self._in_state(replicas, _RUNNING, hidden)
        await self._replicas.handle_on(running, ReplicaState.OFFLINE)
        stopped = await self._in_state(replicas, _STOPPED, hidden)
        await self._replicas.handle_on(stopped, ReplicaState.DELETION_INELIGIBLE)
        await self._advance(self._queued(tp.topic for partitions in replicas.values() for tp in partitions))

    async def refuse(self, broker: BrokerId, errors: Mapping[TopicPartition, KafkaError]) -> None:
        """Handle the answer that a broker could not delete these replicas."""
        asked = await self._in_state({broker: errors.keys()}, _BEING_DELETED, self._context.deletions.queued)
        async for tp in self._outbox.slicer.each(asked[broker]):
            self._context.deletions.refuse(tp.topic, f"broker {broker} could not delete {tp}: {errors[tp].name}")
        await self._replicas.handle_on(asked, ReplicaState.DELETION_INELIGIBLE)
        await self._advance(self._queued(tp.topic for tp in asked[broker]))

    async def complete(self, broker: BrokerId, partitions: Collection[TopicPartition]) -> None:
        """Handle the answer that a broker deleted these replicas; only replicas of queued topics matter here."""
        asked = await self._in_state({broker: partitions}, _BEING_DELETED, self._context.deletions.queued)
        await self._replicas.handle_on(asked, ReplicaState.DELETION_SUCCESSFUL)
        await self._advance(self._queued(tp.topic for tp in asked[broker]))

    def _queued(self, topics: Iterable[str]) -> list[str]:
        return sorted(self._context.deletions.queued.intersection(topics))

    async def _in_state(
        self, replicas: OnBrokers, states: Collection[ReplicaState], topics: Container[str]
    ) -> dict[BrokerId, list[TopicPartition]]:
        """Return the replicas of these topics that are in one of these states."""
        find = self._context.find
        found: dict[BrokerId, list[TopicPartition]] = {}
        for broker, partitions in replicas.items():
            of_broker = found[broker] = []
            async for tp in self._outbox.slicer.each(partitions):
                record = find(tp) if tp.topic in topics else None
                if record is not None and record.replica_states[broker] in states:
                    of_broker.append(tp)
        return found

    # -- the engine ----------------------------------------------------------------------------------------------------

    async def _advance(self, topics: Collection[str]) -> None:
        """Finish deletions, stop replicas that could not be deleted, begin deletions, and say why the others wait.

        Stopping comes before beginning, because a broker deletes only a replica that was stopped. While deletions are
        paused, only the last step is done.
        """
        if not topics:
            return
        if self._context.deletions.paused is None:
            work = await self._sort(topics)
            await self._finish(work.done)
            await self._stop_again(work.ineligible)
            await self._begin(work.startable)
        await self._update_reasons(topics)

    async def _sort(self, topics: Iterable[str]) -> _NextSteps:
        work = _NextSteps([], [], [])
        for topic in topics:
            progress = deletion_progress(self._context, topic)
            if is_in_quarantine(self._context, topic):
                continue
            if progress.is_done:
                work.done.append(topic)
            elif not progress.deleting:  # otherwise the topic waits for the answers of the brokers that are deleting
                if progress.has_ineligible:
                    work.ineligible.append(topic)
                if self._may_begin(topic, is_ready=bool(progress.ready)):
                    work.startable.append(topic)
            await self._outbox.slicer.yield_to_loop()
        return work

    def _may_begin(self, topic: str, *, is_ready: bool) -> bool:
        """Whether brokers can be asked to delete. Only a deletion that has not begun waits for reassignments."""
        book = self._context.deletions
        if topic in book.refused:
            return False
        return is_ready if topic in book.started else not reassignments_to_wait_for(self._context, topic)

    async def _update_reasons(self, topics: Iterable[str]) -> None:
        """Update, for each topic, the brokers that are deleting its replicas and the reason why its deletion waits."""
        book = self._context.deletions
        for topic in self._queued(topics):
            progress = deletion_progress(self._context, topic)
            if book.deleting.get(topic, frozenset()) != progress.deleting:
                book.deleting[topic] = progress.deleting
                self._context.touch(topic)
            reason = waiting_reason(self._context, topic, progress)
            if reason is None:
                book.resume(topic)
            elif book.halted.get(topic) != reason:
                log.info("kept topic deletion waiting", topic=topic, reason=reason)
                book.halt(topic, reason)
            await self._outbox.slicer.yield_to_loop()

    # -- beginning -----------------------------------------------------------------------------------------------------

    async def _begin(self, topics: Collection[str]) -> None:
        """Remove the topics from the metadata of all brokers, then stop their replicas and send the deletions.

        A topic of which no replica could be stopped counts as refused, so that it is not tried again at once.
        """
        if not topics:
            return
        log.info("began topic deletions", topics=len(topics), first=next(iter(topics)))
        await self._end_partitions([topic for topic in topics if topic not in self._context.deletions.started])
        records = self._records(topics)
        await self._outbox.update_metadata_of(self._context.live_or_shutting_down, records)
        await self._delete_replicas(records)
        for topic in topics:
            progress = deletion_progress(self._context, topic)
            if progress.ready and not progress.deleting:
                self._context.deletions.refuse(topic, f"replicas on {names_of(progress.ready)} could not be stopped")
            await self._outbox.slicer.yield_to_loop()

    async def _end_partitions(self, topics: Iterable[str]) -> None:
        """Move the partitions of these topics to NonExistent, and note that their deletion has begun."""
        beginning = list(topics)
        existing = [record.tp for record in self._records(beginning) if record.state is not PartitionState.NON_EXISTENT]
        await self._partitions.handle(existing, PartitionState.OFFLINE)
        await self._partitions.handle(existing, PartitionState.NON_EXISTENT)
        for topic in beginning:
            self._context.deletions.begin(topic)

    async def _delete_replicas(self, records: Collection[PartitionRecord]) -> None:
        context = self._context

        def was_never_started(record: PartitionRecord, broker: BrokerId) -> bool:
            return record.replica_states[broker] is ReplicaState.NON_EXISTENT

        def can_be_stopped(record: PartitionRecord, broker: BrokerId) -> bool:
            state = record.replica_states[broker]
            return state in _RUNNING or (
                state is not ReplicaState.DELETION_SUCCESSFUL and can_delete(context, record.tp, broker)
            )

        def is_stopped(record: PartitionRecord, broker: BrokerId) -> bool:
            return record.replica_states[broker] is ReplicaState.OFFLINE

        def is_out_of_reach(record: PartitionRecord, broker: BrokerId) -> bool:
            return is_stopped(record, broker) and not can_delete(context, record.tp, broker)

        # Each filter is applied after the step before it, and sees the states that this step has set.
        await self._treat_as_new(await self._replicas_of(records, was_never_started))
        await self._replicas.handle_on(await self._replicas_of(records, can_be_stopped), ReplicaState.OFFLINE)
        unreachable = await self._replicas_of(records, is_out_of_reach)
        await self._replicas.handle_on(unreachable, ReplicaState.DELETION_INELIGIBLE)
        await self._replicas.handle_on(await self._replicas_of(records, is_stopped), ReplicaState.DELETION_STARTED)

    async def _treat_as_new(self, replicas: OnBrokers) -> None:
        """Move to New the replicas that were never started, because their partition waited for a broker.

        An earlier controller may have started them, so brokers are asked to delete them. Only the context changes: no
        broker is sent a request that would start them.
        """
        for broker, partitions in replicas.items():
            await self._outbox.slicer.for_each_slice(list(partitions), partial(self._move_to_new, broker))

    def _move_to_new(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> None:
        self._context.move_replicas(broker, map(self._context.record, partitions), ReplicaState.NEW)

    async def _stop_again(self, topics: Collection[str]) -> None:
        """Stop replicas that could not be deleted, so that their brokers can be asked again."""

        def is_ineligible(record: PartitionRecord, broker: BrokerId) -> bool:
            state = record.replica_states[broker]
            return state is ReplicaState.DELETION_INELIGIBLE and not is_given_up(self._context, record.tp, broker)

        ineligible = await self._replicas_of(self._records(topics), is_ineligible)
        await self._replicas.handle_on(ineligible, ReplicaState.OFFLINE)

    def _records(self, topics: Iterable[str]) -> list[PartitionRecord]:
        known = self._context.topics
        return [record for topic in topics for record in known[topic].partitions.values()]

    async def _replicas_of(
        self, records: Collection[PartitionRecord], wanted: _ReplicaFilter
    ) -> dict[BrokerId, list[TopicPartition]]:
        found: defaultdict[BrokerId, list[TopicPartition]] = defaultdict(list)
        async for record in self._outbox.slicer.each(records):
            for broker in replicas_with_data(record):
                if wanted(record, broker):
                    found[broker].append(record.tp)
        return found

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _finish(self, topics: Sequence[str]) -> None:
        """Delete topics without replicas from ZooKeeper, and then from the context."""
        left = list(topics)
        while left:
            part, partitions = list[str](), 0
            while left and partitions < _AT_ONCE:
                part.append(left.pop())
                partitions += len(self._context.topics[part[-1]].partitions)
            await self._delete_from_zookeeper(part)

    async def _delete_from_zookeeper(self, topics: Collection[str]) -> None:
        await self._outbox.write_down_slowly()
        for topic, result in (await self._topics.delete_topics(topics)).items():
            if isinstance(result, Written):
                log.info("deleted topic", topic=topic)
                self._remove(topic)
            else:
                reason = f"ZooKeeper did not delete it: {result.reason}"
                self._context.deletions.refuse(topic, reason)
                self._audit.record(AlarmRecord("topic was not deleted", f"{topic}: {reason}"))
            await self._outbox.slicer.yield_to_loop()

    def _remove(self, topic: str) -> None:
        reassigned = self._context.being_reassigned
        if reassigned and any(record.tp in reassigned for record in self._context.topics[topic].partitions.values()):
            self._context.deletions.has_cut_reassignments = True
        self._context.remove_topic(topic)
