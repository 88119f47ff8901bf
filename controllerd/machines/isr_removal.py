"""Takes a broker out of the ISRs of many partitions: from the states that we know, and anew from those that moved."""

from typing import ClassVar, Final

from controllerd.core.context import ControllerContext
from controllerd.core.election import LeaderEpochExhausted, shrink_isr
from controllerd.core.model import NO_LEADER, BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.records import PartitionRecord
from controllerd.machines.state_changes import StateChange
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, StateStore
from controllerd.record.records import MAX_ROWS, DecisionRecord

HAND_OVER: Final = "HandOver"
"""The name of the decision who follows a leader that is taken away."""


class IsrRemoval(StateChange):
    """The removal of one broker; made for one call of the replica state machine."""

    what: ClassVar[str] = "isr removal"

    def __init__(
        self,
        broker: BrokerId,
        context: ControllerContext,
        store: StateStore,
        audit: AuditLog,
        pace: Pace,
        *,
        hand_over: bool = False,
    ) -> None:
        """With ``hand_over`` a leader that is removed is followed, in the same write, by the first online assigned
        replica that stays in the ISR; without, by nobody. Its broker need not be dead then (KAFKA-14808).
        """
        super().__init__(context, store, audit, pace)
        self._broker = broker
        self._hand_over = hand_over
        self._followed: list[tuple[TopicPartition, LeaderAndIsr]] = []

    def decide(self, record: PartitionRecord, state: LeaderAndIsr) -> LeaderAndIsr | LeaderEpochExhausted | None:
        """The ISR without the broker; nothing where it is not in it."""
        shrunk = shrink_isr(state, self._broker, self._context.epoch)
        if self._hand_over and isinstance(shrunk, LeaderAndIsr) and shrunk.leader == NO_LEADER:
            return self._followed_by_another(record, shrunk)
        return shrunk

    def _followed_by_another(self, record: PartitionRecord, shrunk: LeaderAndIsr) -> LeaderAndIsr:
        online = self._context.liveness.online(record)
        heir = next((broker for broker in online if broker in shrunk.isr), None)
        if heir is None:
            return shrunk
        followed = shrunk._replace(leader=heir)
        self._followed.append((record.tp, followed))
        return followed

    def record_decisions(self) -> None:
        """Who follows."""
        for part in sliced(self._followed, MAX_ROWS):
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
        self._followed.clear()
