"""Invariants of elections and ISR changes: each write of a state znode against the one before it. Pure.

The changes are computed once per record (``CurrentEvent.changes``) and shared by the rules.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from controllerd.core.model import NO_LEADER, LeaderRecoveryState, TopicPartition
from controllerd.record.records import DecisionRecord, LeadershipRecord
from controllerd.record.rules.base import CheckedRecord, Evidence, LeadershipChange, Rule
from controllerd.record.state import ClusterState, FoldedPartition

ALTER_PARTITION: Final = "AlterPartitionReceived"
_FROM_LIVE_ISR: Final = frozenset({"Preferred", "ControlledShutdown", "Relieve"})


class _OwnWriteRule(Rule):
    """Base of the rules about single writes of this controller whose previous state is known."""

    kinds = frozenset({LeadershipRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        for change in checked.changes:
            before, after = change.before, change.after
            is_next = before is None or after.partition_epoch == before.partition_epoch + 1
            if change.is_ours and is_next:
                yield from self.evidence(change, checked)

    @abstractmethod
    def evidence(self, change: LeadershipChange, checked: CheckedRecord, /) -> Iterator[str | Evidence]:
        """The evidence against one write."""


class IsrIsAssigned(_OwnWriteRule):
    """The leader would wait for a member without a replica, and the controller could elect it."""

    id = "I-07"
    title = "a broker that joins an ISR is a replica of the partition"
    severity = "error"
    question = "Was the topic reassigned by another program while the ISR was written?"

    def evidence(self, change: LeadershipChange, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Compares new members with the assignment."""
        known = checked.state.partition(change.tp)
        if known is None:
            return
        before = change.before.isr if change.before is not None else ()
        unassigned = [b for b in change.after.isr if b not in known.assignment.replicas and b not in before]
        if unassigned:
            yield f"{change.tp}: {unassigned} are in the ISR, but the replicas are {list(known.assignment.replicas)}"


class UncleanLeaderIsDecided(_OwnWriteRule):
    """A leader from outside the ISR loses records, so the election must be recorded as unclean."""

    id = "I-14"
    title = "a leader from outside the ISR was elected as unclean, and is the only member of the ISR"
    severity = "critical"
    question = "Which acknowledged records did the new leader lack, and which setting allowed an unclean election?"

    def evidence(self, change: LeadershipChange, _checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Compares the leader with the ISR before the write."""
        after = change.after
        if change.before is None or after.leader == NO_LEADER or after.leader in change.before.isr:
            return
        if change.decided is None or not change.decided.unclean:
            yield f"{change.tp} is led by {after.leader}, which was not in the ISR {list(change.before.isr)}"
        elif after.isr != (after.leader,):
            yield f"{change.tp} has the ISR {list(after.isr)} after an unclean election of {after.leader}"


class FirstEligibleLeads(Rule):
    """The order of the assignment is how an operator balances the cluster."""

    id = "I-15"
    title = "a clean election takes the first eligible replica in the order of the assignment"
    severity = "warning"
    question = "Why was the preferred order not followed, and is the load imbalanced now?"
    kinds = frozenset({DecisionRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        if isinstance(checked.record, DecisionRecord):
            for index, unclean in enumerate(checked.record.unclean):
                if not unclean:
                    yield from self._judge(checked.record, index, checked)

    def _judge(self, record: DecisionRecord, index: int, checked: CheckedRecord) -> Iterator[str | Evidence]:
        tp = TopicPartition(record.topics[index], record.partitions[index])
        known = checked.state.partition(tp)
        if known is None:
            return
        eligible = _eligible(tp, known, record.strategy, record.isrs[index], checked.state)
        replicas = known.assignment.replicas
        candidates = replicas[:1] if record.strategy == "Preferred" else replicas
        first = next((broker for broker in candidates if eligible is None or broker in eligible), None)
        if eligible is not None and first != record.leaders[index]:
            yield f"{tp}: {record.strategy} elected {record.leaders[index]}, the first in {list(replicas)} is {first}"


def _eligible(
    tp: TopicPartition, known: FoldedPartition, strategy: str, isr: Sequence[int], state: ClusterState
) -> set[int] | None:
    """The replicas that could be elected; None if the log does not show them.

    ``isr`` is that of the decision. An election with the strategy ``Offline`` keeps only live brokers in it.
    """
    if strategy == "Offline":
        return set(isr)
    if strategy not in _FROM_LIVE_ISR:
        return None
    replaced = known.leadership.leader if known.leadership is not None and strategy == "Relieve" else None
    failed = {broker for broker, dirs in state.offline_dirs.items() if tp in dirs}
    return (set(isr) & state.live) - failed - {replaced}


class OnlyLeaderAltersIsr(_OwnWriteRule):
    """KAFKA-9672: only the leader knows which replicas are in sync."""

    id = "I-32"
    title = "AlterPartition changes only partitions that its sender leads, and not their leader"
    severity = "critical"
    question = "Which broker changed the ISR of a partition that it does not lead, and what did the leader know?"

    def evidence(self, change: LeadershipChange, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Checks the writes of an AlterPartition event that are no elections."""
        if checked.event != ALTER_PARTITION or change.decided is not None or change.before is None:
            return
        leader = change.before.leader
        if change.after.leader != leader:
            yield f"{change.tp}: the leader {leader} became {change.after.leader}"
        elif checked.detail.get("broker", leader) != leader:
            yield f"{change.tp} is led by {leader}, but the ISR was requested by {checked.detail['broker']}"


class LeaderEndsRecovery(_OwnWriteRule):
    """KIP-704: only the leader knows when its recovery has ended."""

    id = "I-33"
    title = "a partition is recovering after an unclean election until its leader reports the end of the recovery"
    severity = "error"
    question = "Did the leader finish its recovery, or do clients read records that may still be truncated?"

    def evidence(self, change: LeadershipChange, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Checks the writes that change the recovery state."""
        before = LeaderRecoveryState.RECOVERED if change.before is None else change.before.recovery_state
        if change.after.recovery_state == before:
            return
        by_leader = checked.event == ALTER_PARTITION and change.decided is None
        if before is LeaderRecoveryState.RECOVERING and not by_leader:
            yield f"{change.tp} has recovered, but its leader never reported it"
        elif before is LeaderRecoveryState.RECOVERED and (change.decided is None or not change.decided.unclean):
            yield f"{change.tp} recovers without an unclean election"
