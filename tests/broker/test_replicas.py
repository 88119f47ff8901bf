"""How the replicas of a broker take control requests and fetches, one partition at a time."""

from dataclasses import dataclass

import pytest

from broker.metadata_cache import MetadataCache
from broker.partition import ReplicaRole
from broker.replicas import ReplicaManager
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, StopReplicaPartition
from tests.broker.samples import OTHER_ID, T0, T_ID, metadata, partition_state

ELSEWHERE = TopicPartition("elsewhere", 0)


@dataclass
class ReplicaClock:
    """Monotonic seconds, set by the test."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class BrokerReplicas:
    """Broker 1 in a cluster of three, at second 100."""

    cache: MetadataCache
    replicas: ReplicaManager
    clock: ReplicaClock

    def become(self, partition: LeaderAndIsrPartition, topic_id: str | None = None) -> KafkaError:
        known = {} if topic_id is None else {"t": topic_id}
        return self.replicas.become({T0: partition}, known)[T0]

    def stop(self, leader_epoch: int, *, delete: bool = False) -> KafkaError:
        return self.replicas.stop({T0: StopReplicaPartition(leader_epoch, delete)})[T0]

    def plays(self, role: ReplicaRole) -> bool:
        return self.replicas.partitions[T0].role is role


@pytest.fixture
def world() -> BrokerReplicas:
    cache = MetadataCache()
    cache.update(metadata(1, 2, 3, partitions=[(ELSEWHERE, 2)]), {}, carries_ids=True)
    clock = ReplicaClock()
    return BrokerReplicas(cache, ReplicaManager(BrokerId(1), cache, 3.0, clock), clock)


def test_a_higher_leader_epoch_is_taken(world: BrokerReplicas) -> None:
    assert world.become(partition_state(1, epoch=0)) is KafkaError.NONE
    assert world.plays(ReplicaRole.LEADER)

    assert world.become(partition_state(2, epoch=1)) is KafkaError.NONE
    assert world.plays(ReplicaRole.FOLLOWER)


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_epoch_that_is_not_higher_is_stale(world: BrokerReplicas, epoch: int) -> None:
    world.become(partition_state(1, epoch=5))

    assert world.become(partition_state(2, epoch=epoch)) is KafkaError.STALE_CONTROLLER_EPOCH
    assert world.plays(ReplicaRole.LEADER)


def test_an_equal_leader_epoch_may_bring_the_missing_topic_id(world: BrokerReplicas) -> None:
    world.become(partition_state(1, epoch=5))

    assert world.become(partition_state(1, epoch=5), T_ID) is KafkaError.NONE
    assert world.become(partition_state(1, epoch=5), T_ID) is KafkaError.STALE_CONTROLLER_EPOCH


def test_another_topic_id_is_inconsistent(world: BrokerReplicas) -> None:
    world.become(partition_state(1, epoch=5), T_ID)

    assert world.become(partition_state(2, epoch=6), OTHER_ID) is KafkaError.INCONSISTENT_TOPIC_ID
    assert world.plays(ReplicaRole.LEADER)


def test_a_request_without_topic_id_is_not_inconsistent(world: BrokerReplicas) -> None:
    world.become(partition_state(1, epoch=5), T_ID)

    assert world.become(partition_state(1, epoch=6)) is KafkaError.NONE
    assert world.replicas.partitions[T0].topic_id == T_ID


def test_a_partition_without_this_replica_is_unknown(world: BrokerReplicas) -> None:
    assert world.become(partition_state(2, replicas=(2, 3))) is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("leader", [4, -1])
def test_a_follower_whose_leader_is_not_live_answers_no_error_and_does_not_follow(
    world: BrokerReplicas, leader: int
) -> None:
    assert world.become(partition_state(leader, epoch=3)) is KafkaError.NONE
    assert world.plays(ReplicaRole.NONE)
    assert world.replicas.leaders() == set()


def test_the_same_request_is_taken_once_the_leader_is_live(world: BrokerReplicas) -> None:
    world.become(partition_state(4, epoch=3))
    world.cache.update(metadata(1, 2, 3, 4), {}, carries_ids=True)

    assert world.become(partition_state(4, epoch=3)) is KafkaError.NONE
    assert world.replicas.leaders() == {4}


def test_an_older_partition_epoch_is_skipped_without_an_error(world: BrokerReplicas) -> None:
    world.become(partition_state(1, epoch=3, partition_epoch=8))

    assert world.become(partition_state(2, epoch=4, partition_epoch=7)) is KafkaError.NONE
    assert world.plays(ReplicaRole.LEADER)
    assert world.become(partition_state(2, epoch=4, partition_epoch=8)) is KafkaError.NONE
    assert world.plays(ReplicaRole.FOLLOWER)


def test_a_stop_below_the_leader_epoch_is_fenced(world: BrokerReplicas) -> None:
    world.become(partition_state(2, epoch=3))

    assert world.stop(2) is KafkaError.FENCED_LEADER_EPOCH
    assert world.replicas.leaders() == {2}


@pytest.mark.parametrize("epoch", [-2, -1, 3, 4])
def test_a_stop_ends_the_fetching_and_keeps_the_replica(world: BrokerReplicas, epoch: int) -> None:
    world.become(partition_state(2, epoch=3))

    assert world.stop(epoch) is KafkaError.NONE
    assert (world.replicas.leaders(), set(world.replicas.partitions)) == (set(), {T0})


def test_a_stop_with_delete_removes_the_replica(world: BrokerReplicas) -> None:
    world.become(partition_state(2, epoch=3))

    assert world.stop(-2, delete=True) is KafkaError.NONE
    assert world.replicas.partitions == {}


def test_a_stop_of_an_unknown_replica_is_no_error(world: BrokerReplicas) -> None:
    assert world.stop(7, delete=True) is KafkaError.NONE


@pytest.mark.parametrize(
    ("tp", "epoch", "expected"),
    [
        (T0, 3, KafkaError.NONE),
        (T0, -1, KafkaError.NONE),
        (T0, 2, KafkaError.FENCED_LEADER_EPOCH),
        (T0, 4, KafkaError.UNKNOWN_LEADER_EPOCH),
        (ELSEWHERE, 0, KafkaError.NOT_LEADER_OR_FOLLOWER),
        (TopicPartition("nowhere", 0), 0, KafkaError.UNKNOWN_TOPIC_OR_PARTITION),
    ],
)
def test_a_fetch_must_name_a_partition_of_this_leader_and_its_epoch(
    world: BrokerReplicas, tp: TopicPartition, epoch: int, expected: KafkaError
) -> None:
    world.become(partition_state(1, epoch=3))

    assert world.replicas.fetched(2, tp, epoch) is expected


def test_a_follower_serves_no_fetch(world: BrokerReplicas) -> None:
    world.become(partition_state(2, epoch=3))

    assert world.replicas.fetched(3, T0, 3) is KafkaError.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_of_an_unassigned_broker_is_refused(world: BrokerReplicas) -> None:
    world.become(partition_state(1, epoch=3))

    assert world.replicas.fetched(9, T0, 3) is KafkaError.UNKNOWN_LEADER_EPOCH


def test_a_consumer_changes_no_isr(world: BrokerReplicas) -> None:
    world.become(partition_state(1, isr=(1,)))

    world.replicas.fetched(-1, T0, 0)

    assert world.replicas.isr_changes() == {}


def test_followers_that_do_not_fetch_leave_the_isr_after_the_lag(world: BrokerReplicas) -> None:
    world.become(partition_state(1))
    world.clock.now = 102.0
    world.replicas.fetched(3, T0, 0)
    world.clock.now = 104.0

    world.replicas.shrink_isrs()

    assert {tp: change.isr for tp, change in world.replicas.isr_changes().items()} == {T0: (1, 3)}


def test_a_fenced_follower_waits_for_the_next_leader_epoch(world: BrokerReplicas) -> None:
    world.become(partition_state(2, epoch=3))

    world.replicas.fenced(T0, 3)
    assert world.replicas.followed(BrokerId(2)) == []

    world.become(partition_state(2, epoch=4))
    assert [followed.leader_epoch for followed in world.replicas.followed(BrokerId(2))] == [4]


def test_a_fence_of_an_earlier_leader_epoch_is_ignored(world: BrokerReplicas) -> None:
    world.become(partition_state(2, epoch=4))

    world.replicas.fenced(T0, 3)

    assert world.replicas.leaders() == {2}
