"""The rules of one replica, with a clock that the tests hold."""

import pytest

from broker.partition import HostedPartition, PendingIsrChange, ReplicaRole
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from tests.broker.samples import T0, ids, leadership, partition_state

LAG_S = 3.0
ONE, TWO, THREE = ids((1, 2, 3))


@pytest.fixture
def partition() -> HostedPartition:
    """Broker 1 leads since second 100, the ISR is full."""
    partition = HostedPartition(T0, ONE)
    partition.make_leader(partition_state(1, epoch=4, partition_epoch=7), now=100.0)
    return partition


def proposed(partition: HostedPartition) -> tuple[BrokerId, ...] | None:
    return None if partition.pending is None else partition.pending.isr


def shrunk(partition: HostedPartition) -> PendingIsrChange:
    """The proposal to go on alone."""
    partition.shrink(200.0, LAG_S)
    assert partition.pending is not None
    return partition.pending


def test_a_leader_keeps_followers_that_fetched_lately(partition: HostedPartition) -> None:
    partition.fetched(TWO, 102.0, live=True)
    partition.fetched(THREE, 102.5, live=True)

    partition.shrink(105.0, LAG_S)

    assert proposed(partition) is None


def test_a_leader_drops_the_follower_that_has_not_fetched(partition: HostedPartition) -> None:
    partition.fetched(THREE, 104.0, live=True)

    partition.shrink(105.0, LAG_S)

    assert proposed(partition) == (1, 3)


def test_a_new_leader_gives_the_isr_time_to_fetch(partition: HostedPartition) -> None:
    partition.shrink(103.0, LAG_S)

    assert proposed(partition) is None


def test_a_proposal_carries_the_epochs_under_which_it_was_made(partition: HostedPartition) -> None:
    change = shrunk(partition)

    assert (change.leader_epoch, change.partition_epoch) == (4, 7)


def test_there_is_one_proposal_at_a_time(partition: HostedPartition) -> None:
    change = shrunk(partition)

    partition.fetched(BrokerId(4), 200.0, live=True)
    partition.shrink(300.0, LAG_S)

    assert partition.pending is change


def test_a_follower_outside_of_the_isr_joins_at_its_end(partition: HostedPartition) -> None:
    partition.make_leader(partition_state(1, epoch=5, isr=(3, 1), partition_epoch=8), now=100.0)

    partition.fetched(TWO, 101.0, live=True)

    assert proposed(partition) == (3, 1, 2)


def test_a_follower_that_is_not_live_in_the_metadata_stays_outside(partition: HostedPartition) -> None:
    partition.make_leader(partition_state(1, epoch=5, isr=(1,), partition_epoch=8), now=100.0)

    partition.fetched(TWO, 101.0, live=False)

    assert proposed(partition) is None


def test_a_follower_never_proposes(partition: HostedPartition) -> None:
    partition.make_follower(partition_state(2, epoch=5, partition_epoch=8))

    partition.shrink(500.0, LAG_S)

    assert (proposed(partition), partition.role) == (None, ReplicaRole.FOLLOWER)


def test_success_commits_the_isr_of_the_answer(partition: HostedPartition) -> None:
    change = shrunk(partition)

    partition.answered(change, KafkaError.NONE, leadership(1, 4, isr=(1,), partition_epoch=8))

    assert (partition.isr, partition.partition_epoch, partition.pending) == ((1,), 8, None)


@pytest.mark.parametrize(
    ("leader_epoch", "partition_epoch"),
    [pytest.param(5, 8, id="leader epoch"), pytest.param(4, 6, id="partition epoch")],
)
def test_success_of_other_epochs_is_not_taken(
    partition: HostedPartition, leader_epoch: int, partition_epoch: int
) -> None:
    change = shrunk(partition)

    partition.answered(change, KafkaError.NONE, leadership(1, leader_epoch, (1,), partition_epoch))

    assert (partition.isr, change.stuck, partition.pending) == ((1, 2, 3), True, change)


@pytest.mark.parametrize("error", [KafkaError.INELIGIBLE_REPLICA, KafkaError.OPERATION_NOT_ATTEMPTED])
def test_a_refusal_that_changed_nothing_ends_the_proposal(partition: HostedPartition, error: KafkaError) -> None:
    change = shrunk(partition)

    partition.answered(change, error, leadership(0, 0))

    assert (partition.isr, partition.pending) == ((1, 2, 3), None)


@pytest.mark.parametrize("code", [3, 42, 74, 95, 100, 108])
def test_a_permanent_refusal_waits_for_the_controller(partition: HostedPartition, code: int) -> None:
    change = shrunk(partition)

    partition.answered(change, KafkaError(code), leadership(0, 0))

    assert (partition.pending, change.stuck) == (change, True)


def test_any_other_refusal_is_sent_again(partition: HostedPartition) -> None:
    change = shrunk(partition)

    partition.answered(change, KafkaError.UNKNOWN_SERVER_ERROR, leadership(0, 0))

    assert (partition.pending, change.stuck) == (change, False)


def test_a_higher_leader_epoch_ends_the_pending_proposal(partition: HostedPartition) -> None:
    change = shrunk(partition)

    partition.make_leader(partition_state(1, epoch=5, partition_epoch=9), now=201.0)
    partition.answered(change, KafkaError.NONE, leadership(1, 5, isr=(1,), partition_epoch=10))

    assert (partition.isr, partition.partition_epoch, partition.pending) == ((1, 2, 3), 9, None)


def test_an_older_partition_epoch_changes_nothing(partition: HostedPartition) -> None:
    took = partition.make_follower(partition_state(2, epoch=5, partition_epoch=6))

    assert (took, partition.role, partition.leader_epoch) == (False, ReplicaRole.LEADER, 4)
