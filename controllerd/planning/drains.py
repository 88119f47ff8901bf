"""Plans of drains: the partitions that other brokers can lead, and the reasons for the others. Pure.

The handler of a drain and the forecast for the operator use the same plan.
"""

from collections.abc import Container, Iterable
from typing import Final, NamedTuple

from controllerd.core.election import elect_controlled_shutdown
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controllerd.planning.plans import PartitionOutcome, failed, listed
from controllerd.views import ClusterView, PartitionView

_BEING_DELETED: Final = "its topic is being deleted"
_IN_QUARANTINE: Final = "its state cannot be understood: see the quarantine"
_ALONE: Final = "it has no other replica"


class LedPartition(NamedTuple):
    """A partition that the broker leads. ``online``: its replicas on live brokers with good log directories."""

    tp: TopicPartition
    assignment: ReplicaAssignment
    leadership: LeaderAndIsr
    online: Container[BrokerId]
    is_hidden: bool
    """Whether the topic of the partition is being deleted."""


class DrainPlan(NamedTuple):
    """The partitions that can be moved, in order, and the reason for each that cannot."""

    movable: list[TopicPartition]
    remaining: dict[TopicPartition, str]


def plan_drain(
    broker: BrokerId, partitions: Iterable[LedPartition], quarantine: Container[str], plan: DrainPlan
) -> None:
    """Add these partitions of the broker to the plan."""
    for led in partitions:
        reason = _why_not(broker, led, quarantine)
        if reason is None:
            plan.movable.append(led.tp)
        else:
            plan.remaining[led.tp] = reason


def _why_not(broker: BrokerId, led: LedPartition, quarantine: Container[str]) -> str | None:
    others = [replica for replica in led.assignment.replicas if replica != broker]
    if led.is_hidden:
        return _BEING_DELETED
    if led.tp.state_path in quarantine:
        return _IN_QUARANTINE
    if not others:
        return _ALONE
    in_sync = [replica for replica in others if replica in led.leadership.isr]
    if not in_sync:
        return f"no other replica is in its ISR {list(led.leadership.isr)}"
    if not any(replica in led.online for replica in in_sync):
        return f"the others in its ISR {in_sync} are not online, or are shutting down"
    return None


class DrainForecast(NamedTuple):
    """The forecast of a drain for the partitions of a broker, from the views."""

    cluster: ClusterView
    broker: BrokerId
    leaders_only: bool
    """Whether the broker stays in the ISRs as a follower."""

    def of_leader(self, view: PartitionView) -> PartitionOutcome:
        """Forecast the next leader and ISR of a partition that the broker leads."""
        elected = elect_controlled_shutdown(view.assignment.replicas, view.isr, view.online, self._leaving)
        if elected is None:
            why = f"no other member of its ISR {listed(view.isr)} can lead"
            return failed(KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE, why)
        return PartitionOutcome("planned", f"leader {self.broker} -> {elected.leader}, {self._isr_change(view)}")

    def of_follower(self, view: PartitionView) -> PartitionOutcome | None:
        """Forecast the next ISR of a partition that the broker follows; None if it keeps its ISR."""
        if self.leaders_only or self.broker not in view.isr or len(view.isr) == 1:
            return None
        return PartitionOutcome("planned", self._isr_change(view))

    @property
    def _leaving(self) -> frozenset[BrokerId]:
        return self.cluster.shutting_down | {self.broker}

    def _isr_change(self, view: PartitionView) -> str:
        if self.leaders_only:
            return f"ISR stays {listed(view.isr)}"
        return f"ISR {listed(view.isr)} -> {listed(member for member in view.isr if member not in self._leaving)}"
