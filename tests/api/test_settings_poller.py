"""Live brokers are asked for their settings at the right times, for a bounded time; only changes are passed on."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import pytest

from controllerd.api.settings_poller import SettingsPoller
from controllerd.core.cluster_settings import NAMES, REPLICATION_FACTOR
from controllerd.core.model import Broker, BrokerId, Endpoint, SecurityProtocol
from controllerd.core.settings_book import SettingsBook
from controllerd.errors import StoreUnavailable
from events.responses import BrokerSettingsReceived
from tests.fakes.telling_broker import TellingBroker

LISTENER = "PLAINTEXT"


@dataclass
class Desk:
    """A poller over brokers that really listen, and the events that it passed on."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    passed: list[BrokerSettingsReceived] = field(default_factory=list)
    book: SettingsBook = field(default_factory=SettingsBook)
    kept: int = 0
    is_gone: bool = False
    is_emptied: bool = False
    """The queue is emptied before the next answers are taken."""
    now: float = 1000.0
    looks: int = 0
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.poller = SettingsPoller(
            self.book, self.registered, LISTENER, self.take, lambda: self.now, keep=self.keep, ask_s=0.2
        )

    async def registered(self) -> Sequence[Broker]:
        """Return the registered brokers, as ZooKeeper would."""
        self.looks += 1
        self.looked.set()
        if self.is_gone:
            raise StoreUnavailable("no connection")
        return list(self.brokers.values())

    async def keep(self) -> None:
        """Count."""
        self.kept += 1

    def take(self, event: BrokerSettingsReceived) -> None:
        """Take the answers, as the event task does."""
        self.passed.append(event)
        self.heard.set()
        if self.is_emptied:
            self.is_emptied = False
            return
        self.book.take(event.answers, event.registered)

    def register(self, broker: TellingBroker, *, epoch: int = 1) -> None:
        """Register a broker."""
        endpoint = Endpoint(LISTENER, "127.0.0.1", broker.port, SecurityProtocol.PLAINTEXT)
        self.brokers[broker.id] = Broker(BrokerId(broker.id), epoch, (endpoint,))


async def test_all_brokers_are_asked_at_once_in_one_request_each_for_every_setting() -> None:
    desk = Desk()
    async with TellingBroker(1) as one, TellingBroker(2, {REPLICATION_FACTOR: "3"}) as two:
        for broker in (one, two):
            desk.register(broker)
        await desk.poller.round()

    assert (one.asked, two.asked) == ([sorted(NAMES)], [sorted(NAMES)])
    (event,) = desk.passed
    assert {broker: answer.values[REPLICATION_FACTOR] for broker, answer in event.answers.items()} == {1: "1", 2: "3"}


async def test_unchanged_answers_put_nothing_into_the_queue() -> None:
    desk = Desk()
    async with TellingBroker(1) as one:
        desk.register(one)
        await desk.poller.round()
        desk.now += 40
        await desk.poller.round()
        assert (len(one.asked), len(desk.passed)) == (2, 1)

        one.settings[REPLICATION_FACTOR] = "3"
        desk.now += 40
        await desk.poller.round()

    assert len(desk.passed) == 2
    assert desk.book.policy.default_replication_factor == 3


async def test_an_answer_that_was_lost_with_the_queue_is_asked_for_again_soon() -> None:
    """A new session empties the queue of events."""
    desk = Desk()
    async with TellingBroker(1) as one:
        desk.register(one)
        desk.is_emptied = True
        await desk.poller.round()
        asked = []
        for after_s in (4, 2, 6, 25):
            desk.now += after_s
            await desk.poller.round()
            asked.append(len(one.asked))

    assert asked == [1, 2, 3, 3]
    assert desk.book.unanswered({BrokerId(1): 1}) == ()


