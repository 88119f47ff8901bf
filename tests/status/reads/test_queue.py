"""``/v1/queue`` and ``/v1/requests``."""

from channel_manager.sender import QueuedRequest
from controllerd.core.model import BrokerId
from controllerd.record.records import EventBegin, EventEnd
from controllerd.status.schema.work import QueueList, RequestQueueList
from controllerd.views import ChannelView, WorkerView
from events.cluster import BrokerChange
from tests.status.fake_controller import FakeController
from tests.status.reads.conftest import asking


async def test_the_queue_shows_the_running_event_then_waiting_ones_then_ended_ones(
    controller: FakeController,
) -> None:
    controller.is_stalled = True
    controller.recent.record(EventBegin(1, "Startup", 1, 2.0), EventEnd(1, "Startup", "done", 30.0))
    controller.recent.record(EventBegin(2, "TopicChange", 3, 4.0, {"topic": "orders"}))
    controller.worker = WorkerView("TopicChange", 2, running_s=1.5)
    controller.queue.put(BrokerChange())
    controller.now_s += 2

    async with asking(controller) as client:
        answer = await client.get("/v1/queue", QueueList)

    assert [(each.phase, each.event, each.state, each.wait_ms, each.run_ms) for each in answer.items] == [
        ("running", "TopicChange", 3, 4.0, 1500.0),
        ("waiting", "BrokerChange", 2, 2000.0, None),
        ("done", "Startup", 1, 2.0, 30.0),
    ]
    assert (answer.depth, answer.items[0].detail, answer.items[2].outcome) == (1, "topic=orders", "done")


async def test_only_the_first_events_of_a_long_queue_are_shown(controller: FakeController) -> None:
    controller.is_stalled = True
    for _ in range(5):
        controller.recent.record(EventBegin(1, "Startup", 1, 2.0), EventEnd(1, "Startup", "done", 30.0))
    controller.queue.put(BrokerChange())

    async with asking(controller) as client:
        answer = await client.get("/v1/queue", QueueList, limit=2)

    assert ([each.phase for each in answer.items], answer.depth) == (["waiting", "done"], 1)


async def test_requests_are_shown_by_broker(controller: FakeController) -> None:
    controller.channels[BrokerId(1)] = ChannelView(2, 0.5, bytes_waiting=800, in_flight="UpdateMetadata", last_sent_s=2)
    controller.pending[BrokerId(1)] = [QueuedRequest("UpdateMetadata", 4, 0.5, 1, in_flight=True)] * 3

    async with asking(controller) as client:
        one, two = (await client.get("/v1/requests", RequestQueueList, limit=2)).items
        only = (await client.get("/v1/requests", RequestQueueList, broker=2)).items

    assert (one.broker, one.bytes_waiting, one.in_flight, len(one.waiting)) == (1, 800, "UpdateMetadata", 2)
    assert (one.last_sent, one.last_answered) == ("2023-11-14T22:17:30.000Z", None)
    assert (two.connected, two.error) == (False, "refused")
    assert [each.broker for each in only] == [2]


async def test_a_broker_without_a_channel_has_nothing_waiting(controller: FakeController) -> None:
    async with asking(controller) as client:
        (item,) = (await client.get("/v1/requests", RequestQueueList, broker=9)).items

    assert (item.broker, item.connected, item.depth, item.waiting) == (9, False, 0, [])
