"""Begins, changes, cancels, resumes and completes reassignments, many at a time (KIP-455).

The topic znode is the only source of truth. A request changes the znode first. Every later step is derived from the
assignment in the znode, by this controller or by the next one.
"""

from collections.abc import Iterable, Mapping, Sequence

from controllerd.core.deletion_waits import hidden_topics
from controllerd.core.election import OfflineElection
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
from controllerd.machines.reassignment.assignment_writes import Assignments, AssignmentWrites, Images, Move, loss_by
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.machines.reassignment.foreign_changes import ForeignChanges
from controllerd.machines.reassignment.phases import ReassignmentPhases
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.machines.reassignment.unassigned_isr_members import UnassignedIsrMembers
from controllerd.machines.recorded import record_refusals
from controllerd.ports.results import Conflict, WriteResult, Written
from controllerd.slicer import by_broker

RequestedReplicas = tuple[BrokerId, ...] | None
"""The replicas that a partition is to have; None cancels its reassignment."""
Answers = dict[TopicPartition, KafkaError]
Refused = dict[TopicPartition, tuple[KafkaError, str]]


class Reassigner:
    """Carries reassignments out in ZooKeeper, and sends the outcome to the brokers."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self.unfinished = deps.unfinished
        """The work that ZooKeeper refused to write; ``retry`` goes on with it."""
        self.requests = ReassignmentRequests(deps)
        """``/admin/reassign_partitions``."""
        self._writes = AssignmentWrites(deps)
        self._phases = ReassignmentPhases(deps, self._writes, self.requests)
        self._unassigned_isr_members = UnassignedIsrMembers(deps)
        self._foreign = ForeignChanges(deps, self._phases, self.requests)
        self._grown: set[TopicPartition] = set()
        """Reassigning partitions whose ISR grew; the next ``complete_ready`` covers them."""
        self._topics_completed: set[str] = set()

    # -- requests ------------------------------------------------------------------------------------------------------

    async def run(self, wanted: Mapping[TopicPartition, RequestedReplicas]) -> Mapping[TopicPartition, KafkaError]:
        """Begin, change or cancel reassignments; NONE means accepted, not finished.

        A topic znode is written once for all its partitions. If another writer changes the znode meanwhile, it is read
        again, and the moves of its partitions are planned again.
        """
        refused: Refused = {}
        moves: list[Move] = []
        remaining = dict(wanted)
        while remaining:
            images = await self._writes.read(remaining)
            # Changes by other writers are followed first, so that each move begins with the assignment of the znode.
            await self.adopt(await self._writes.foreign(images, remaining))
            planned = await self._plan(remaining, images, refused)
            lost = await self._begin(planned, wanted, images, refused)
            begun = self._deps.slicer.each(planned.items())
            moves += [move async for tp, move in begun if tp not in lost and tp not in refused]
            remaining = {tp: wanted[tp] for tp in lost}
        record_refusals(self._deps.audit, "reassignment", ((tp, reason) for tp, (_, reason) in refused.items()))
        await self._stop_dropped_and_proceed(moves)
        return {tp: refused[tp][0] if tp in refused else KafkaError.NONE for tp in wanted}

    async def _plan(
        self, wanted: Mapping[TopicPartition, RequestedReplicas], images: Images, refused: Refused
    ) -> dict[TopicPartition, Move]:
        planned: dict[TopicPartition, Move] = {}
        find = self._deps.context.find
        await self._refresh([record async for tp in self._deps.slicer.each(wanted) if (record := find(tp)) is not None])
        async for tp, requested in self._deps.slicer.each(wanted.items()):
            move = self._move(tp, requested, images)
            if isinstance(move, Move):
                planned[tp] = move
            else:
                refused[tp] = move
        return planned

    def _move(self, tp: TopicPartition, requested: RequestedReplicas, images: Images) -> Move | tuple[KafkaError, str]:
        """The change of assignment that a request means for a partition, or why the request is refused."""
        record, topic = self._deps.context.find(tp), f"/brokers/topics/{tp.topic}"
        if (reason := self._quarantine(topic, f"{topic}/partitions/{tp.partition}")) is not None:
            return KafkaError.UNKNOWN_SERVER_ERROR, reason
        if record is None or tp.topic not in images or tp.partition not in images[tp.topic].assignments:
            return KafkaError.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
        before = record.assignment
        if images[tp.topic].assignments[tp.partition] != before:
            return KafkaError.UNKNOWN_SERVER_ERROR, "another writer gave it an assignment that cannot be followed"
        after = cancelled(before) if requested is None else reassign_to(before, requested)
        move = Move(record, before, after)
        if move.dropped and (reason := self._quarantine(tp.state_path)) is not None:
            return KafkaError.UNKNOWN_SERVER_ERROR, reason  # the ISR is unknown
        loss = loss_by(self._deps.context, record, move.dropped, after)
        return move if loss is None else (KafkaError.INVALID_REPLICA_ASSIGNMENT, loss)

    def _quarantine(self, *paths: str) -> str | None:
        quarantine = self._deps.context.quarantine
        found = (f"in quarantine: {quarantine[path]}" for path in paths if path in quarantine)
        return next(found, None) if quarantine else None

    async def _begin(
        self,
        planned: Mapping[TopicPartition, Move],
        wanted: Mapping[TopicPartition, RequestedReplicas],
        images: Images,
        refused: Refused,
    ) -> set[TopicPartition]:
        """Make deletions pending, then write the new assignments.

        Returns the partitions whose topic another writer changed meanwhile. The steps are recorded before anything else
        can fail, because nothing undoes the write.
        """
        changing = [move async for move in self._deps.slicer.each(planned.values()) if move.after != move.before]
        dropped = await by_broker((each.record.tp, each.dropped) async for each in self._deps.slicer.each(changing))
        await self._deps.pending_deletions.add(dropped)
        results = await self._writes.write(images, {move.record.tp: move.after for move in changing})
        moves = self._deps.slicer.each(planned.values())
        await self._record_steps([move async for move in moves if _is_in_zookeeper(move, results)], wanted)
        lost: set[TopicPartition] = set()
        async for move in self._deps.slicer.each(changing):
            result = results[move.record.tp]
            self._apply_result(move, result, refused)
            if isinstance(result, Conflict):
                lost.add(move.record.tp)
        failed = lost | refused.keys()
        if failed:
            await self._deps.pending_deletions.clear_all(
                {broker: failed.intersection(partitions) for broker, partitions in dropped.items()}
            )
        await self._waive_pending_deletions([move for move in changing if move.record.tp not in failed])
        return lost

    async def _waive_pending_deletions(self, moves: Sequence[Move]) -> None:
        """Waive the pending deletions of replicas that are being added; their brokers may delete the data still."""
        if self._deps.context.pending_deletions.brokers():
            adding = (((move.record.tp, move.after.adding)) async for move in self._deps.slicer.each(moves))
            await self._deps.pending_deletions.waive(await by_broker(adding))

    def _apply_result(self, move: Move, result: WriteResult, refused: Refused) -> None:
        """Put a written assignment into the context, and a failed write among the refusals."""
        if isinstance(result, Written):
            self._deps.context.set_assignment(move.record.tp, move.after)
        elif not isinstance(result, Conflict):
            reason = f"the topic znode was not written: {result.reason}"
            refused[move.record.tp] = KafkaError.UNKNOWN_SERVER_ERROR, reason

    async def _record_steps(self, moves: Sequence[Move], wanted: Mapping[TopicPartition, RequestedReplicas]) -> None:
        steps: dict[str, list[TopicPartition]] = {}
        async for move in self._deps.slicer.each(moves):
            step = "begun"
            if wanted[move.record.tp] is None:
                step = "cancelled"
            elif move.before.is_being_reassigned:
                step = "resumed" if move.after == move.before else "overridden"
            steps.setdefault(step, []).append(move.record.tp)
        for step, partitions in steps.items():
            self._phases.record(step, partitions)

    async def _stop_dropped_and_proceed(self, moves: Sequence[Move]) -> None:
        """Stop the replicas that these moves drop, then go on with the reassignments.

        A dropped replica that leads is stopped after its successor is chosen (KAFKA-14808).
        """
        gone = await by_broker((move.record.tp, move.dropped) async for move in self._deps.slicer.each(moves))
        await self._phases.stop(gone, hand_over=True)
        records = [move.record for move in moves]
        await self._unassigned_isr_members.note(records)
        await self._proceed(records)

    # -- going on ------------------------------------------------------------------------------------------------------

    async def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with reassignments: send every broker its part again, and complete the partitions that are ready."""
        records = await self._under_way(partitions)
        self._phases.record("resumed", [record.tp for record in records])
        await self._refresh(records)
        await self._proceed(records)

    def note_grown(self, partitions: Iterable[TopicPartition]) -> bool:
        """Note that the ISRs of these reassigning partitions grew.

        Returns whether the caller has to schedule a call of ``complete_ready``: only the first note needs one. That
        call covers every partition that was noted until then. So the partitions of one topic, which catch up one after
        the other, are completed by few writes.
        """
        is_first = not self._grown
        self._grown.update(partitions)
        return is_first

    def may_soon_complete(self, tp: TopicPartition) -> bool:
        """Whether the next ``complete_ready`` covers the partition."""
        return tp in self._grown

    def begin_term(self) -> None:
        """Forget what an earlier term noted."""
        self._grown.clear()
        self._topics_completed.clear()
        self.unfinished.forget()
        self._foreign.begin_term()

    async def retry(self) -> None:
        """Try again the writes that ZooKeeper refused a while ago."""
        partitions = self.unfinished.take()
        await self.requests.retry()
        find = self._deps.context.find
        await self._unassigned_isr_members.remove([record for tp in partitions if (record := find(tp)) is not None])
        await self.resume(partitions)

    async def complete_ready(self, partitions: Iterable[TopicPartition]) -> None:
        """Complete the partitions, among these and the noted ones, that may complete (``may_complete``)."""
        looked_at = self._grown.union(partitions)
        self._grown.clear()
        records = await self._under_way(sorted(looked_at))
        await self._refresh(records)
        ready = await self._ready(records)
        if ready:
            await self._complete(ready)

    async def _under_way(self, partitions: Iterable[TopicPartition]) -> list[PartitionRecord]:
        """Return those of the partitions that are being reassigned and whose topic deletion has not begun."""
        deleted, being_reassigned = self._deps.context.deletions.started, self._deps.context.being_reassigned
        known, record = self._deps.slicer.each(partitions), self._deps.context.record
        return [record(tp) async for tp in known if tp in being_reassigned and tp.topic not in deleted]

    async def _ready(self, records: Sequence[PartitionRecord]) -> list[PartitionRecord]:
        return [record async for record in self._deps.slicer.each(records) if self._may_complete(record)]

    async def _proceed(self, records: Sequence[PartitionRecord]) -> None:
        waiting = [record async for record in self._deps.slicer.each(records) if not self._may_complete(record)]
        if waiting:
            await self._phases.bring_up(waiting)
            await self._bring_online(waiting)
        # Evaluated again: a partition that has just been brought online may be complete at once.
        ready = await self._ready(records)
        if ready:
            await self._complete(ready)

    async def _bring_online(self, records: Iterable[PartitionRecord]) -> None:
        """Start those of the partitions that are still New, because none of their replicas was live before.

        They start as any new partition does.
        """
        hidden = hidden_topics(self._deps.context)
        new = [each for each in records if each.state is PartitionState.NEW and each.tp.topic not in hidden]
        fresh = await by_broker((record.tp, _never_begun(record)) async for record in self._deps.slicer.each(new))
        await self._deps.replicas.handle_on(fresh, ReplicaState.NEW)
        await self._deps.partitions.handle([record.tp for record in new], PartitionState.ONLINE, OfflineElection())
        await self._deps.replicas.handle_on(fresh, ReplicaState.ONLINE)

    def _may_complete(self, record: PartitionRecord) -> bool:
        if self._quarantine(record.tp.state_path) is not None:
            return False  # the ISR is unknown; the quarantine check looks again once the znode is repaired
        isr = record.leadership.isr if record.leadership is not None else ()
        return may_complete(record.assignment, isr, self._deps.context.liveness.online(record))

    async def _complete(self, records: Sequence[PartitionRecord]) -> None:
        done = await self._phases.complete(records)
        self._topics_completed.update(tp.topic for tp in done)

    def take_completed(self) -> set[str]:
        """The topics of which reassignments were completed since the last call."""
        taken, self._topics_completed = self._topics_completed, set()
        return taken

    async def _refresh(self, records: Sequence[PartitionRecord]) -> None:
        """Read the ISRs and watch them, where leaders write them themselves (before 2.7-IV2)."""
        if self._deps.context.features.alter_partition or not records:
            return
        read = await self._deps.store.states.watch_states([record.tp for record in records])
        for bad in read.broken.values():
            self._deps.context.put_in_quarantine(bad.path, bad.reason)
        epoch, record_of = self._deps.context.epoch, self._deps.context.record
        # A later controller wrote the other states; this controller is about to learn that it was replaced.
        usable = {tp: state for tp, state in read.states.items() if state.controller_epoch <= epoch}
        self._deps.context.set_leaderships((record_of(tp), state) for tp, state in usable.items())

    # -- changes by other writers --------------------------------------------------------------------------------------

    async def adopt(self, found: Assignments) -> None:
        """Follow assignments that another writer changed in their topic znodes, and go on from there."""
        records = [move.record for move in await self._foreign.follow(found)]
        await self._unassigned_isr_members.note(records)
        await self._proceed(records)

    async def remove_unassigned_isr_members(self) -> None:
        """Remove ISR members that are not assigned (``unassigned_isr_members.py``)."""
        await self._unassigned_isr_members.remove(self._deps.context.records())


def _is_in_zookeeper(move: Move, results: Mapping[TopicPartition, WriteResult]) -> bool:
    """Whether the topic znode has the assignment of the move, by these writes or from before."""
    return move.after == move.before or isinstance(results[move.record.tp], Written)


def _never_begun(record: PartitionRecord) -> list[BrokerId]:
    """The replicas that were never started, without ids of controllerd: it has no replica to start."""
    states = record.replica_states
    return [
        broker
        for broker in record.assignment.replicas
        if broker not in OUR_IDS and states[broker] is ReplicaState.NON_EXISTENT
    ]
