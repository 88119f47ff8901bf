"""The event queue: its order, one answer per call, and preemption."""

import asyncio

import pytest

from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from events.admin import ControlledShutdown, ControlledShutdownReply
from events.base import Event
from events.cluster import BrokerChange, Expire, Startup
from events.queue import EventQueue
from events.topics import PartitionModifications, TopicChange


class QueueClock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shutdown_of(broker: int) -> ControlledShutdown:
    return ControlledShutdown(BrokerId(broker), 7)


async def taken(queue: EventQueue) -> list[Event]:
    return [(await queue.take()).event for _ in range(len(queue))]


async def test_events_leave_in_the_order_in_which_they_came() -> None:
    queue = EventQueue(QueueClock())

    queue.put(Startup())
    queue.put(BrokerChange())
    queue.put(TopicChange())

    assert await taken(queue) == [Startup(), BrokerChange(), TopicChange()]


async def test_the_consumer_waits_for_the_first_event() -> None:
    queue = EventQueue(QueueClock())
    consumer = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)

    queue.put(BrokerChange())

    assert (await consumer).event == BrokerChange()


async def test_a_call_gets_the_reply_of_its_handler() -> None:
    queue = EventQueue(QueueClock())
    reply = queue.call(shutdown_of(1))

    (await queue.take()).answer("the reply")

    assert await reply == "the reply"  # type: ignore[comparison-overlap]  # any object serves as a reply here


async def test_only_the_first_answer_to_a_call_counts() -> None:
    queue = EventQueue(QueueClock())
    reply = queue.call(shutdown_of(1))
    queued = await queue.take()

    queued.answer("first")
    queued.answer("second")
    queued.fail(NotController("third"))

    assert await reply == "first"  # type: ignore[comparison-overlap]  # any object serves as a reply here


async def test_clear_and_put_answers_every_waiting_call_with_not_controller() -> None:
    queue = EventQueue(QueueClock())
    waiting = [queue.call(shutdown_of(1)), queue.call(shutdown_of(2))]

    queue.clear_and_put(Expire(3))

    for reply in waiting:
        with pytest.raises(NotController):
            await reply
    assert await taken(queue) == [Expire(3)]


async def test_an_event_that_is_being_handled_is_not_preempted() -> None:
    queue = EventQueue(QueueClock())
    reply = queue.call(shutdown_of(1))
    taken_event = await queue.take()

    queue.clear_and_put(Expire(1))
    taken_event.answer(ControlledShutdownReply)

    assert await reply is ControlledShutdownReply  # type: ignore[comparison-overlap]


async def test_a_cancelled_call_does_not_disturb_the_answer() -> None:
    queue = EventQueue(QueueClock())
    reply = asyncio.ensure_future(queue.call(shutdown_of(1)))
    reply.cancel()
    await asyncio.sleep(0)

    (await queue.take()).answer("no caller reads this")

    assert reply.cancelled()


async def test_closing_answers_the_remaining_calls() -> None:
    queue = EventQueue(QueueClock())
    reply = queue.call(shutdown_of(1))

    queue.close()

    with pytest.raises(NotController):
        await reply


async def test_the_age_of_the_queue_is_that_of_its_oldest_event() -> None:
    clock = QueueClock()
    queue = EventQueue(clock)
    queue.put(Startup())
    clock.now = 2.0
    queue.put(BrokerChange())
    clock.now = 5.0

    assert queue.oldest_age_s() == 5.0


async def test_an_empty_queue_has_no_age() -> None:
    assert EventQueue(QueueClock()).oldest_age_s() == 0.0


async def test_a_change_event_is_queued_once_and_again_once_it_is_being_handled_kafka_5502() -> None:
    queue = EventQueue(QueueClock())
    for _ in range(3):
        queue.put(BrokerChange())
        queue.put(PartitionModifications("a"))
        queue.put(PartitionModifications("b"))
    assert [(await queue.take()).event for _ in range(2)] == [BrokerChange(), PartitionModifications("a")]

    queue.put(BrokerChange())
    queue.put(PartitionModifications("b"))

    assert await taken(queue) == [PartitionModifications("b"), BrokerChange()]


async def test_a_preempted_event_may_be_queued_again() -> None:
    queue = EventQueue(QueueClock())
    queue.put(BrokerChange())
    queue.clear_and_put(Expire())
    queue.put(BrokerChange())
    assert await taken(queue) == [Expire(), BrokerChange()]


async def test_any_other_event_is_queued_as_often_as_it_is_put() -> None:
    queue = EventQueue(QueueClock())
    queue.put(Startup())
    queue.put(Startup())
    assert await taken(queue) == [Startup(), Startup()]


async def test_queued_events_are_listed_with_their_age_and_stay_in_the_queue() -> None:
    clock = QueueClock()
    queue = EventQueue(clock)
    queue.put(Startup())
    clock.now = 1.5
    queue.put(BrokerChange())
    queue.put(TopicChange())
    clock.now = 2.0

    shown = [(queued.number, queued.event, age_s) for queued, age_s in queue.waiting(2)]

    assert shown == [(1, Startup(), 2.0), (2, BrokerChange(), 0.5)]
    assert len(queue) == 3


async def test_events_that_were_taken_or_preempted_are_not_listed() -> None:
    queue = EventQueue(QueueClock())
    assert queue.waiting(5) == []
    queue.put(Startup())
    queue.put(BrokerChange())

    await queue.take()
    assert [queued.event for queued, _ in queue.waiting(5)] == [BrokerChange()]

    queue.close()
    assert queue.waiting(5) == []
