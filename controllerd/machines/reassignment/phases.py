"""The two phases of reassignments, many at a time: A brings the new replicas up, B lets the old ones go (KIP-455).

The order of the steps is what keeps a partition whole whatever ends in between: leader epochs rise before brokers see
another assignment, replicas leave the ISR before they are deleted, and the topic znode forgets them last.
"""

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.election import Reassign
from controllerd.core.model import BrokerId, PartitionState, ReplicaAssignment, ReplicaState, TopicPartition
from controllerd.core.reassignment import may_complete
from controllerd.core.records import PartitionRecord
from controllerd.machines.outbox import SLICE, Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.passes import by_broker, paced
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.assignment_writes import Assignments, AssignmentWrites, Images
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.machines.reassignment.unfinished import Unfinished
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.machines.state_changes import EpochBump
from controllerd.pace import sliced
from controllerd.ports import AuditLog, StateStore
from controllerd.record.records import MAX_ROWS, AlarmRecord, ReassignmentRecord
from controllerd.results import Conflict, Written

log = structlog.get_logger(__name__)

Those = Sequence[PartitionRecord]
ByBroker = Mapping[BrokerId, Collection[TopicPartition]]


class ReassignmentPhases:
    """Carries the steps out. Each is one pass over all partitions: one batch of requests, one round of writes."""

    def __init__(
        self,
        context: ControllerContext,
        store: StateStore,
        outbox: Outbox,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        writes: AssignmentWrites,
        requests: ReassignmentRequests,
        debts: PendingReplicaDeletions,
        audit: AuditLog,
        unfinished: Unfinished,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._partitions = partitions
        self._replicas = replicas
        self._writes = writes
        self._requests = requests
        self._pending_deletions = debts
        self._audit = audit
        self._unfinished = unfinished

    def record(self, step: str, partitions: Iterable[TopicPartition]) -> None:
        """Write down how far these are."""
        rows = list(partitions)
        for part in sliced(rows, MAX_ROWS):
            topics, numbers = [tp.topic for tp in part], [tp.partition for tp in part]
            self._audit.record(ReassignmentRecord(step, topics, numbers))
        if rows:
            log.info("reassignment", step=step, partitions=len(rows), first=str(rows[0]))

    # -- replicas that go ----------------------------------------------------------------------------------------------

    async def stop(self, gone: ByBroker, *, hand_over: bool = False) -> None:
        """Take replicas out of their ISRs, stop them and have them deleted. What brokers owe is written already.

        One that cannot be taken out of its ISR is neither stopped nor deleted, one that is gone already is left alone.
        """
        gone = {broker: await self._there(broker, those) for broker, those in gone.items()}
        if hand_over:
            await self._replicas.stop_handing_over(gone)
        else:
            await self._replicas.handle_on(gone, ReplicaState.OFFLINE)
        stopped = {broker: await self._out_of_isr(broker, those) for broker, those in gone.items()}
        for state in (ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT):
            await self._replicas.handle_on(stopped, state)

    async def _there(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions whose replica on the broker was ever begun and is not deleted yet."""
        record_of, pace, gone = self._context.record, self._outbox.pace, ReplicaState.NON_EXISTENT
        return [tp async for tp in paced(partitions, pace) if record_of(tp).replica_states[broker] is not gone]

    async def _out_of_isr(self, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """The partitions whose replica on the broker is offline and in no ISR."""
        record_of, pace = self._context.record, self._outbox.pace
        offline = await self._those(ReplicaState.OFFLINE, broker, partitions)
        return [tp async for tp in paced(offline, pace) if not _is_in_isr(record_of(tp), (broker,))]

    async def _those(
        self, state: ReplicaState, broker: BrokerId, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """The partitions whose replica on the broker is in this state."""
        record_of, pace = self._context.record, self._outbox.pace
        return [tp async for tp in paced(partitions, pace) if record_of(tp).replica_states[broker] is state]

    # -- phase A -------------------------------------------------------------------------------------------------------

    async def bring_up(self, records: Those) -> None:
        """Tell the leaders whom to wait for, and the new replicas to begin. Then the ISRs grow by themselves."""
        led = [record for record in records if record.leadership is not None]
        async with self._outbox.batch() as batch:
            bumped = await self._bump(led)
            for part in sliced(bumped, SLICE):
                batch.add_leaderships([(each, each.assignment.origin) for each in part], is_new=False)
                batch.add_leaderships([(each, each.assignment.adding) for each in part], is_new=True)
                await self._outbox.pace.breathe()
        adding = await by_broker((each.tp, each.assignment.adding) async for each in paced(records, self._outbox.pace))
        fresh = {broker: await self._those(ReplicaState.NON_EXISTENT, broker, on) for broker, on in adding.items()}
        await self._replicas.handle_on(fresh, ReplicaState.NEW)
        if len(bumped) < len(led):
            await self._try_again({record.tp for record in led} - {record.tp for record in bumped})

    async def _try_again(self, partitions: Collection[TopicPartition]) -> None:
        """ZooKeeper refused something of these. Whatever is in quarantine is looked at anyway."""
        quarantine, those = self._context.quarantine, paced(partitions, self._outbox.pace)
        self._unfinished.note([tp async for tp in those if tp.state_path not in quarantine])

    async def _bump(self, records: Those) -> Those:
        return await EpochBump(self._context, self._store, self._audit, self._outbox.pace).run(records)

    # -- phase B -------------------------------------------------------------------------------------------------------

    async def complete(self, records: Those) -> list[TopicPartition]:
        """Let the old replicas go; returns what is complete now.

        What somebody else changed in its topic znode is left to the event that this caused, and what nobody understands
        to whoever mends it: the replicas that go are gone before the znode says so.
        """
        pace, is_as_known = self._outbox.pace, self._writes.is_as_known
        images = await self._writes.read([record.tp for record in records])
        those: Those = [each async for each in paced(records, pace) if is_as_known(images, each)]
        before = {record.tp: record.assignment for record in those}
        self.record("completing", before)
        adding = await by_broker((tp, assignment.adding) async for tp, assignment in paced(before.items(), pace))
        await self._replicas.handle_on(adding, ReplicaState.ONLINE)
        async for record in paced(those, pace):
            self._context.set_assignment(record.tp, ReplicaAssignment(record.assignment.target))
        led = await self._lead_from_targets(those)
        those, held = await self._split(those, before, lambda each: not self._is_in_hands_of_target(each, led))
        removing = await by_broker((each.tp, before[each.tp].removing) async for each in paced(those, pace))
        await self._pending_deletions.add(removing)
        await self.stop(removing)
        those, kept = await self._split(those, before, lambda each: _is_in_isr(each, before[each.tp].removing))
        done = await self._end(await self._finalise(those, images, before), those)
        await self._go_on_waiting([*held, *kept], before)
        return done

    async def _end(self, records: Those, ended: Those) -> list[TopicPartition]:
        """Everybody learns who has these now, and nobody asks for them any more.

        Nor for those that somebody else changed or deleted at the last moment: what was asked for them was done.
        """
        over = [each async for each in paced(ended, self._outbox.pace) if not each.assignment.is_being_reassigned]
        if over:
            await self._requests.finish({record.tp: record.assignment.replicas for record in over})
        if not records:
            return []
        await self._outbox.update_metadata_of(self._context.live_or_shutting_down, records)
        done = [record.tp for record in records]
        self.record("completed", done)
        return done

    async def _lead_from_targets(self, records: Those) -> set[TopicPartition]:
        """A leader of the target goes on with a new leader epoch; elsewhere one of the target is elected.

        Returns the partitions of which that was written.
        """
        online, pace = self._context.liveness.online, self._outbox.pace
        staying: list[PartitionRecord] = []
        others: list[TopicPartition] = []
        async for record in paced(records, pace):
            if record.leadership is not None and record.leadership.leader in online(record):
                staying.append(record)
            elif record.leadership is not None:
                others.append(record.tp)
        async with self._outbox.batch() as batch:
            bumped = await self._bump(staying)
            for part in sliced(bumped, SLICE):
                batch.add_leaderships([(each, each.assignment.replicas) for each in part], is_new=False)
                await pace.breathe()
        elections = await self._partitions.handle(others, PartitionState.ONLINE, Reassign())
        return {*(record.tp for record in bumped), *elections.elected}

    def _is_in_hands_of_target(self, record: PartitionRecord, led: Container[TopicPartition]) -> bool:
        """Whether one of the replicas that stay leads since just now and is online, and all of them are in sync."""
        leadership, replicas = record.leadership, record.assignment.replicas
        if record.tp not in led or leadership is None:
            return False
        if leadership.leader not in self._context.liveness.online(record):
            return False
        return set(replicas) <= set(leadership.isr)

    async def _split(
        self, those: Those, before: Assignments, must_wait: Callable[[PartitionRecord], bool]
    ) -> tuple[Those, Those]:
        """Those that can go on, and those that cannot. Where nothing is removed, nothing is lost by going on."""
        pace = self._outbox.pace
        held = {each.tp async for each in paced(those, pace) if must_wait(each) and before[each.tp].is_being_reassigned}
        if not held:
            return those, []
        return [each for each in those if each.tp not in held], [each for each in those if each.tp in held]

    async def _go_on_waiting(self, held: Those, before: Assignments) -> None:
        """These stay as the topic znode has them, to be tried again. Brokers may have been told that all is over."""
        if not held:
            return
        log.warning("reassignments wait", partitions=len(held), first=str(held[0].tp))
        for record in held:
            self._context.set_assignment(record.tp, before[record.tp])
        await self.bring_up(held)
        online, those = self._context.liveness.online, paced(held, self._outbox.pace)
        await self._try_again(
            {
                each.tp
                async for each in those
                if each.leadership is not None and may_complete(each.assignment, each.leadership.isr, online(each))
            }
        )

    async def _finalise(self, records: Those, images: Images, before: Assignments) -> Those:
        """The topic znodes forget the old replicas; returns the partitions for which that was written.

        An entry that somebody else changed meanwhile is not written over: the event that this caused begins with what
        is true by now, that only the target has replicas.
        """
        pending = {record.tp: record.assignment for record in records}
        done: set[TopicPartition] = set()
        refused: dict[str, str] = {}
        while pending:
            results = await self._writes.write(images, pending)
            async for tp, result in paced(results.items(), self._outbox.pace):
                if isinstance(result, Written):
                    done.add(tp)
                elif not isinstance(result, Conflict):
                    refused[tp.topic] = result.reason
                    self._context.set_assignment(tp, before[tp])
            lost = [tp for tp, result in results.items() if isinstance(result, Conflict)]
            images = await self._writes.read(lost) if lost else {}
            entries = {tp: images[tp.topic].assignments.get(tp.partition) for tp in lost if tp.topic in images}
            pending = {tp: pending[tp] for tp, entry in entries.items() if entry in (before[tp], pending[tp])}
        for topic, reason in refused.items():
            self._audit.record(AlarmRecord("topic znode was not written", f"{topic}: {reason}"))
        await self._try_again({record.tp for record in records if record.tp.topic in refused})
        return [record for record in records if record.tp in done]


def _is_in_isr(record: PartitionRecord, brokers: Iterable[BrokerId]) -> bool:
    """Whether one of these brokers is still in the ISR."""
    return record.leadership is not None and not set(brokers).isdisjoint(record.leadership.isr)
