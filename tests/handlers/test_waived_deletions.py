"""A replica is assigned again before its broker has deleted the old one: until then it must not be elected."""

import pytest

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlResponse, StopReplicaRequest, api_name
from controllerd.record.records import RefusedRecord
from events.cluster import BrokerRefresh
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.topics import TopicDeletionRetry
from tests.fakes.reassigning import deleted_on, deletions_answered, pending_deletions_of, reassign
from tests.fakes.world import World, tp
from tests.scenarios.acts import UNCLEAN, alter_isr, bring_back, cluster, configure, kill, leader, with_topic

T = tp("t")
NO_LEADER = KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.fixture
async def world() -> World:
    """Broker 1 was sent a StopReplica with deletion and has not answered. Broker 3 leads, and broker 2 lags behind."""
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 3, 2, 1)
    await reassign(world, {T: [3, 2]})
    assert deleted_on(world, 1) == ["t-0"]
    await alter_isr(world, "t", 3)
    return world


async def assign_again(world: World, *target: int) -> None:
    assert (await reassign(world, {T: target}))[T] is KafkaError.NONE
    assert pending_deletions_of(world, 1) == []


async def elect_uncleanly(world: World) -> object:
    wanted = ReplicaLeaderElection(frozenset({T}), ElectionType.UNCLEAN, ElectionTrigger.ADMIN_CLIENT)
    return (await world.call(wanted))[T]


async def test_an_unclean_election_skips_the_replica_though_it_is_first_in_the_assignment(world: World) -> None:
    await assign_again(world, 1, 2, 3)
    await kill(world, 3)

    assert await elect_uncleanly(world) == BrokerId(2)


async def test_without_another_replica_no_leader_is_elected(world: World) -> None:
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    assert await elect_uncleanly(world) is NO_LEADER
    reasons = [record.reasons[0] for record in world.audit.of(RefusedRecord) if record.what == "election Offline"]
    assert reasons[-1] == "no replica is electable: isr [3], online [1], to be deleted first [1]"


@pytest.mark.parametrize("error", [KafkaError.NONE, KafkaError.UNKNOWN_SERVER_ERROR])
async def test_the_replica_may_lead_when_the_broker_has_answered(world: World, error: KafkaError) -> None:
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await deletions_answered(world, error)

    assert leader(world, "t")[0] == -1
    assert await elect_uncleanly(world) == BrokerId(1)


async def test_a_topic_that_allows_unclean_elections_gets_its_leader_as_soon_as_the_broker_has_answered(
    world: World,
) -> None:
    await configure(world, "topics/t", {UNCLEAN: "true"})
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)
    assert leader(world, "t")[0] == -1

    await deletions_answered(world)

    assert leader(world, "t")[0] == 1


async def test_a_broker_that_returns_handles_no_stop_replica_of_its_earlier_epoch(world: World) -> None:
    await assign_again(world, 1, 3)
    await kill(world, 1)
    await kill(world, 2)
    await kill(world, 3)

    await bring_back(world, 1)

    assert await elect_uncleanly(world) == BrokerId(1)


async def test_a_channel_that_is_reopened_drops_the_unanswered_stop_replica(world: World) -> None:
    await configure(world, "topics/t", {UNCLEAN: "true"})
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    world.queue.put(BrokerRefresh(BrokerId(1), reopen=True))
    await world.settle()

    assert leader(world, "t")[0] == 1


# -- two StopReplica in flight -----------------------------------------------------------------------------------------


async def answer_to(world: World, number: int, error: KafkaError = KafkaError.NONE) -> None:
    """Broker 1 answers one of its StopReplica with deletion, counted from 0; ``error`` is at the top level."""
    requests = [each for each in world.channels.to(1) if isinstance(each, StopReplicaRequest)]
    request = [each for each in requests if any(row.delete for row in each.partitions.values())][number]
    response = ControlResponse(api_name(request), error, {})
    event = event_of(Exchange(BrokerId(1), request, response, 3, 0, 0, 1, 0.0))
    assert event is not None
    world.queue.put(event)
    await world.settle()


async def test_a_pending_deletion_is_cleared_when_the_newest_stop_replica_is_answered(world: World) -> None:
    """The replica begins anew after the first StopReplica, and the second is still in flight."""
    await assign_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})
    assert deleted_on(world, 1) == ["t-0", "t-0"]

    await answer_to(world, 0)
    assert pending_deletions_of(world, 1) == ["t-0"]

    await answer_to(world, 1)
    assert pending_deletions_of(world, 1) == []


async def test_a_channel_that_is_reopened_drops_both_stop_replica(world: World) -> None:
    await assign_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})

    world.queue.put(BrokerRefresh(BrokerId(1), reopen=True))
    await world.settle()
    await answer_to(world, -1)

    assert pending_deletions_of(world, 1) == []


async def test_a_replica_that_is_assigned_twice_may_lead_when_the_newest_stop_replica_is_answered(world: World) -> None:
    await assign_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await answer_to(world, 0)
    assert await elect_uncleanly(world) is NO_LEADER

    await answer_to(world, 1)
    assert await elect_uncleanly(world) == BrokerId(1)


async def test_a_stop_replica_with_a_top_level_error_counts_as_answered(world: World) -> None:
    await assign_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await answer_to(world, 0, KafkaError.STALE_CONTROLLER_EPOCH)

    assert await elect_uncleanly(world) == BrokerId(1)


async def test_a_pending_deletion_with_a_top_level_error_is_retried(world: World) -> None:
    await answer_to(world, 0, KafkaError.STALE_CONTROLLER_EPOCH)
    assert pending_deletions_of(world, 1) == ["t-0"]

    assert TopicDeletionRetry() in world.timers.fire()
