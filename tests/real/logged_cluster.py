"""Stock brokers under Kafka's own controller with Kafka's default logging, and the faults of the tests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

from controllerd.core.model import LeaderAndIsr
from controllerd.dev.cluster import BROKER_IDS, CHROOT, DevCluster, RealBroker
from controllerd.dev.observe import ZooKeeperObserver
from controllerd.dev.waiting import Waiting
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.real.operator import DELETE, REASSIGN, Operator, tp

LONELY, ORDERS, PAIRS, DOOMED = "lonely.rows-1", "orders", "pairs-of-2", "doomed"
"""Names with dashes, dots and numbers, which make the lines of the logs harder to parse."""
_APPENDERS: Final = {
    "kafkaAppender": "server.log",
    "stateChangeAppender": "state-change.log",
    "controllerAppender": "controller.log",
}
_PATTERN: Final = "[%d] %p %m (%c)%n"


def shipped_log4j(logs: Path) -> str:
    """The relevant part of a release's ``log4j.properties``: the loggers, their levels, and files that roll hourly."""
    lines = [
        "log4j.rootLogger=INFO, stdout, kafkaAppender",
        "log4j.appender.stdout=org.apache.log4j.ConsoleAppender",
        "log4j.appender.stdout.layout=org.apache.log4j.PatternLayout",
        f"log4j.appender.stdout.layout.ConversionPattern={_PATTERN}",
        "log4j.logger.org.apache.kafka.controller=INFO, controllerAppender",
        "log4j.additivity.org.apache.kafka.controller=false",
        "log4j.logger.kafka.controller=TRACE, controllerAppender",
        "log4j.additivity.kafka.controller=false",
        "log4j.logger.state.change.logger=INFO, stateChangeAppender",
        "log4j.additivity.state.change.logger=false",
    ]
    for name, file in _APPENDERS.items():
        lines += [
            f"log4j.appender.{name}=org.apache.log4j.DailyRollingFileAppender",
            f"log4j.appender.{name}.DatePattern='.'yyyy-MM-dd-HH",
            f"log4j.appender.{name}.File={logs / file}",
            f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout",
            f"log4j.appender.{name}.layout.ConversionPattern={_PATTERN}",
        ]
    return "".join(f"{line}\n" for line in lines)


class LoggedCluster:
    """Three brokers, one of which is the controller."""

    def __init__(self, cluster: DevCluster, zookeeper: EmbeddedZooKeeper) -> None:
        self.cluster = cluster
        self.zookeeper = zookeeper
        self.operator = Operator(cluster)
        self._waiting = Waiting(cluster, print)

    def logs(self) -> list[Path]:
        """Every file that the brokers logged to."""
        return sorted(self.cluster.directory.glob("broker-*/logs/*.log*"))

    async def controller(self) -> int:
        """The broker that leads."""
        return int((await self.operator.read("/controller"))["brokerid"])

    async def create_topics(self) -> None:
        """Topics with three replicas, with two, and with one."""
        create = self.cluster.observer.create_topic
        await create(ORDERS, {p: [1 + (p + i) % 3 for i in range(3)] for p in range(6)})
        await create(PAIRS, {p: [1 + (p + i) % 3 for i in range(2)] for p in range(3)})
        await create(LONELY, {p: [1 + p] for p in range(3)})
        await create(DOOMED, {p: [1 + (p + i) % 3 for i in range(3)] for p in range(2)})
        await self.until_whole()

    async def until_whole(self) -> None:
        """Wait until every partition has a leader and all its replicas in the ISR."""

        async def missing() -> str | None:
            view = await self.cluster.view()
            if view.leaderships.keys() != view.assignments.keys():
                return "a partition has no state yet"
            return None if view.brokers == set(BROKER_IDS) and view.is_whole() else "brokers or replicas are missing"

        await self._waiting.until(missing, "the cluster is whole")

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until a condition on the state of ZooKeeper holds."""

        async def missing() -> str | None:
            return None if await holds() else "not yet"

        await self._waiting.until(missing, what)

    async def kill(self, *brokers: int) -> None:
        """Kill brokers, wait until none of them leads a partition, and start them again."""
        for broker in brokers:
            await self.cluster.brokers[broker].kill()
        await self.until(lambda: self._is_noticed(*brokers), f"the death of {brokers} is noticed")
        await asyncio.gather(*(self.cluster.brokers[broker].start() for broker in brokers))
        await self.until_whole()

    async def _is_noticed(self, *brokers: int) -> bool:
        view = await self.cluster.view()
        states = view.leaderships.values()
        return not view.brokers & set(brokers) and all(state.leader not in brokers for state in states)

    async def shut_down(self, broker: int) -> None:
        """A controlled shutdown, and a start."""
        await self.cluster.brokers[broker].terminate()
        await self.until(lambda: self._is_noticed(broker), f"the end of {broker} is noticed")
        await self.cluster.brokers[broker].start()
        await self.until_whole()

    async def reassign(self) -> None:
        """Move a partition with two replicas, and change the order of three replicas of another."""
        await self.operator.reassign_by_znode({tp(PAIRS, 0): [3, 1], tp(ORDERS, 1): [1, 3, 2]})
        await self.until(self._is_reassigned, "the partitions are reassigned")

    async def _is_reassigned(self) -> bool:
        assigned = (await self.cluster.view()).assignments[tp(PAIRS, 0)]
        done = tuple(assigned.replicas) == (3, 1) and not assigned.adding and not assigned.removing
        return done and not await self.operator.exists(REASSIGN)

    async def delete(self, topic: str) -> None:
        """Delete a topic, and wait until it is gone."""
        await self.operator.delete_topic(topic)

        async def gone() -> bool:
            return not await self.operator.exists(f"{DELETE}/{topic}")

        await self.until(gone, f"{topic} is gone")

    async def state(self, topic: str, partition: int = 0) -> LeaderAndIsr:
        """A leadership as ZooKeeper has it."""
        return (await self.cluster.view()).leaderships[tp(topic, partition)]


@asynccontextmanager
async def open_logged_cluster(directory: Path) -> AsyncIterator[LoggedCluster]:
    """ZooKeeper and three brokers, without controllerd; all processes end on exit."""
    async with AsyncExitStack() as stack:
        zookeeper = EmbeddedZooKeeper(directory / "zookeeper")
        await stack.enter_async_context(zookeeper)
        observer = await stack.enter_async_context(ZooKeeperObserver(f"{zookeeper.connect}{CHROOT}"))
        brokers = {n: _broker(n, f"{zookeeper.connect}{CHROOT}", directory / f"broker-{n}") for n in BROKER_IDS}
        for broker in brokers.values():
            stack.push_async_callback(broker.close)
        await asyncio.gather(*(broker.start() for broker in brokers.values()))
        logged = LoggedCluster(DevCluster("kafka", directory, zookeeper, observer, brokers, []), zookeeper)
        await logged.operator.open()
        stack.push_async_callback(logged.operator.close)
        yield logged


def _broker(number: int, connect: str, home: Path) -> RealBroker:
    home.mkdir(parents=True)
    return RealBroker(number, connect, home, log4j=shipped_log4j(home.absolute() / "logs"))
