"""What others wrote into topic znodes about partitions that we know: ZooKeeper is the truth, so it is followed."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.counted import counted
from controllerd.core.model import ReplicaAssignment, ReplicaState, TopicPartition
from controllerd.machines.passes import by_broker, paced
from controllerd.machines.pending_deletions import PendingReplicaDeletions
from controllerd.machines.reassignment.assignment_writes import Assignments
from controllerd.machines.reassignment.moves import Move, loss_by
from controllerd.machines.reassignment.phases import ReassignmentPhases
from controllerd.machines.reassignment.requests import ReassignmentRequests
from controllerd.machines.replicas import ReplicaStateMachine
from controllerd.pace import Pace
from controllerd.ports import AuditLog
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)

Losses = Mapping[TopicPartition, str]

_NAMED: Final = 3
"""Partitions of a topic that an alarm tells about one by one; a tool may rewrite thousands at once."""


class ForeignChanges:
    """Takes foreign assignments over and stops and starts the replicas that this concerns."""

    def __init__(
        self,
        context: ControllerContext,
        replicas: ReplicaStateMachine,
        phases: ReassignmentPhases,
        requests: ReassignmentRequests,
        debts: PendingReplicaDeletions,
        audit: AuditLog,
        pace: Pace,
    ) -> None:
        self._context = context
        self._replicas = replicas
        self._phases = phases
        self._requests = requests
        self._pending_deletions = debts
        self._audit = audit
        self._pace = pace
        self._left_alone: dict[TopicPartition, ReplicaAssignment] = {}
        """What was not followed, and alarmed: every write of its topic znode brings it up again."""

    def begin_term(self) -> None:
        """What was alarmed in an earlier term is alarmed again."""
        self._left_alone.clear()

    async def follow(self, found: Assignments) -> list[Move]:
        """Take these assignments over; returns those that were, to be gone on with.

        A replica that was being added and is not named any more is stopped and deleted, as by a cancellation; any other
        that is not named is only stopped, for we were not asked to delete data. What would leave nobody in sync is not
        followed but put in quarantine.
        """
        losses: dict[TopicPartition, str] = {}
        moves: list[Move] = []
        async for tp, after in paced(found.items(), self._pace):
            move = Move(record := self._context.record(tp), record.assignment, after)
            moves.append(move)
            if (loss := loss_by(self._context, record, move.dropped, after)) is not None:
                losses[tp] = loss
        await self._alarm([move for move in moves if self._left_alone.get(move.record.tp) != move.after], losses)
        self._leave_alone(losses, found)
        return await self._take_over([move for move in moves if move.record.tp not in losses])

    async def _alarm(self, moves: Sequence[Move], losses: Losses) -> None:
        """One line and one alarm for each topic znode: a tool may rewrite the entries of thousands of partitions."""
        by_topic: defaultdict[str, list[Move]] = defaultdict(list)
        async for move in paced(moves, self._pace):
            by_topic[move.record.tp.topic].append(move)
        for topic, those in by_topic.items():
            named = "; ".join(f"{move.record.tp}: {move.before} -> {move.after}" for move in those[:_NAMED])
            left = [losses[move.record.tp] for move in those if move.record.tp in losses]
            found = f"{topic}: {counted(len(those), 'partition')}, {len(left)} of them not followed"
            why = f" ({left[0]})" if left else ""
            log.error("assignments changed by somebody else", changed=found, first=named, loss=next(iter(left), None))
            self._audit.record(AlarmRecord("assignment changed by somebody else", f"{found}{why}; {named}"))

    def _leave_alone(self, losses: Losses, found: Assignments) -> None:
        for tp, loss in losses.items():
            self._left_alone[tp] = found[tp]
            self._context.put_in_quarantine(f"/brokers/topics/{tp.topic}/partitions/{tp.partition}", loss)

    async def _take_over(self, moves: list[Move]) -> list[Move]:
        async for move in paced(moves, self._pace):
            self._left_alone.pop(move.record.tp, None)
            self._context.set_assignment(move.record.tp, move.after)
        await self._end_requests(moves)
        await self._stop_and_start(moves)
        return moves

    async def _end_requests(self, moves: Sequence[Move]) -> None:
        """Whoever asked by znode for what is not under way any more was overruled: nobody is to begin it again.

        An entry that asks for something else came later than what was under way, and is still to be served.
        """
        those = paced(moves, self._pace)
        overruled = {
            move.record.tp: move.before.target
            async for move in those
            if move.before.is_being_reassigned and move.after.target != move.before.target
        }
        if overruled:
            await self._requests.finish(overruled)

    async def _stop_and_start(self, moves: Sequence[Move]) -> None:
        pace = self._pace
        called_off = await by_broker((move.record.tp, move.called_off) async for move in paced(moves, pace))
        forgotten = await by_broker((move.record.tp, move.forgotten) async for move in paced(moves, pace))
        begun = await by_broker((move.record.tp, move.newcomers) async for move in paced(moves, pace))
        await self._pending_deletions.add(called_off)
        await self._phases.stop(called_off, hand_over=True)
        await self._replicas.stop_handing_over(forgotten)
        for broker, partitions in begun.items():  # still owed: somebody may take the edit back before it is settled
            self._context.pending_deletions.waive(broker, partitions)
        await self._replicas.handle_on(begun, ReplicaState.NEW)
        await self._replicas.handle_on(begun, ReplicaState.ONLINE)
