"""Reassignments, many at a time: begun, changed, cancelled, resumed, completed (KIP-455).

The topic znode is the only truth: who wants something changes it first, and everything else follows from what it says,
in this term or in the next one.
"""

from collections.abc import Iterable, Mapping, Sequence

from controllerd.core.context import ControllerContext
from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import Offline
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import (
    OUR_IDS,
    BrokerId,
    PartitionState,
    ReplicaState,
    TopicPartition,
)
from controllerd.core.reassignment import cancelled, may_complete, reassign_to
from controllerd.core.records import PartitionRecord
from controllerd.machines.outbox import Outbox
from controllerd.machines.partitions import PartitionStateMachine
from controllerd.machines.passes import by_broker, paced
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.assignment_writes import Assignments, AssignmentWrites, Images
from controllerd.machines.reassignment.foreign_changes import ForeignChanges
from controllerd.machines.reassignment.moves import Move, loss_by
from controllerd.machines.reassignment.phases import ReassignmentPhases
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.machines.reassignment.unassigned_isr_members import UnassignedIsrMembers
from controllerd.machines.reassignment.unfinished import Unfinished
from controllerd.machines.refusals import refuse
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.ports import AuditLog, MetadataStore
from controllerd.results import Conflict, WriteResult, Written

Wish = tuple[BrokerId, ...] | None
"""The replicas that a partition is to have; None: those from before its reassignment."""
Answers = dict[TopicPartition, KafkaError]
Refused = dict[TopicPartition, tuple[KafkaError, str]]


