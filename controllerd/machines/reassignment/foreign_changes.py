"""Assignments that another writer changed in topic znodes: ZooKeeper is the truth, so the controller follows them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from controllerd.core.model import ReplicaAssignment, ReplicaState, TopicPartition
from controllerd.core.text import counted
from controllerd.machines.reassignment.assignment_writes import Assignments, Move, loss_by
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.machines.reassignment.phases import ReassignmentPhases
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.record.records import AlarmRecord
from controllerd.slicer import by_broker

log = structlog.get_logger(__name__)

Losses = Mapping[TopicPartition, str]

_NAMED: Final = 3
"""Partitions of a topic that an alarm names one by one; a tool may rewrite thousands at once."""


class ForeignChanges:
    """Takes assignments of other writers into the context, and stops and starts the replicas that change with them."""

    def __init__(self, deps: Dependencies, phases: ReassignmentPhases, requests: ReassignmentRequests) -> None:
        self._deps = deps
        self._phases = phases
        self._requests = requests
        self._left_alone: dict[TopicPartition, ReplicaAssignment] = {}
        """Assignments that were not followed. Each is alarmed once, though every read of the znode finds it again."""

    def begin_term(self) -> None:
        """Forget the assignments that an earlier term did not follow, so that this term alarms them again."""
        self._left_alone.clear()

    async def follow(self, found: Assignments) -> list[Move]:
        """Take these assignments into the context; returns the moves that were followed, for the reassigner to go on.

        A replica that was being added and is no longer named is stopped and deleted, as by a cancellation. Any other
        replica that is no longer named is only stopped, because no one asked the controller to delete data. A change
        that would leave no replica in sync is not followed; the partition is put in quarantine.
        """
        losses: dict[TopicPartition, str] = {}
        moves: list[Move] = []
        async for tp, after in self._deps.slicer.each(found.items()):
            move = Move(record := self._deps.context.record(tp), record.assignment, after)
            moves.append(move)
            if (loss := loss_by(self._deps.context, record, move.dropped, after)) is not None:
                losses[tp] = loss
        await self._alarm([move for move in moves if self._left_alone.get(move.record.tp) != move.after], losses)
        self._leave_alone(losses, found)
        return await self._take_over([move for move in moves if move.record.tp not in losses])

    async def _alarm(self, moves: Sequence[Move], losses: Losses) -> None:
        """Write one log line and one alarm for each topic znode, because a tool may rewrite thousands of entries."""
        by_topic: defaultdict[str, list[Move]] = defaultdict(list)
        async for move in self._deps.slicer.each(moves):
            by_topic[move.record.tp.topic].append(move)
        for topic, of_topic in by_topic.items():
            named = "; ".join(f"{move.record.tp}: {move.before} -> {move.after}" for move in of_topic[:_NAMED])
            left = [losses[move.record.tp] for move in of_topic if move.record.tp in losses]
            found = f"{topic}: {counted(len(of_topic), 'partition')}, {len(left)} of them not followed"
            why = f" ({left[0]})" if left else ""
            loss = next(iter(left), None)
            log.error("found assignments changed by another client", changed=found, first=named, loss=loss)
            self._deps.audit.record(AlarmRecord("assignment changed by somebody else", f"{found}{why}; {named}"))

    def _leave_alone(self, losses: Losses, found: Assignments) -> None:
        for tp, loss in losses.items():
            self._left_alone[tp] = found[tp]
            self._deps.context.put_in_quarantine(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}", loss)

    async def _take_over(self, moves: list[Move]) -> list[Move]:
        async for move in self._deps.slicer.each(moves):
            self._left_alone.pop(move.record.tp, None)
            self._deps.context.set_assignment(move.record.tp, move.after)
        await self._end_requests(moves)
        await self._stop_and_start(moves)
        return moves

    async def _end_requests(self, moves: Sequence[Move]) -> None:
        """Remove the requests by znode for reassignments that the other writer ended, so that they do not begin again.

        An entry with another target came later than the reassignment that was under way, and is still to be served.
        """
        overruled = {
            move.record.tp: move.before.target
            async for move in self._deps.slicer.each(moves)
            if move.before.is_being_reassigned and move.after.target != move.before.target
        }
        if overruled:
            await self._requests.finish(overruled)

    async def _stop_and_start(self, moves: Sequence[Move]) -> None:
        slicer = self._deps.slicer
        called_off = await by_broker((move.record.tp, move.called_off) async for move in slicer.each(moves))
        forgotten = await by_broker((move.record.tp, move.forgotten) async for move in slicer.each(moves))
        begun = await by_broker((move.record.tp, move.newcomers) async for move in slicer.each(moves))
        await self._deps.pending_deletions.add(called_off)
        await self._phases.stop(called_off, hand_over=True)
        await self._deps.replicas.stop_handing_over(forgotten)
        # The pending deletions stay: the other writer may undo the edit before the broker has answered.
        for broker, partitions in begun.items():
            self._deps.context.pending_deletions.waive(broker, partitions)
        await self._deps.replicas.handle_on(begun, ReplicaState.NEW)
        await self._deps.replicas.handle_on(begun, ReplicaState.ONLINE)
