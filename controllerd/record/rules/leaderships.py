"""Invariants of elections and ISR changes: each write of a state znode against the one before it. Pure.

What is compared is worked out once per record (``OwnWrites``) and shared by the rules.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Final

from controllerd.core.model import NO_LEADER, LeaderRecoveryState, TopicPartition
from controllerd.record.records import DecisionRecord, LeadershipRecord
from controllerd.record.rules.base import Entry, Evidence, LeadershipChange, Rule
from controllerd.record.state import ClusterState, FoldedPartition

ALTER_PARTITION: Final = "AlterPartitionReceived"
_AMONG_THE_LIVE: Final = frozenset({"Preferred", "ControlledShutdown", "Relieve"})


class OwnChanges(Rule):
    """Base of rules about single writes of ours whose predecessor is known for certain."""

    kinds = frozenset({LeadershipRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        for change in entry.changes:
            before, after = change.before, change.after
            is_next = before is None or after.partition_epoch == before.partition_epoch + 1
            if change.is_ours and is_next:
                yield from self.judge(change, entry)

    @abstractmethod
    def judge(self, change: LeadershipChange, entry: Entry, /) -> Iterator[str | Evidence]:
        """Evidence against one write."""


class IsrIsAssigned(OwnChanges):
    """A member without a replica would be waited for in vain, and could be elected."""

    id = "I-07"
    title = "who comes into an ISR is a replica of the partition"
    severity = "error"
    question = "Was the topic reassigned by somebody else while the ISR was written?"

    def judge(self, change: LeadershipChange, entry: Entry) -> Iterator[str | Evidence]:
        """New members against the assignment."""
        known = entry.state.partition(change.tp)
        if known is None:
            return
        before = change.before.isr if change.before is not None else ()
        strangers = [b for b in change.after.isr if b not in known.assignment.replicas and b not in before]
        if strangers:
            yield f"{change.tp}: {strangers} are in the ISR, the replicas are {list(known.assignment.replicas)}"


class UncleanIsDecided(OwnChanges):
    """A leader from outside the ISR loses records: never without saying so."""

    id = "I-14"
    title = "a leader that was not in the ISR was decided on as unclean, and is alone in the ISR"
    severity = "critical"
    question = "Which acknowledged records did the new leader lack, and who allowed an unclean election?"

    def judge(self, change: LeadershipChange, _entry: Entry) -> Iterator[str | Evidence]:
        """A leader that the write before did not have in its ISR."""
        after = change.after
        if change.before is None or after.leader == NO_LEADER or after.leader in change.before.isr:
            return
        if change.decided is None or not change.decided.unclean:
            yield f"{change.tp} is led by {after.leader}, which was not in the ISR {list(change.before.isr)}"
        elif after.isr != (after.leader,):
            yield f"{change.tp} has the ISR {list(after.isr)} after an unclean election of {after.leader}"


class FirstEligibleLeads(Rule):
    """The order of the assignment is what an operator balanced the cluster by."""

    id = "I-15"
    title = "a clean election takes the first eligible replica in the order of the assignment"
    severity = "warning"
    question = "Why was the preferred order passed over, and is the load out of balance now?"
    kinds = frozenset({DecisionRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        if isinstance(entry.record, DecisionRecord):
            for index, unclean in enumerate(entry.record.unclean):
                if not unclean:
                    yield from self._judge(entry.record, index, entry)

    def _judge(self, record: DecisionRecord, index: int, entry: Entry) -> Iterator[str | Evidence]:
        tp = TopicPartition(record.topics[index], record.partitions[index])
        known = entry.state.partition(tp)
        if known is None:
            return
        eligible = _eligible(tp, known, record.strategy, record.isrs[index], entry.state)
        replicas = known.assignment.replicas
        candidates = replicas[:1] if record.strategy == "Preferred" else replicas
        first = next((broker for broker in candidates if eligible is None or broker in eligible), None)
        if eligible is not None and first != record.leaders[index]:
            yield f"{tp}: {record.strategy} took {record.leaders[index]}, first in {list(replicas)} is {first}"


def _eligible(
    tp: TopicPartition, known: FoldedPartition, strategy: str, isr: Sequence[int], state: ClusterState
) -> set[int] | None:
    """The replicas that could be elected, None if no record says it: after Offline the ISR has only live members."""
    if strategy == "Offline":
        return set(isr)
    if strategy not in _AMONG_THE_LIVE:
        return None
    relieved = known.leadership.leader if known.leadership is not None and strategy == "Relieve" else None
    failed = {broker for broker, dirs in state.offline_dirs.items() if tp in dirs}
    return (set(isr) & state.live) - failed - {relieved}


class LeaderAsksForIsr(OwnChanges):
    """KAFKA-9672: who does not lead cannot know who is in sync."""

    id = "I-32"
    title = "AlterPartition changes only what its sender leads, and not the leader"
    severity = "critical"
    question = "Who changed the ISR of a partition that it does not lead, and what did the leader know?"

    def judge(self, change: LeadershipChange, entry: Entry) -> Iterator[str | Evidence]:
        """A write that is no election, in the event of a request."""
        if entry.event != ALTER_PARTITION or change.decided is not None or change.before is None:
            return
        leader = change.before.leader
        if change.after.leader != leader:
            yield f"{change.tp}: the leader {leader} became {change.after.leader}"
        elif entry.detail.get("broker", leader) != leader:
            yield f"{change.tp} is led by {leader}, the ISR was asked for by {entry.detail['broker']}"


class RecoveryIsEarned(OwnChanges):
    """KIP-704: only the leader knows when it has recovered."""

    id = "I-33"
    title = "a partition recovers after an unclean election, until its leader says that it has"
    severity = "error"
    question = "Did the leader finish its recovery, or are clients reading what may still be cut off?"

    def judge(self, change: LeadershipChange, entry: Entry) -> Iterator[str | Evidence]:
        """A write that changes the recovery state."""
        before = LeaderRecoveryState.RECOVERED if change.before is None else change.before.recovery_state
        if change.after.recovery_state == before:
            return
        by_leader = entry.event == ALTER_PARTITION and change.decided is None
        if before is LeaderRecoveryState.RECOVERING and not by_leader:
            yield f"{change.tp} has recovered, and its leader never said so"
        elif before is LeaderRecoveryState.RECOVERED and (change.decided is None or not change.decided.unclean):
            yield f"{change.tp} recovers without an unclean election"
