"""Live brokers are asked for their settings at the right times and for a bounded time; only changes become events."""

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
from tests.fakes.settings_broker import SettingsBroker

LISTENER = "PLAINTEXT"


@dataclass
class PolledCluster:
    """A settings poller, listening brokers, and the events that the poller emitted."""

    brokers: dict[int, Broker] = field(default_factory=dict)
    passed: list[BrokerSettingsReceived] = field(default_factory=list)
    book: SettingsBook = field(default_factory=SettingsBook)
    kept: int = 0
    is_gone: bool = False
    is_emptied: bool = False
    """Whether the queue is emptied before the next answers are handled."""
    now: float = 1000.0
    reads: int = 0
    was_read: asyncio.Event = field(default_factory=asyncio.Event)
    received: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.poller = SettingsPoller(
            self.book, self.registered, LISTENER, self.take, lambda: self.now, keep=self.keep, ask_s=0.2
        )

    async def registered(self) -> Sequence[Broker]:
        """Return the registered brokers, as ZooKeeper would."""
        self.reads += 1
        self.was_read.set()
        if self.is_gone:
            raise StoreUnavailable("no connection")
        return list(self.brokers.values())

    async def keep(self) -> None:
        """Count the calls."""
        self.kept += 1

    def take(self, event: BrokerSettingsReceived) -> None:
        """Take the answers, as the event task does."""
        self.passed.append(event)
        self.received.set()
        if self.is_emptied:
            self.is_emptied = False
            return
        self.book.take(event.answers, event.registered)

    def register(self, broker: SettingsBroker, *, epoch: int = 1) -> None:
        """Register a broker."""
        endpoint = Endpoint(LISTENER, "127.0.0.1", broker.port, SecurityProtocol.PLAINTEXT)
        self.brokers[broker.id] = Broker(BrokerId(broker.id), epoch, (endpoint,))


async def test_all_brokers_are_asked_at_once_in_one_request_each_for_every_setting() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one, SettingsBroker(2, {REPLICATION_FACTOR: "3"}) as two:
        for broker in (one, two):
            cluster.register(broker)
        await cluster.poller.round()

    assert (one.asked, two.asked) == ([sorted(NAMES)], [sorted(NAMES)])
    (event,) = cluster.passed
    assert {broker: answer.values[REPLICATION_FACTOR] for broker, answer in event.answers.items()} == {1: "1", 2: "3"}


async def test_unchanged_answers_cause_no_event() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        cluster.register(one)
        await cluster.poller.round()
        cluster.now += 40
        await cluster.poller.round()
        assert (len(one.asked), len(cluster.passed)) == (2, 1)

        one.settings[REPLICATION_FACTOR] = "3"
        cluster.now += 40
        await cluster.poller.round()

    assert len(cluster.passed) == 2
    assert cluster.book.policy.default_replication_factor == 3


async def test_an_answer_that_was_lost_with_the_queue_is_asked_for_again_soon() -> None:
    """A new session empties the queue of events."""
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        cluster.register(one)
        cluster.is_emptied = True
        await cluster.poller.round()
        asked = []
        for after_s in (4, 2, 6, 25):
            cluster.now += after_s
            await cluster.poller.round()
            asked.append(len(one.asked))

    assert asked == [1, 2, 3, 3]
    assert cluster.book.unanswered({BrokerId(1): 1}) == ()


async def test_a_silent_broker_delays_no_other_and_is_asked_again_with_more_time() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1, is_silent=True) as silent, SettingsBroker(2) as two:
        cluster.register(silent)
        cluster.register(two)
        began = asyncio.get_running_loop().time()
        await cluster.poller.round()
        assert asyncio.get_running_loop().time() - began < 2
        assert set(cluster.passed[0].answers) == {2}

        silent.is_silent = False
        assert not cluster.poller.every_broker_answered.is_set()
        await until_ended(cluster)
        cluster.now += 1
        await cluster.poller.round()

    assert cluster.poller.every_broker_answered.is_set()
    assert set(cluster.book.remembered().answers) == {1, 2}


async def test_a_new_broker_epoch_is_asked_at_once_and_a_broker_that_answered_is_not() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one, SettingsBroker(2) as two:
        cluster.register(one)
        cluster.register(two)
        await cluster.poller.round()
        cluster.register(two, epoch=9)
        await cluster.poller.round()

    assert (len(one.asked), len(two.asked)) == (1, 2)


async def test_after_a_change_in_zookeeper_all_brokers_are_asked_twice() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        cluster.register(one)
        await cluster.poller.round()
        cluster.poller.ask_soon()
        for _ in range(8):
            cluster.now += 1
            await cluster.poller.round()

    assert len(one.asked) == 3


@pytest.mark.parametrize("error", [29, 31], ids=["topic authorization", "cluster authorization"])
async def test_a_cluster_authorization_error_means_that_the_broker_has_an_authorizer(error: int) -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1, error=error) as one:
        cluster.register(one)
        await cluster.poller.round()

    refusal = cluster.book.current.refusal
    assert (refusal is not None and refusal.startswith("authorizer.class.name")) == (error == 31)


async def test_an_invalid_answer_is_ignored() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1, {REPLICATION_FACTOR: "several"}) as one:
        cluster.register(one)
        await cluster.poller.round()

    assert not cluster.book.remembered().answers


async def test_without_zookeeper_and_without_brokers_the_poller_retries() -> None:
    cluster = PolledCluster(is_gone=True)
    task = asyncio.create_task(cluster.poller.run())
    async with asyncio.timeout(5), SettingsBroker(1) as one:
        await cluster.was_read.wait()
        assert not cluster.poller.every_broker_answered.is_set()
        cluster.is_gone = False
        cluster.register(one)
        cluster.poller.start_round()
        await cluster.received.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    assert cluster.kept >= 1


