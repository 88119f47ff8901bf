"""The removal of a broker from the ISRs of many partitions; where the broker leads, with or without a successor."""

from typing import ClassVar, Final

from controllerd.core.context import ControllerContext
from controllerd.core.election import LeaderEpochExhausted, shrink_isr
from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.state_changes import PartitionwiseChange
from controllerd.ports.audit import AuditLog
from controllerd.ports.states import StateUpdater
from controllerd.record.records import MAX_ROWS, DecisionRecord
from controllerd.slicer import Slicer, sliced

HAND_OVER: Final = "HandOver"
"""The name, in decision records, of the choice of a successor for a leader that is removed from the ISR."""


class IsrRemoval(PartitionwiseChange):
    """The removal of one broker, made for one call of the replica state machine."""

    what: ClassVar[str] = "isr removal"

    def __init__(
        self,
        broker: BrokerId,
        context: ControllerContext,
        states: StateUpdater,
        audit: AuditLog,
        slicer: Slicer,
        *,
        hand_over: bool = False,
    ) -> None:
        """``hand_over``: the write that removes a leader also names its successor, the first online assigned replica
        that stays in the ISR. This is needed where the broker is alive and no election follows (KAFKA-14808). Without
        ``hand_over``, the partition has no leader afterwards.
        """
        super().__init__(context, states, audit, slicer)
        self._broker = broker
        self._hand_over = hand_over
        self._handed_over: list[tuple[TopicPartition, LeaderAndIsr]] = []

    def decide_one(self, record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """The ISR without the broker; None where the broker is not in it."""
        shrunk = shrink_isr(state, self._broker, self._context.epoch)
        if self._hand_over and isinstance(shrunk, LeaderAndIsr) and shrunk.leader == NO_LEADER:
            return self._with_successor(record, shrunk)
        return shrunk

    def _with_successor(self, record: PartitionRecord, shrunk: LeaderAndIsr) -> LeaderAndIsr:
        online = self._context.liveness.online(record)
        successor = next((broker for broker in online if broker in shrunk.isr), None)
        if successor is None:
            return shrunk
        handed_over = shrunk._replace(leader=successor)
        self._handed_over.append((record.tp, handed_over))
        return handed_over

    def record_decisions(self) -> None:
        """Record the chosen successors in the audit log, before ZooKeeper is written."""
        for part in sliced(self._handed_over, MAX_ROWS):
            self._audit.record(
                DecisionRecord(
                    HAND_OVER,
                    [tp.topic for tp, _ in part],
                    [tp.partition for tp, _ in part],
                    [state.leader for _, state in part],
                    [list(state.isr) for _, state in part],
                    [False] * len(part),
                )
            )
        self._handed_over.clear()