async def test_a_broker_that_says_nothing_delays_no_other_and_is_asked_again_with_more_time() -> None:
    desk = Desk()
    async with TellingBroker(1, is_silent=True) as silent, TellingBroker(2) as two:
        desk.register(silent)
        desk.register(two)
        began = asyncio.get_running_loop().time()
        await desk.poller.round()
        assert asyncio.get_running_loop().time() - began < 2
        assert set(desk.passed[0].answers) == {2}

        silent.is_silent = False
        assert not desk.poller.has_heard_all.is_set()
        await until_ended(desk)
        desk.now += 1
        await desk.poller.round()

    assert desk.poller.has_heard_all.is_set()
    assert set(desk.book.remembered().answers) == {1, 2}


async def test_a_new_life_of_a_broker_is_asked_at_once_and_one_that_answered_is_left_alone() -> None:
    desk = Desk()
    async with TellingBroker(1) as one, TellingBroker(2) as two:
        desk.register(one)
        desk.register(two)
        await desk.poller.round()
        desk.register(two, epoch=9)
        await desk.poller.round()

    assert (len(one.asked), len(two.asked)) == (1, 2)


async def test_after_a_change_in_zookeeper_all_brokers_are_asked_twice() -> None:
    desk = Desk()
    async with TellingBroker(1) as one:
        desk.register(one)
        await desk.poller.round()
        desk.poller.ask_soon()
        for _ in range(8):
            desk.now += 1
            await desk.poller.round()

    assert len(one.asked) == 3


@pytest.mark.parametrize("error", [29, 31], ids=["topic authorization", "cluster authorization"])
async def test_a_broker_that_does_not_let_us_read_has_an_authorizer(error: int) -> None:
    desk = Desk()
    async with TellingBroker(1, error=error) as one:
        desk.register(one)
        await desk.poller.round()

    refusal = desk.book.current.refusal
    assert (refusal is not None and refusal.startswith("authorizer.class.name")) == (error == 31)


async def test_an_answer_that_makes_no_sense_is_none() -> None:
    desk = Desk()
    async with TellingBroker(1, {REPLICATION_FACTOR: "several"}) as one:
        desk.register(one)
        await desk.poller.round()

    assert not desk.book.remembered().answers


async def test_without_zookeeper_and_without_brokers_it_goes_on_asking() -> None:
    desk = Desk(is_gone=True)
    task = asyncio.create_task(desk.poller.run())
    async with asyncio.timeout(5), TellingBroker(1) as one:
        await desk.looked.wait()
        assert not desk.poller.has_heard_all.is_set()
        desk.is_gone = False
        desk.register(one)
        desk.poller.look()
        await desk.heard.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert desk.kept >= 1


async def test_a_broker_that_hangs_does_not_delay_what_the_others_say() -> None:
    """It has more time at each question; a change on another broker is passed on meanwhile."""
    desk = Desk()
    async with TellingBroker(1, is_silent=True) as one, TellingBroker(2) as two:
        desk.register(one)
        desk.register(two)
        for _ in range(5):
            await desk.poller.round()
            await until_ended(desk)
            desk.now += 40
        two.settings[REPLICATION_FACTOR] = "3"
        while desk.book.current.settings[REPLICATION_FACTOR].brokers != {2: "3"}:
            await desk.poller.round()

        (hanging,) = desk.poller._asking.values()
        assert not hanging.done(), "it has 6.4 s now"


async def test_a_late_answer_is_passed_on_by_a_later_round() -> None:
    desk = Desk()
    async with TellingBroker(1) as one:
        await question_under_way(desk, one)
        assert [event.answers for event in desk.passed] == [{}]
        one.gate.set()
        await until_ended(desk)
        await desk.poller.round()

    assert [list(event.answers) for event in desk.passed] == [[], [1]]
    assert desk.poller.has_heard_all.is_set()


