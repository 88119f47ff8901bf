"""The forecast of a drain for the partitions of a broker, from given views."""

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, ReplicaAssignment
from controllerd.planning.drains import DrainForecast
from controllerd.planning.plans import PartitionOutcome
from controllerd.views import ClusterView, PartitionView

DRAINED = BrokerId(1)


def view(leader: int, *isr: int) -> PartitionView:
    """A partition on brokers 1, 2 and 3."""
    members = tuple(map(BrokerId, isr))
    assignment = ReplicaAssignment((DRAINED, BrokerId(2), BrokerId(3)))
    return PartitionView(0, PartitionState.ONLINE, assignment, LeaderAndIsr(BrokerId(leader), 1, members, 1, 1), ())


def forecast(*, leaders_only: bool, shutting_down: int | None = None) -> DrainForecast:
    """The drain of broker 1; another broker may be shutting down."""
    others = frozenset() if shutting_down is None else frozenset({BrokerId(shutting_down)})
    return DrainForecast(ClusterView(0, shutting_down=others), DRAINED, leaders_only)


def test_the_leadership_goes_to_the_next_in_sync_replica_and_the_broker_may_stay_in_the_isr() -> None:
    assert forecast(leaders_only=True).of_leader(view(1, 1, 2, 3)) == PartitionOutcome(
        "planned", "leader 1 -> 2, ISR stays [1, 2, 3]"
    )


def test_a_drained_broker_leaves_the_isr_with_all_brokers_that_are_shutting_down() -> None:
    assert forecast(leaders_only=False, shutting_down=2).of_leader(view(1, 1, 2, 3)) == PartitionOutcome(
        "planned", "leader 1 -> 3, ISR [1, 2, 3] -> [3]"
    )


def test_a_leadership_without_another_in_sync_replica_stays() -> None:
    assert forecast(leaders_only=True).of_leader(view(1, 1)) == PartitionOutcome(
        "failed", "no other member of its ISR [1] can lead", KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE
    )


def test_a_follower_leaves_the_isr_unless_it_is_the_last_member_or_leaders_alone_are_moved() -> None:
    assert forecast(leaders_only=False).of_follower(view(2, 1, 2)) == PartitionOutcome("planned", "ISR [1, 2] -> [2]")
    assert forecast(leaders_only=False).of_follower(view(2, 1)) is None
    assert forecast(leaders_only=False).of_follower(view(2, 2, 3)) is None
    assert forecast(leaders_only=True).of_follower(view(2, 1, 2)) is None
