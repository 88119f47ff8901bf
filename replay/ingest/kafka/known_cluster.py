"""The known state of the cluster at a line: leaders, live brokers, reassignments and deletions. Pure."""

from dataclasses import dataclass, field
from typing import NamedTuple

from replay.ingest.kafka.scala_values import Fields

Partition = tuple[str, int]


class Loss(NamedTuple):
    """The latest moment at which partitions may have lost their leaders: something failed, or a term began.

    A partition that is found without a leader later on lost it then or before.
    """

    ts_ms: int
    order_ms: int
    reason: str


@dataclass(slots=True)
class KnownClusterState:
    """State of the cluster after the lines so far."""

    leaderships: dict[Partition, Fields] = field(default_factory=dict)
    assignments: dict[Partition, tuple[list[int], list[int], list[int]]] = field(default_factory=dict)
    offline: set[Partition] = field(default_factory=set)
    awaited: dict[Partition, tuple[int, int]] = field(default_factory=dict)
    """Leaders that ended a window and have not logged yet that they lead, with their leader epochs."""
    live: set[int] = field(default_factory=set)
    origins: dict[Partition, list[int]] = field(default_factory=dict)
    """Replicas before a reassignment in progress."""
    deleting: dict[str, str] = field(default_factory=dict)
    """The last step of the deletion of each topic."""
    strategies: dict[Partition | int, str] = field(default_factory=dict)
    """The strategy of the next election, by partition or by the broker that loses leaderships."""
    losses: dict[int, Loss] = field(default_factory=dict)
    """The latest loss of leaders, by the controller that logged it."""

    def led_by(self, broker: int) -> list[Partition]:
        """Return the partitions that a broker leads, in order."""
        return sorted(tp for tp, state in self.leaderships.items() if state["leader"] == broker)

    def leader(self, tp: Partition) -> int | None:
        """Return the leader, -1 for none; None: not known."""
        state = self.leaderships.get(tp)
        leader = None if state is None else state["leader"]
        return leader if isinstance(leader, int) else None

    def is_unclean(self, tp: Partition, leader: int) -> bool:
        """Return whether a new leader is outside of the last known ISR."""
        isr = self.leaderships.get(tp, {}).get("isr")
        return isinstance(isr, list) and leader not in isr

    def strategy(self, tp: Partition, before: str) -> str:
        """Return the strategy that elected a leader, and forget it."""
        if before == "OfflinePartition":
            self.strategies.pop(tp, None)
            return "Offline"
        requested, leader = self.strategies.pop(tp, None), self.leader(tp)
        if requested is None and leader is not None:  # an unknown leader is not broker 0
            requested = self.strategies.get(leader)
        return requested or "unknown"

    def forget(self, topic: str) -> list[tuple[Partition, bool]]:
        """Drop a topic; return its partitions, each with whether it had no leader."""
        gone = sorted({tp for tp in (*self.leaderships, *self.assignments, *self.offline) if tp[0] == topic})
        found = [(tp, tp in self.offline) for tp in gone]
        for tp in gone:
            self.offline.discard(tp)
            for known in (self.leaderships, self.assignments, self.awaited, self.origins, self.strategies):
                known.pop(tp, None)
        self.deleting.pop(topic, None)
        return found
