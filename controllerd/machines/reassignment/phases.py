"""The two phases of reassignments, many at a time: A brings the new replicas up, B removes the old ones (KIP-455).

The order of the steps keeps a partition whole, wherever the controller ends in between. Leader epochs rise before
brokers see another assignment, so that no broker ignores it. Replicas leave the ISR before they are deleted, so that no
deleted replica can be elected. The deletion is pending in ZooKeeper before it is sent (``pending_deletions.py``), and
the topic znode drops the old replicas last: until then the next controller finds the reassignment under way, and
repeats the steps.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import structlog

from controllerd.core.election import ReassignmentElection
from controllerd.core.model import BrokerId, PartitionState, ReplicaAssignment, ReplicaState, TopicPartition
from controllerd.core.reassignment import may_complete
from controllerd.core.records import PartitionRecord
from controllerd.machines.reassignment.assignment_writes import Assignments, AssignmentWrites, Images
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.machines.state_changes import EpochBump
from controllerd.ports.results import Conflict, Written
from controllerd.record.records import MAX_ROWS, AlarmRecord, ReassignmentRecord
from controllerd.slicer import by_broker, sliced

log = structlog.get_logger(__name__)

Records = Sequence[PartitionRecord]
ByBroker = Mapping[BrokerId, Collection[TopicPartition]]


class ReassignmentPhases:
    """Carries the steps out, each as one pass over all partitions: one batch of requests, one round of writes."""

    def __init__(self, deps: Dependencies, writes: AssignmentWrites, requests: ReassignmentRequests) -> None:
        self._deps = deps
        self._writes = writes
        self._requests = requests

    def record(self, step: str, partitions: Iterable[TopicPartition]) -> None:
        """Record the step that these partitions have reached."""
        rows = list(partitions)
        for part in sliced(rows, MAX_ROWS):
            topics, numbers = [tp.topic for tp in part], [tp.partition for tp in part]
            self._deps.audit.record(ReassignmentRecord(step, topics, numbers))
        if rows:
            log.info("reached a step of reassignments", step=step, partitions=len(rows), first=str(rows[0]))

    # -- removed replicas ----------------------------------------------------------------------------------------------

    async def stop(self, gone: ByBroker, *, hand_over: bool = False) -> None:
        """Stop replicas, take them out of their ISRs and send their deletion; the deletions are pending already.

        A replica that cannot be taken out of its ISR is not deleted. A replica that does not exist is left alone.
        ``hand_over``: a leader among the replicas gets a successor by the same write (``IsrRemoval``).
        """
        gone = {broker: await self._started(broker, partitions) for broker, partitions in gone.items()}
        if hand_over:
            await self._deps.replicas.stop_handing_over(gone)
        else:
            await self._deps.replicas.handle_on(gone, ReplicaState.OFFLINE)
        stopped = {broker: await self._out_of_isr(broker, partitions) for broker, partitions in gone.items()}
        for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
            await self._deps.replicas.handle_on(stopped, state)

    async def _started(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions whose replica on the broker was started once and is not deleted yet."""
        record_of, slicer, gone = self._deps.context.record, self._deps.slicer, ReplicaState.NON_EXISTENT
        return [tp async for tp in slicer.each(partitions) if record_of(tp).replica_states[broker] is not gone]

    async def _out_of_isr(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions whose replica on the broker is offline and in no ISR."""
        record_of, slicer = self._deps.context.record, self._deps.slicer
        offline = await self._in_state(ReplicaState.OFFLINE, broker, partitions)
        return [tp async for tp in slicer.each(offline) if not _is_in_isr(record_of(tp), (broker,))]

    async def _in_state(
        self, state: ReplicaState, broker: BrokerId, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """The partitions whose replica on the broker is in this state."""
        record_of, slicer = self._deps.context.record, self._deps.slicer
        return [tp async for tp in slicer.each(partitions) if record_of(tp).replica_states[broker] is state]

    # -- phase A -------------------------------------------------------------------------------------------------------

    async def bring_up(self, records: Records) -> None:
        """Send every broker of the partitions the new assignment, and start the new replicas as new.

        No further request is needed for the new replicas to catch up: their leaders then add them to the ISRs.
        """
        led = [record for record in records if record.leadership is not None]
        async with self._deps.outbox.batch() as batch:
            bumped = await self._bump(led)

            def add(part: Records) -> None:
                batch.add_leaderships([(each, each.assignment.origin) for each in part], is_new=False)
                batch.add_leaderships([(each, each.assignment.adding) for each in part], is_new=True)

            await self._deps.slicer.for_each_slice(bumped, add)
        adding = await by_broker((each.tp, each.assignment.adding) async for each in self._deps.slicer.each(records))
        fresh = {broker: await self._in_state(ReplicaState.NON_EXISTENT, broker, on) for broker, on in adding.items()}
        await self._deps.replicas.handle_on(fresh, ReplicaState.NEW)
        if len(bumped) < len(led):
            await self._try_again({record.tp for record in led} - {record.tp for record in bumped})

    async def _try_again(self, partitions: Collection[TopicPartition]) -> None:
        """Note partitions for a retry, without partitions in quarantine: the quarantine check goes on with these."""
        quarantine, each = self._deps.context.quarantine, self._deps.slicer.each
        self._deps.unfinished.note([tp async for tp in each(partitions) if tp.state_path not in quarantine])

    async def _bump(self, records: Records) -> Records:
        return await EpochBump(self._deps.context, self._deps.store.states, self._deps.audit, self._deps.slicer).run(
            records
        )

    # -- phase B -------------------------------------------------------------------------------------------------------

    async def complete(self, records: Records) -> list[TopicPartition]:
        """Remove the old replicas; returns the partitions that are complete now.

        A partition whose topic znode another writer changed is left to the event of that change, and a znode that
        cannot be parsed to the operator: old replicas are deleted before the znode says so, which must be true then.
        """
        slicer, is_as_known = self._deps.slicer, self._writes.is_as_known
        images = await self._writes.read([record.tp for record in records])
        current: Records = [each async for each in slicer.each(records) if is_as_known(images, each)]
        before = {record.tp: record.assignment for record in current}
        self.record("completing", before)
        adding = await by_broker((tp, assignment.adding) async for tp, assignment in slicer.each(before.items()))
        await self._deps.replicas.handle_on(adding, ReplicaState.ONLINE)
        async for record in slicer.each(current):
            self._deps.context.set_assignment(record.tp, ReplicaAssignment(record.assignment.target))
        # Two kinds of partitions cannot complete yet: ``held`` are not in the hands of the target, ``kept`` have an old
        # replica in the ISR. Both go back to the assignment that the topic znode still has.
        led = await self._lead_from_targets(current)
        current, held = await self._split(current, before, lambda each: not self._is_in_hands_of_target(each, led))
        removing = await by_broker((each.tp, before[each.tp].removing) async for each in slicer.each(current))
        await self._deps.pending_deletions.add(removing)
        await self.stop(removing)
        current, kept = await self._split(current, before, lambda each: _is_in_isr(each, before[each.tp].removing))
        done = await self._end(await self._finalise(current, images, before), current)
        await self._go_on_waiting([*held, *kept], before)
        return done

    async def _end(self, records: Records, ended: Records) -> list[TopicPartition]:
        """Send every live broker the new assignments, record the end, and remove the requests by znode.

        The request is removed also for a partition of ``ended`` that another writer changed or deleted at the last
        moment, because its reassignment was carried out.
        """
        over = [each async for each in self._deps.slicer.each(ended) if not each.assignment.is_being_reassigned]
        if over:
            await self._requests.finish({record.tp: record.assignment.replicas for record in over})
        if not records:
            return []
        await self._deps.outbox.update_metadata_of(self._deps.context.live_or_shutting_down, records)
        done = [record.tp for record in records]
        self.record("completed", done)
        return done

    async def _lead_from_targets(self, records: Records) -> set[TopicPartition]:
        """Give each online leader in the target a new leader epoch; elect a target replica for the other partitions.

        Returns the partitions for which ZooKeeper has the new epoch or the new leader.
        """
        online, slicer = self._deps.context.liveness.online, self._deps.slicer
        staying: list[PartitionRecord] = []
        others: list[TopicPartition] = []
        async for record in slicer.each(records):
            if record.leadership is not None and record.leadership.leader in online(record):
                staying.append(record)
            elif record.leadership is not None:
                others.append(record.tp)
        async with self._deps.outbox.batch() as batch:
            bumped = await self._bump(staying)
            await slicer.for_each_slice(
                bumped,
                lambda part: batch.add_leaderships([(each, each.assignment.replicas) for each in part], is_new=False),
            )
        elections = await self._deps.partitions.handle(others, PartitionState.ONLINE, ReassignmentElection())
        return {*(record.tp for record in bumped), *elections.elected}

    def _is_in_hands_of_target(self, record: PartitionRecord, led: Container[TopicPartition]) -> bool:
        """Whether the leader is online, ``led`` has the partition, and all of the target is in the ISR."""
        leadership, replicas = record.leadership, record.assignment.replicas
        if record.tp not in led or leadership is None:
            return False
        if leadership.leader not in self._deps.context.liveness.online(record):
            return False
        return set(replicas) <= set(leadership.isr)

    async def _split(
        self, records: Records, before: Assignments, must_wait: Callable[[PartitionRecord], bool]
    ) -> tuple[Records, Records]:
        """Divide partitions into those that go on and those that must wait.

        A partition whose replicas only change their order, so that none is added or removed, never waits.
        """
        slicer = self._deps.slicer
        held = {
            each.tp async for each in slicer.each(records) if must_wait(each) and before[each.tp].is_being_reassigned
        }
        if not held:
            return records, []
        return [each for each in records if each.tp not in held], [each for each in records if each.tp in held]

    async def _go_on_waiting(self, held: Records, before: Assignments) -> None:
        """Restore the assignment that the topic znode still has, and send it: brokers may have got the final one.

        Partitions that may complete are noted for a retry.
        """
        if not held:
            return
        log.warning("kept reassignments waiting", partitions=len(held), first=str(held[0].tp))
        for record in held:
            self._deps.context.set_assignment(record.tp, before[record.tp])
        await self.bring_up(held)
        online = self._deps.context.liveness.online
        await self._try_again(
            {
                each.tp
                async for each in self._deps.slicer.each(held)
                if each.leadership is not None and may_complete(each.assignment, each.leadership.isr, online(each))
            }
        )

    async def _finalise(self, records: Records, images: Images, before: Assignments) -> Records:
        """Write the topic znodes without the old replicas; returns the partitions for which that was written.

        An entry that another writer changed meanwhile is not written over. The event of that change then begins with
        the assignment of the context, in which only the target has replicas.
        """
        pending = {record.tp: record.assignment for record in records}
        done: set[TopicPartition] = set()
        refused: dict[str, str] = {}
        while pending:
            results = await self._writes.write(images, pending)
            async for tp, result in self._deps.slicer.each(results.items()):
                if isinstance(result, Written):
                    done.add(tp)
                elif not isinstance(result, Conflict):
                    refused[tp.topic] = result.reason
                    self._deps.context.set_assignment(tp, before[tp])
            lost = [tp for tp, result in results.items() if isinstance(result, Conflict)]
            images = await self._writes.read(lost) if lost else {}
            entries = {tp: images[tp.topic].assignments.get(tp.partition) for tp in lost if tp.topic in images}
            pending = {tp: pending[tp] for tp, entry in entries.items() if entry in (before[tp], pending[tp])}
        for topic, reason in refused.items():
            self._deps.audit.record(AlarmRecord("topic znode was not written", f"{topic}: {reason}"))
        await self._try_again({record.tp for record in records if record.tp.topic in refused})
        return [record for record in records if record.tp in done]


def _is_in_isr(record: PartitionRecord, brokers: Iterable[BrokerId]) -> bool:
    """Whether one of these brokers is still in the ISR."""
    return record.leadership is not None and not set(brokers).isdisjoint(record.leadership.isr)
