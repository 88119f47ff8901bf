"""The queue: one order, one answer per call, preemption."""

import asyncio

import pytest

from controllerd.core.model import BrokerId
from controllerd.errors import NotController
from events.admin import ControlledShutdown, ControlledShutdownReply
from events.base import Event
from events.cluster import BrokerChange, Expire, Startup
from events.queue import EventQueue
from events.topics import PartitionModifications, TopicChange


class ManualClock:
    """Time that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def shutdown_of(broker: int) -> ControlledShutdown:
    return ControlledShutdown(BrokerId(broker), 7)


async def taken(queue: EventQueue) -> list[Event]:
    return [(await queue.take()).event for _ in range(len(queue))]


async def test_events_leave_in_the_order_in_which_they_came() -> None:
    queue = EventQueue(ManualClock())

    queue.put(Startup())
    queue.put(BrokerChange())
    queue.put(TopicChange())

    assert await taken(queue) == [Startup(), BrokerChange(), TopicChange()]


async def test_the_consumer_waits_for_the_first_event() -> None:
    queue = EventQueue(ManualClock())
    consumer = asyncio.ensure_future(queue.take())
    await asyncio.sleep(0)

    queue.put(BrokerChange())

    assert (await consumer).event == BrokerChange()


async def test_a_call_gets_the_reply_of_its_handler() -> None:
    queue = EventQueue(ManualClock())
    reply = queue.call(shutdown_of(1))

    (await queue.take()).answer("the reply")

    assert await reply == "the reply"  # type: ignore[comparison-overlap]  # any object serves as a reply here


async def test_only_the_first_answer_to_a_call_counts() -> None:
    queue = EventQueue(ManualClock())
    reply = queue.call(shutdown_of(1))
    queued = await queue.take()

    queued.answer("first")
    queued.answer("second")
    queued.fail(NotController("third"))

    assert await reply == "first"  # type: ignore[comparison-overlap]  # any object serves as a reply here


async def test_clear_and_put_answers_every_waiting_call_with_not_controller() -> None:
    queue = EventQueue(ManualClock())
    waiting = [queue.call(shutdown_of(1)), queue.call(shutdown_of(2))]

    queue.clear_and_put(Expire(3))

    for reply in waiting:
        with pytest.raises(NotController):
            await reply
    assert await taken(queue) == [Expire(3)]


async def test_an_event_in_work_is_not_preempted() -> None:
    queue = EventQueue(ManualClock())
    reply = queue.call(shutdown_of(1))
    in_work = await queue.take()

    queue.clear_and_put(Expire(1))
    in_work.answer(ControlledShutdownReply)

    assert await reply is ControlledShutdownReply  # type: ignore[comparison-overlap]


async def test_a_caller_that_gave_up_does_not_disturb_the_answer() -> None:
    queue = EventQueue(ManualClock())
    reply = asyncio.ensure_future(queue.call(shutdown_of(1)))
    reply.cancel()
    await asyncio.sleep(0)

    (await queue.take()).answer("nobody reads this")

    assert reply.cancelled()


async def test_closing_answers_what_is_left() -> None:
    queue = EventQueue(ManualClock())
    reply = queue.call(shutdown_of(1))

    queue.close()

    with pytest.raises(NotController):
        await reply


async def test_the_age_is_that_of_the_oldest_event() -> None:
    clock = ManualClock()
    queue = EventQueue(clock)
    queue.put(Startup())
    clock.now = 2.0
    queue.put(BrokerChange())
    clock.now = 5.0

    assert queue.oldest_age_s() == 5.0


async def test_an_empty_queue_has_no_age() -> None:
    assert EventQueue(ManualClock()).oldest_age_s() == 0.0


async def test_an_event_that_says_where_to_look_waits_once_and_again_once_it_is_in_work_kafka_5502() -> None:
    queue = EventQueue(ManualClock())
    for _ in range(3):
        queue.put(BrokerChange())
        queue.put(PartitionModifications("a"))
        queue.put(PartitionModifications("b"))
    assert [(await queue.take()).event for _ in range(2)] == [BrokerChange(), PartitionModifications("a")]

    queue.put(BrokerChange())
    queue.put(PartitionModifications("b"))

    assert await taken(queue) == [PartitionModifications("b"), BrokerChange()]


async def test_what_was_preempted_may_come_again() -> None:
    queue = EventQueue(ManualClock())
    queue.put(BrokerChange())
    queue.clear_and_put(Expire())
    queue.put(BrokerChange())
    assert await taken(queue) == [Expire(), BrokerChange()]


async def test_any_other_event_waits_as_often_as_it_came() -> None:
    queue = EventQueue(ManualClock())
    queue.put(Startup())
    queue.put(Startup())
    assert await taken(queue) == [Startup(), Startup()]


async def test_what_waits_is_shown_with_its_age_and_stays() -> None:
    clock = ManualClock()
    queue = EventQueue(clock)
    queue.put(Startup())
    clock.now = 1.5
    queue.put(BrokerChange())
    queue.put(TopicChange())
    clock.now = 2.0

    shown = [(queued.number, queued.event, age_s) for queued, age_s in queue.waiting(2)]

    assert shown == [(1, Startup(), 2.0), (2, BrokerChange(), 0.5)]
    assert len(queue) == 3


async def test_what_was_taken_or_preempted_waits_no_more() -> None:
    queue = EventQueue(ManualClock())
    assert queue.waiting(5) == []
    queue.put(Startup())
    queue.put(BrokerChange())

    await queue.take()
    assert [queued.event for queued, _ in queue.waiting(5)] == [BrokerChange()]

    queue.close()
    assert queue.waiting(5) == []
