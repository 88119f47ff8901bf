"""How the replicas of a broker take control requests and fetches, one partition at a time."""

from dataclasses import dataclass

import pytest

from broker.metadata_cache import MetadataCache
from broker.partition import Role
from broker.replicas import ReplicaManager
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.core.requests import LeaderAndIsrPartition, StopReplicaPartition
from tests.broker.samples import OTHER_ID, T0, T_ID, metadata, told

ELSEWHERE = TopicPartition("elsewhere", 0)


@dataclass
class Clock:
    """Monotonic seconds, set by the test."""

    now: float = 100.0

    def __call__(self) -> float:
        return self.now


@dataclass
class World:
    """Broker 1 in a cluster of three, at second 100."""

    cache: MetadataCache
    replicas: ReplicaManager
    clock: Clock

    def become(self, partition: LeaderAndIsrPartition, topic_id: str | None = None) -> KafkaError:
        known = {} if topic_id is None else {"t": topic_id}
        return self.replicas.become({T0: partition}, known)[T0]

    def stop(self, leader_epoch: int, *, delete: bool = False) -> KafkaError:
        return self.replicas.stop({T0: StopReplicaPartition(leader_epoch, delete)})[T0]

    def plays(self, role: Role) -> bool:
        return self.replicas.partitions[T0].role is role


@pytest.fixture
def world() -> World:
    cache = MetadataCache()
    cache.update(metadata(1, 2, 3, partitions=[(ELSEWHERE, 2)]), {}, carries_ids=True)
    clock = Clock()
    return World(cache, ReplicaManager(BrokerId(1), cache, 3.0, clock), clock)


def test_a_higher_leader_epoch_is_taken(world: World) -> None:
    assert world.become(told(1, epoch=0)) is KafkaError.NONE
    assert world.plays(Role.LEADER)

    assert world.become(told(2, epoch=1)) is KafkaError.NONE
    assert world.plays(Role.FOLLOWER)


@pytest.mark.parametrize("epoch", [4, 5])
def test_a_leader_epoch_that_is_not_higher_is_nothing_new(world: World, epoch: int) -> None:
    world.become(told(1, epoch=5))

    assert world.become(told(2, epoch=epoch)) is KafkaError.STALE_CONTROLLER_EPOCH
    assert world.plays(Role.LEADER)


def test_an_equal_leader_epoch_may_bring_the_missing_topic_id(world: World) -> None:
    world.become(told(1, epoch=5))

    assert world.become(told(1, epoch=5), T_ID) is KafkaError.NONE
    assert world.become(told(1, epoch=5), T_ID) is KafkaError.STALE_CONTROLLER_EPOCH


def test_another_topic_id_is_inconsistent(world: World) -> None:
    world.become(told(1, epoch=5), T_ID)

    assert world.become(told(2, epoch=6), OTHER_ID) is KafkaError.INCONSISTENT_TOPIC_ID
    assert world.plays(Role.LEADER)


def test_a_request_without_topic_id_is_not_inconsistent(world: World) -> None:
    world.become(told(1, epoch=5), T_ID)

    assert world.become(told(1, epoch=6)) is KafkaError.NONE
    assert world.replicas.partitions[T0].topic_id == T_ID


def test_a_partition_without_us_is_unknown(world: World) -> None:
    assert world.become(told(2, replicas=(2, 3))) is KafkaError.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("leader", [4, -1])
def test_a_follower_whose_leader_is_not_live_refuses_in_silence(world: World, leader: int) -> None:
    assert world.become(told(leader, epoch=3)) is KafkaError.NONE
    assert world.plays(Role.NONE)
    assert world.replicas.leaders() == set()


def test_after_a_silent_refusal_the_same_request_is_taken_once_the_leader_is_known(world: World) -> None:
    world.become(told(4, epoch=3))
    world.cache.update(metadata(1, 2, 3, 4), {}, carries_ids=True)

    assert world.become(told(4, epoch=3)) is KafkaError.NONE
    assert world.replicas.leaders() == {4}


def test_an_older_partition_epoch_is_skipped_in_silence(world: World) -> None:
    world.become(told(1, epoch=3, partition_epoch=8))

    assert world.become(told(2, epoch=4, partition_epoch=7)) is KafkaError.NONE
    assert world.plays(Role.LEADER)
    assert world.become(told(2, epoch=4, partition_epoch=8)) is KafkaError.NONE
    assert world.plays(Role.FOLLOWER)


def test_a_stop_below_the_leader_epoch_is_fenced(world: World) -> None:
    world.become(told(2, epoch=3))

    assert world.stop(2) is KafkaError.FENCED_LEADER_EPOCH
    assert world.replicas.leaders() == {2}


@pytest.mark.parametrize("epoch", [-2, -1, 3, 4])
def test_a_stop_ends_the_fetching_and_keeps_the_replica(world: World, epoch: int) -> None:
    world.become(told(2, epoch=3))

    assert world.stop(epoch) is KafkaError.NONE
    assert (world.replicas.leaders(), set(world.replicas.partitions)) == (set(), {T0})


def test_a_stop_with_delete_forgets_the_replica(world: World) -> None:
    world.become(told(2, epoch=3))

    assert world.stop(-2, delete=True) is KafkaError.NONE
    assert world.replicas.partitions == {}


def test_a_stop_of_what_we_do_not_host_is_fine(world: World) -> None:
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
def test_a_fetch_must_name_a_partition_that_we_lead_and_its_epoch(
    world: World, tp: TopicPartition, epoch: int, expected: KafkaError
) -> None:
    world.become(told(1, epoch=3))

    assert world.replicas.fetched(2, tp, epoch) is expected


def test_a_follower_serves_no_fetch(world: World) -> None:
    world.become(told(2, epoch=3))

    assert world.replicas.fetched(3, T0, 3) is KafkaError.NOT_LEADER_OR_FOLLOWER


def test_a_fetch_of_a_stranger_is_refused(world: World) -> None:
    world.become(told(1, epoch=3))

    assert world.replicas.fetched(9, T0, 3) is KafkaError.UNKNOWN_LEADER_EPOCH


def test_a_consumer_changes_no_isr(world: World) -> None:
    world.become(told(1, isr=(1,)))

    world.replicas.fetched(-1, T0, 0)

    assert world.replicas.isr_changes() == {}


def test_those_that_do_not_fetch_leave_the_isr_after_the_lag(world: World) -> None:
    world.become(told(1))
    world.clock.now = 102.0
    world.replicas.fetched(3, T0, 0)
    world.clock.now = 104.0

    world.replicas.shrink_isrs()

    assert {tp: change.isr for tp, change in world.replicas.isr_changes().items()} == {T0: (1, 3)}


def test_a_fenced_follower_waits_for_the_next_leader_epoch(world: World) -> None:
    world.become(told(2, epoch=3))

    world.replicas.fenced(T0, 3)
    assert world.replicas.followed(BrokerId(2)) == []

    world.become(told(2, epoch=4))
    assert [followed.leader_epoch for followed in world.replicas.followed(BrokerId(2))] == [4]


def test_a_fence_of_an_earlier_leader_epoch_is_forgotten(world: World) -> None:
    world.become(told(2, epoch=4))

    world.replicas.fenced(T0, 3)

    assert world.replicas.leaders() == {2}