async def test_an_answer_that_comes_after_the_last_look_before_its_broker_dies_is_passed_on() -> None:
    """Broker 2 may have turned a switch off, which then holds beyond its death."""
    desk = Desk()
    async with TellingBroker(2) as two:
        await question_under_way(desk, two)
        two.gate.set()
        await until_ended(desk)
        del desk.brokers[2]
        await desk.poller.round()

    assert [list(event.answers) for event in desk.passed] == [[], [2]]
    assert desk.book.unanswered({BrokerId(2): 1}) == ()


async def test_zookeeper_that_is_away_is_asked_less_and_less_often() -> None:
    desk = Desk(is_gone=True)

    assert [await desk.poller.round() for _ in range(7)] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]

    desk.is_gone = False
    assert await desk.poller.round() == 5.0


async def test_zookeeper_and_a_broker_may_be_away_for_any_time() -> None:
    desk = Desk()
    desk.brokers[1] = Broker(BrokerId(1), 1, (Endpoint(LISTENER, "127.0.0.1", 1, SecurityProtocol.PLAINTEXT),))
    desk.poller._failures[BrokerId(1), 1] = desk.poller._unread = 5000

    await desk.poller.round()
    assert desk.poller._failures[BrokerId(1), 1] == 5001
    desk.is_gone = True
    desk.poller._unread = 5000
    assert await desk.poller.round() == 5.0


async def test_an_answer_that_comes_while_zookeeper_is_away_makes_the_pauses_no_shorter() -> None:
    desk = Desk()
    async with TellingBroker(1) as one:
        await question_under_way(desk, one)
        one.gate.set()
        await until_ended(desk)
        desk.is_gone = True
        before = desk.looks
        task = asyncio.create_task(desk.poller.run())
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert desk.looks == before + 1


async def test_an_answer_that_comes_while_the_settings_are_kept_is_taken_at_once() -> None:
    desk = Desk()
    async with TellingBroker(1) as one, TellingBroker(2) as two:
        desk.register(one)
        desk.register(two)
        two.gate.clear()
        desk.poller._failures[BrokerId(2), 1] = 3  # more patience than a round has

        async def keep() -> None:
            two.gate.set()
            await until_ended(desk)

        desk.poller._keep = keep
        task = asyncio.create_task(desk.poller.run())
        async with asyncio.timeout(4):  # the registered brokers are read again after 5 s
            await desk.poller.has_heard_all.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_many_brokers_that_hang_delay_no_other() -> None:
    desk = Desk()
    async with AsyncExitStack() as stack:
        for number in range(1, 18):
            desk.register(await stack.enter_async_context(TellingBroker(number, is_silent=True)))
            desk.poller._failures[BrokerId(number), 1] = 6  # 10 s of patience
        desk.register(await stack.enter_async_context(TellingBroker(50)))
        task = asyncio.create_task(desk.poller.run())
        async with asyncio.timeout(5):
            await desk.heard.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert [list(event.answers) for event in desk.passed] == [[50]]


async def test_a_question_that_is_older_than_a_change_in_zookeeper_is_repeated() -> None:
    desk = Desk()
    async with TellingBroker(1) as one:
        desk.register(one)
        one.gate.clear()
        desk.poller._failures[BrokerId(1), 1] = 6
        await desk.poller.round()
        desk.poller.ask_soon()
        desk.now += 6
        await desk.poller.round()
        one.gate.set()
        await until_ended(desk)
        one.settings[REPLICATION_FACTOR] = "3"
        await desk.poller.round()

    assert len(one.asked) == 2
    assert desk.book.current.settings[REPLICATION_FACTOR].brokers == {1: "3"}


async def question_under_way(desk: Desk, broker: TellingBroker) -> None:
    """The broker did not answer its first question in time, and holds the second one back."""
    desk.register(broker)
    broker.gate.clear()
    await desk.poller.round()
    await until_ended(desk)
    desk.now += 40
    await desk.poller.round()


async def until_ended(desk: Desk) -> None:
    """No question is under way any more; the next round takes the answers."""
    asking = desk.poller._asking.values()
    if asking:
        await asyncio.wait(asking)
