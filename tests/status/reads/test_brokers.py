"""``/v1/brokers``: live and absent brokers, their load, and their pending requests."""

from channel_manager.sender import QueuedRequest
from controllerd.core.model import BrokerId
from controllerd.record.records import BrokersRecord, EventBegin
from controllerd.status.schema.cluster import BrokerDetail, BrokerList
from tests.status.fake_controller import FakeController, partition
from tests.status.reads.conftest import Client


async def test_absent_brokers_with_replicas_are_listed(client: Client) -> None:
    answer = await client.get("/v1/brokers", BrokerList)

    assert [(item.id, item.alive, item.replicas) for item in answer.items] == [
        (1, True, 4),
        (2, True, 4),
        (3, False, 4),
    ]


async def test_the_load_of_each_broker_is_compared(client: Client) -> None:
    one, two, three = (await client.get("/v1/brokers", BrokerList)).items

    assert (one.leaders, one.preferred_leaders, one.imbalance_percent) == (2, 4, 50.0)
    assert (one.leader_skew_percent, two.leader_skew_percent) == (33.33, -33.33)
    assert (three.leaders, three.status) == (0, None)


async def test_the_load_follows_the_leaders(client: Client, controller: FakeController) -> None:
    await client.get("/v1/brokers", BrokerList)
    controller.put_topic("orders", partition(0, 2, (1, 2, 3)))

    one, two, _ = (await client.get("/v1/brokers", BrokerList)).items

    assert (one.leaders, two.leaders) == (1, 1)


async def test_one_broker_has_its_pending_requests(client: Client, controller: FakeController) -> None:
    controller.pending[BrokerId(2)] = [QueuedRequest("LeaderAndIsr", 12, 1.5, 3, in_flight=True)]

    answer = await client.get("/v1/brokers/2", BrokerDetail)

    assert answer.broker.status is not None
    assert answer.broker.status.error == "refused"
    assert [(each.api, each.partitions, each.attempts, each.in_flight) for each in answer.pending] == [
        ("LeaderAndIsr", 12, 3, True)
    ]


async def test_one_broker_has_its_last_transitions(client: Client, controller: FakeController) -> None:
    controller.recent.record(EventBegin(7, "BrokerChange", 2, 0.1), BrokersRecord(gone=[3]))

    answer = await client.get("/v1/brokers/3", BrokerDetail)
    other = await client.get("/v1/brokers/2", BrokerDetail)

    assert [(each.event_id, each.what, each.was, each.now) for each in answer.transitions] == [
        (7, "broker", "alive", "gone from /brokers/ids")
    ]
    assert other.transitions == []


async def test_an_unknown_broker_is_not_found(client: Client) -> None:
    problem = await client.refused("/v1/brokers/99")

    assert (problem["status"], problem["code"]) == (404, "unknown_broker")
