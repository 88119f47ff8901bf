"""A replica that is wanted again before its broker has deleted it: what was there goes first, and is not relied on."""

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
from tests.fakes.reassigning import deleted_on, deletions_answered, owed, reassign
from tests.fakes.world import World, tp
from tests.scenarios.acts import UNCLEAN, alter_isr, bring_back, cluster, configure, kill, leader, with_topic

T = tp("t")
NOBODY = KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.fixture
async def world() -> World:
    """Broker 1 was told to delete its replica and has not answered. Broker 3 leads, and 2 lags behind."""
    world = await cluster(1, 2, 3)
    await with_topic(world, "t", 3, 2, 1)
    await reassign(world, {T: [3, 2]})
    assert deleted_on(world, 1) == ["t-0"]
    await alter_isr(world, "t", 3)
    return world


async def want_again(world: World, *target: int) -> None:
    assert (await reassign(world, {T: target}))[T] is KafkaError.NONE
    assert owed(world, 1) == []


async def elect_anybody(world: World) -> object:
    wanted = ReplicaLeaderElection(frozenset({T}), ElectionType.UNCLEAN, ElectionTrigger.ADMIN_CLIENT)
    return (await world.call(wanted))[T]


async def test_another_leads_from_outside_the_isr_though_it_comes_later_in_the_assignment(world: World) -> None:
    await want_again(world, 1, 2, 3)
    await kill(world, 3)

    assert await elect_anybody(world) == BrokerId(2)


async def test_where_there_is_no_other_nobody_is_elected(world: World) -> None:
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    assert await elect_anybody(world) is NOBODY
    reasons = [record.reasons[0] for record in world.audit.of(RefusedRecord) if record.what == "election Offline"]
    assert reasons[-1] == "no replica is electable: isr [3], online [1], to be deleted first [1]"


@pytest.mark.parametrize("error", [KafkaError.NONE, KafkaError.UNKNOWN_SERVER_ERROR])
async def test_it_may_lead_when_the_broker_has_answered(world: World, error: KafkaError) -> None:
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await deletions_answered(world, error)

    assert leader(world, "t")[0] == -1
    assert await elect_anybody(world) == BrokerId(1)


async def test_what_may_be_led_by_anybody_is_led_as_soon_as_the_broker_has_answered(world: World) -> None:
    await configure(world, "topics/t", {UNCLEAN: "true"})
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)
    assert leader(world, "t")[0] == -1

    await deletions_answered(world)

    assert leader(world, "t")[0] == 1


async def test_another_life_of_the_broker_takes_no_order_of_the_one_before(world: World) -> None:
    await want_again(world, 1, 3)
    await kill(world, 1)
    await kill(world, 2)
    await kill(world, 3)

    await bring_back(world, 1)

    assert await elect_anybody(world) == BrokerId(1)


async def test_a_channel_that_is_opened_anew_takes_what_waited_with_it(world: World) -> None:
    await configure(world, "topics/t", {UNCLEAN: "true"})
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    world.queue.put(BrokerRefresh(BrokerId(1), reopen=True))
    await world.settle()

    assert leader(world, "t")[0] == 1


# -- told twice --------------------------------------------------------------------------------------------------------


async def answer_to(world: World, order: int, error: KafkaError = KafkaError.NONE) -> None:
    """Broker 1 answers one of the orders to delete that it was given, counted from 0; ``error`` refuses all of it."""
    requests = [each for each in world.channels.to(1) if isinstance(each, StopReplicaRequest)]
    request = [each for each in requests if any(row.delete for row in each.partitions.values())][order]
    response = ControlResponse(api_name(request), error, {})
    event = event_of(Exchange(BrokerId(1), request, response, 3, 0, 0, 1, 0.0))
    assert event is not None
    world.queue.put(event)
    await world.settle()


async def test_a_debt_is_paid_when_the_newest_order_is_answered(world: World) -> None:
    """The replica begins anew behind the first order, and the second is still on its way."""
    await want_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})
    assert deleted_on(world, 1) == ["t-0", "t-0"]

    await answer_to(world, 0)
    assert owed(world, 1) == ["t-0"]

    await answer_to(world, 1)
    assert owed(world, 1) == []


async def test_a_channel_that_is_opened_anew_takes_the_orders_with_it(world: World) -> None:
    await want_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})

    world.queue.put(BrokerRefresh(BrokerId(1), reopen=True))
    await world.settle()
    await answer_to(world, -1)

    assert owed(world, 1) == []


async def test_a_replica_that_is_wanted_a_second_time_may_lead_when_the_newest_order_is_answered(world: World) -> None:
    await want_again(world, 1, 3)
    await reassign(world, {T: [3, 2]})
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await answer_to(world, 0)
    assert await elect_anybody(world) is NOBODY

    await answer_to(world, 1)
    assert await elect_anybody(world) == BrokerId(1)


async def test_an_order_that_is_refused_as_a_whole_is_answered_too(world: World) -> None:
    await want_again(world, 1, 3)
    await kill(world, 2)
    await kill(world, 3)

    await answer_to(world, 0, KafkaError.STALE_CONTROLLER_EPOCH)

    assert await elect_anybody(world) == BrokerId(1)


async def test_a_debt_whose_order_is_refused_as_a_whole_is_asked_for_again(world: World) -> None:
    await answer_to(world, 0, KafkaError.STALE_CONTROLLER_EPOCH)
    assert owed(world, 1) == ["t-0"]

    assert TopicDeletionRetry() in world.timers.fire()