class Reassigner:
    """Carries reassignments out against ZooKeeper and tells the brokers."""

    def __init__(
        self,
        context: ControllerContext,
        store: MetadataStore,
        outbox: Outbox,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        audit: AuditLog,
        debts: PendingReplicaDeletions,
    ) -> None:
        self._context = context
        self._store = store
        self._outbox = outbox
        self._partitions = partitions
        self._replicas = replicas
        self._audit = audit
        self._pending_deletions = debts
        self._writes = AssignmentWrites(context, store, outbox.pace)
        self.unfinished = Unfinished()
        """What ZooKeeper refused to write; ``retry`` goes on with it."""
        self.requests = ReassignmentRequests(context, store, audit, outbox.pace, self.unfinished)
        """``/admin/reassign_partitions``."""
        self._phases = ReassignmentPhases(
            context, store, outbox, partitions, replicas, self._writes, self.requests, debts, audit, self.unfinished
        )
        self._pace = outbox.pace
        self._unassigned_isr_members = UnassignedIsrMembers(context, store, outbox, audit, self.unfinished)
        self._foreign = ForeignChanges(context, replicas, self._phases, self.requests, debts, audit, self._pace)
        self._grown: set[TopicPartition] = set()
        self._completed: set[str] = set()

    # -- wishes --------------------------------------------------------------------------------------------------------

    async def run(self, wanted: Mapping[TopicPartition, Wish]) -> Mapping[TopicPartition, KafkaError]:
        """Begin, change or cancel reassignments; NONE means accepted, not finished.

        A topic znode is written once for all its partitions; one that lost the race is read and decided on anew.
        """
        refused: Refused = {}
        moves: list[Move] = []
        remaining = dict(wanted)
        while remaining:
            images = await self._writes.read(remaining)
            await self.adopt(await self._writes.foreign(images, remaining))
            planned = await self._plan(remaining, images, refused)
            lost = await self._begin(planned, wanted, images, refused)
            begun = paced(planned.items(), self._pace)
            moves += [move async for tp, move in begun if tp not in lost and tp not in refused]
            remaining = {tp: wanted[tp] for tp in lost}
        refuse(self._audit, "reassignment", ((tp, reason) for tp, (_, reason) in refused.items()))
        await self._carry_on(moves)
        return {tp: refused[tp][0] if tp in refused else KafkaError.NONE for tp in wanted}

    async def _plan(
        self, wanted: Mapping[TopicPartition, Wish], images: Images, refused: Refused
    ) -> dict[TopicPartition, Move]:
        planned: dict[TopicPartition, Move] = {}
        find = self._context.find
        await self._refresh([record async for tp in paced(wanted, self._pace) if (record := find(tp)) is not None])
        async for tp, wish in paced(wanted.items(), self._pace):
            move = self._move(tp, wish, images)
            if isinstance(move, Move):
                planned[tp] = move
            else:
                refused[tp] = move
        return planned

    def _move(self, tp: TopicPartition, wish: Wish, images: Images) -> Move | tuple[KafkaError, str]:
        """What becomes of a partition, or why not."""
        record, topic = self._context.find(tp), f"/brokers/topics/{tp.topic}"
        if (reason := self._quarantine(topic, f"{topic}/partitions/{tp.partition}")) is not None:
            return KafkaError.UNKNOWN_SERVER_ERROR, reason
        if record is None or tp.topic not in images or tp.partition not in images[tp.topic].assignments:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
        before = record.assignment
        if images[tp.topic].assignments[tp.partition] != before:
            return KafkaError.UNKNOWN_SERVER_ERROR, "somebody else changed its assignment into what cannot be followed"
        after = cancelled(before) if wish is None else reassign_to(before, wish)
        move = Move(record, before, after)
        if move.dropped and (reason := self._quarantine(tp.state_path)) is not None:
            return KafkaError.UNKNOWN_SERVER_ERROR, reason  # nobody knows who is in sync
        loss = loss_by(self._context, record, move.dropped, after)
        return move if loss is None else (KafkaError.INVALID_REPLICA_ASSIGNMENT, loss)

    def _quarantine(self, *paths: str) -> str | None:
        quarantine = self._context.quarantine
        found = (f"in quarantine: {quarantine[path]}" for path in paths if path in quarantine)
        return next(found, None) if quarantine else None

    async def _begin(
        self,
        planned: Mapping[TopicPartition, Move],
        wanted: Mapping[TopicPartition, Wish],
        images: Images,
        refused: Refused,
    ) -> set[TopicPartition]:
        """Write what changes; returns the partitions whose topic was changed by somebody else meanwhile.

        What was written is in the audit log before anything else can fail, for nobody undoes it.
        """
        changing = [move async for move in paced(planned.values(), self._pace) if move.after != move.before]
        going = await by_broker((each.record.tp, each.dropped) async for each in paced(changing, self._pace))
        await self._pending_deletions.add(going)
        results = await self._writes.write(images, {move.record.tp: move.after for move in changing})
        those = paced(planned.values(), self._pace)
        await self._record_steps([each async for each in those if _is_in_zookeeper(each, results)], wanted)
        lost: set[TopicPartition] = set()
        async for move in paced(changing, self._pace):
            if isinstance(self._take(move, results[move.record.tp], refused), Conflict):
                lost.add(move.record.tp)
        failed = lost | refused.keys()
        if failed:
            await self._pending_deletions.clear_all(
                {broker: failed.intersection(those) for broker, those in going.items()}
            )
        await self._forgive([move for move in changing if move.record.tp not in failed])
        return lost

    async def _forgive(self, moves: Sequence[Move]) -> None:
        """Who is to have a replica need not delete it any more, but may do so still."""
        if self._context.pending_deletions.brokers():
            adding = (((move.record.tp, move.after.adding)) async for move in paced(moves, self._pace))
            await self._pending_deletions.waive(await by_broker(adding))

    def _take(self, move: Move, result: WriteResult, refused: Refused) -> WriteResult:
        if isinstance(result, Written):
            self._context.set_assignment(move.record.tp, move.after)
        elif not isinstance(result, Conflict):
            reason = f"the topic znode was not written: {result.reason}"
            refused[move.record.tp] = KafkaError.UNKNOWN_SERVER_ERROR, reason
        return result

    async def _record_steps(self, moves: Sequence[Move], wanted: Mapping[TopicPartition, Wish]) -> None:
        steps: dict[str, list[TopicPartition]] = {}
        async for move in paced(moves, self._pace):
            step = "begun"
            if wanted[move.record.tp] is None:
                step = "cancelled"
            elif move.before.is_being_reassigned:
                step = "resumed" if move.after == move.before else "overridden"
            steps.setdefault(step, []).append(move.record.tp)
        for step, partitions in steps.items():
            self._phases.record(step, partitions)

    async def _carry_on(self, moves: Sequence[Move]) -> None:
        """Stop what was dropped; a leader that goes hands over before (KAFKA-14808)."""
        gone = await by_broker((move.record.tp, move.dropped) async for move in paced(moves, self._pace))
        await self._phases.stop(gone, hand_over=True)
        records = [move.record for move in moves]
        await self._unassigned_isr_members.note(records)
        await self._proceed(records)

    # -- going on ------------------------------------------------------------------------------------------------------

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with reassignments: tell everybody again what is to be done, and complete those that can."""
        records = await self._under_way(partitions)
        self._phases.record("resumed", [record.tp for record in records])
        await self._refresh(records)
        await self._proceed(records)

    def note_grown(self, partitions: Iterable[TopicPartition]) -> bool:
        """The ISRs of these reassigning partitions grew; whether somebody must call ``complete_those_ready`` for it.

        The next call looks at all that were noted until then: the partitions of one topic, which catch up one after the
        other, are completed by few writes.
        """
        is_first = not self._grown
        self._grown.update(partitions)
        return is_first

    def may_soon_complete(self, tp: TopicPartition) -> bool:
        """Whether ``complete_those_ready`` is about to look at the partition."""
        return tp in self._grown

    def begin_term(self) -> None:
        """What was noted in an earlier term means nothing."""
        self._grown.clear()
        self._completed.clear()
        self.unfinished.forget()
        self._foreign.begin_term()

    async def retry(self) -> None:
        """Try again what ZooKeeper refused to write a while ago."""
        partitions = self.unfinished.take()
        await self.requests.strike_again()
        find = self._context.find
        await self._unassigned_isr_members.remove([record for tp in partitions if (record := find(tp)) is not None])
        await self.resume(partitions)

    async def complete_those_ready(self, partitions: Iterable[TopicPartition]) -> None:
        """Finish those of these partitions, and of those that were noted, whose target replicas are all in the ISR."""
        looked_at = self._grown.union(partitions)
        self._grown.clear()
        records = await self._under_way(sorted(looked_at))
        await self._refresh(records)
        ready = await self._ready(records)
        if ready:
            await self._complete(ready)

    async def _under_way(self, partitions: Iterable[TopicPartition]) -> list[PartitionRecord]:
        """Those that are being reassigned, and not deleted already."""
        deleted, being_reassigned = self._context.deletions.started, self._context.being_reassigned
        those, record = paced(partitions, self._pace), self._context.record
        return [record(tp) async for tp in those if tp in being_reassigned and tp.topic not in deleted]

    async def _ready(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        return [record async for record in paced(records, self._pace) if self._may_complete(record)]

    async def _proceed(self, records: Sequence[PartitionRecord]) -> None:
        waiting = [record async for record in paced(records, self._pace) if not self._may_complete(record)]
        if waiting:
            await self._phases.bring_up(waiting)
            await self._bring_online(waiting)
        ready = await self._ready(records)
        if ready:
            await self._complete(ready)

    async def _bring_online(self, records: Iterable[PartitionRecord]) -> None:
        """A partition that never began, because none of its replicas was live, may begin, as any new one does."""
        hidden = hidden_topics(self._context)
        new = [each for each in records if each.state is PartitionState.NEW and each.tp.topic not in hidden]
        fresh = await by_broker((record.tp, _never_begun(record)) async for record in paced(new, self._pace))
        await self._replicas.handle_on(fresh, ReplicaState.NEW)
        await self._partitions.handle([record.tp for record in new], PartitionState.ONLINE, Offline())
        await self._replicas.handle_on(fresh, ReplicaState.ONLINE)

    def _may_complete(self, record: PartitionRecord) -> bool:
        if self._quarantine(record.tp.state_path) is not None:
            return False  # nobody knows who is in sync; who finds it mended looks at it again
        isr = record.leadership.isr if record.leadership is not None else ()
        return may_complete(record.assignment, isr, self._context.liveness.online(record))

    async def _complete(self, records: Sequence[PartitionRecord]) -> None:
        done = await self._phases.complete(records)
        self._completed.update(tp.topic for tp in done)

    def take_completed(self) -> set[str]:
        """The topics of which reassignments were completed since the last call."""
        taken, self._completed = self._completed, set()
        return taken

    async def _refresh(self, records: Sequence[PartitionRecord]) -> None:
        """Where leaders write their ISRs themselves: read them, and be told of the next change."""
        if self._context.features.alter_partition or not records:
            return
        read = await self._store.watch_states([record.tp for record in records])
        for bad in read.broken.values():
            self._context.put_in_quarantine(bad.path, bad.reason)
        epoch, record_of = self._context.epoch, self._context.record
        usable = {tp: state for tp, state in read.states.items() if state.controller_epoch <= epoch}
        self._context.set_leaderships((record_of(tp), state) for tp, state in usable.items())

    # -- what others did -----------------------------------------------------------------------------------------------

    async def adopt(self, found: Assignments) -> None:
        """Somebody else changed these assignments in their topic znodes: follow, and go on from there."""
        records = [move.record for move in await self._foreign.follow(found)]
        await self._unassigned_isr_members.note(records)
        await self._proceed(records)

    async def remove_unassigned_isr_members(self) -> None:
        """Take those out of ISRs that have no replica: a controller ended between an assignment and its effects."""
        await self._unassigned_isr_members.remove(self._context.records())


def _is_in_zookeeper(move: Move, results: Mapping[TopicPartition, WriteResult]) -> bool:
    """Whether the topic znode says what the partition is to have: since these writes, or already before them."""
    return move.after == move.before or isinstance(results[move.record.tp], Written)


def _never_begun(record: PartitionRecord) -> list[BrokerId]:
    """The replicas that nothing was ever heard of; controllerd has none."""
    states = record.replica_states
    return [
        broker
        for broker in record.assignment.replicas
        if broker not in OUR_IDS and states[broker] is ReplicaState.NON_EXISTENT
    ]