async def test_a_silent_broker_does_not_delay_the_answers_of_others() -> None:
    """A silent broker gets more time with each request. A change on another broker becomes an event meanwhile."""
    cluster = PolledCluster()
    async with SettingsBroker(1, is_silent=True) as one, SettingsBroker(2) as two:
        cluster.register(one)
        cluster.register(two)
        for _ in range(5):
            await cluster.poller.round()
            await until_ended(cluster)
            cluster.now += 40
        two.settings[REPLICATION_FACTOR] = "3"
        while cluster.book.current.settings[REPLICATION_FACTOR].brokers != {2: "3"}:
            await cluster.poller.round()

        (hanging,) = cluster.poller._asking.values()
        assert not hanging.done(), "it has 6.4 s now"


async def test_a_late_answer_becomes_an_event_in_a_later_round() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        await request_in_flight(cluster, one)
        assert [event.answers for event in cluster.passed] == [{}]
        one.gate.set()
        await until_ended(cluster)
        await cluster.poller.round()

    assert [list(event.answers) for event in cluster.passed] == [[], [1]]
    assert cluster.poller.every_broker_answered.is_set()


async def test_an_answer_after_the_last_round_before_the_failure_of_its_broker_becomes_an_event() -> None:
    """Broker 2 may have disabled unclean elections, which then holds beyond its failure."""
    cluster = PolledCluster()
    async with SettingsBroker(2) as two:
        await request_in_flight(cluster, two)
        two.gate.set()
        await until_ended(cluster)
        del cluster.brokers[2]
        await cluster.poller.round()

    assert [list(event.answers) for event in cluster.passed] == [[], [2]]
    assert cluster.book.unanswered({BrokerId(2): 1}) == ()


async def test_an_unreachable_zookeeper_is_asked_less_and_less_often() -> None:
    cluster = PolledCluster(is_gone=True)

    assert [await cluster.poller.round() for _ in range(7)] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0]

    cluster.is_gone = False
    assert await cluster.poller.round() == 5.0


async def test_zookeeper_and_a_broker_may_be_unreachable_for_any_time() -> None:
    cluster = PolledCluster()
    cluster.brokers[1] = Broker(BrokerId(1), 1, (Endpoint(LISTENER, "127.0.0.1", 1, SecurityProtocol.PLAINTEXT),))
    cluster.poller._failures[BrokerId(1), 1] = cluster.poller._unread = 5000

    await cluster.poller.round()
    assert cluster.poller._failures[BrokerId(1), 1] == 5001
    cluster.is_gone = True
    cluster.poller._unread = 5000
    assert await cluster.poller.round() == 5.0


async def test_an_answer_while_zookeeper_is_unreachable_does_not_shorten_the_pauses() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        await request_in_flight(cluster, one)
        one.gate.set()
        await until_ended(cluster)
        cluster.is_gone = True
        before = cluster.reads
        task = asyncio.create_task(cluster.poller.run())
        for _ in range(100):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert cluster.reads == before + 1


async def test_an_answer_while_the_settings_are_written_to_disk_is_handled_at_once() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one, SettingsBroker(2) as two:
        cluster.register(one)
        cluster.register(two)
        two.gate.clear()
        cluster.poller._failures[BrokerId(2), 1] = 3  # more patience than a round has

        async def keep() -> None:
            two.gate.set()
            await until_ended(cluster)

        cluster.poller._keep = keep
        task = asyncio.create_task(cluster.poller.run())
        async with asyncio.timeout(4):  # the registered brokers are read again after 5 s
            await cluster.poller.every_broker_answered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_many_silent_brokers_delay_no_other() -> None:
    cluster = PolledCluster()
    async with AsyncExitStack() as stack:
        for number in range(1, 18):
            cluster.register(await stack.enter_async_context(SettingsBroker(number, is_silent=True)))
            cluster.poller._failures[BrokerId(number), 1] = 6  # 10 s of patience
        cluster.register(await stack.enter_async_context(SettingsBroker(50)))
        task = asyncio.create_task(cluster.poller.run())
        async with asyncio.timeout(5):
            await cluster.received.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert [list(event.answers) for event in cluster.passed] == [[50]]


async def test_a_request_that_is_older_than_a_change_in_zookeeper_is_repeated() -> None:
    cluster = PolledCluster()
    async with SettingsBroker(1) as one:
        cluster.register(one)
        one.gate.clear()
        cluster.poller._failures[BrokerId(1), 1] = 6
        await cluster.poller.round()
        cluster.poller.ask_soon()
        cluster.now += 6
        await cluster.poller.round()
        one.gate.set()
        await until_ended(cluster)
        one.settings[REPLICATION_FACTOR] = "3"
        await cluster.poller.round()

    assert len(one.asked) == 2
    assert cluster.book.current.settings[REPLICATION_FACTOR].brokers == {1: "3"}


async def request_in_flight(cluster: PolledCluster, broker: SettingsBroker) -> None:
    """The broker did not answer the first request in time, and delays the answer to the second one."""
    cluster.register(broker)
    broker.gate.clear()
    await cluster.poller.round()
    await until_ended(cluster)
    cluster.now += 40
    await cluster.poller.round()


async def until_ended(cluster: PolledCluster) -> None:
    """Wait until no request is in flight; the next round handles the answers."""
    asking = cluster.poller._asking.values()
    if asking:
        await asyncio.wait(asking)
