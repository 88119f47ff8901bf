"""The same requests to the built-in controller and, after a takeover, to controllerd, on one cluster.

Error codes, messages and all other fields of the answers have to be the same. The allowed differences, with reasons,
are in ``comparison/differences.toml``. A row of that file without a difference is an error as well.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from controllerd.core.model import BrokerId
from controllerd.dev.cluster import BROKER_IDS, CHROOT, FIRST_NODE_ID, DevCluster, RealBroker
from controllerd.dev.controllers import ControllerProcess
from controllerd.dev.observe import ZooKeeperObserver
from controllerd.dev.ports import LOOPBACK
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from tests.real.comparison import others, plan
from tests.real.comparison.asking import (
    HUNG_UP,
    NO_ANSWER,
    PHASE,
    ROUNDS,
    Difference,
    asked,
    asked_all,
    differences,
    errors,
    justified,
)
from tests.real.comparison.creations import ORDERS
from tests.real.operator import tp
from tests.real.scene import NO_REBALANCE, SMALL_FETCHES, Scene
from wire.errors import WireError
from wire.metadata import ClusterMetadata, fetch_metadata

SESSION_MS: Final = 6_000
AWAY: Final = 3
OVERRIDES: Final = {**SMALL_FETCHES, "auto.leader.rebalance.enable": "false"}
THROTTLED: Final = "throttling_quota_exceeded"
PROMISED: Final = 120
"""The least number of refused requests that must be compared."""
_PROBES: Final = 50

Answers = dict[str, list[str]]


class Rounds:
    """One cluster whose controllers are sent every request, once the built-in one and once controllerd."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.scene = Scene(cluster)

    async def until(self, holds: Callable[[Mapping[str, ClusterMetadata]], bool], what: str) -> None:
        """Wait until a condition on the metadata of every running broker holds."""

        async def seen() -> bool:
            try:
                return holds(await self.cluster.metadata())
            except (OSError, WireError):
                return False

        await self.scene.until_seen(seen, what)

    async def first(self) -> Answers:
        """The answers of a broker's own controller."""
        metadata = await fetch_metadata(LOOPBACK, self.cluster.brokers[1].port)
        leader = metadata.controller_id
        assert leader in BROKER_IDS
        assert leader != AWAY, "the broker that goes away must not lead"
        other = next(broker for broker in BROKER_IDS if broker not in {leader, AWAY})
        ports = self.cluster.brokers[leader].port, self.cluster.brokers[other].port
        return await self.all_answers(*ports, ROUNDS[0])

    async def second(self) -> Answers:
        """The answers of controllerd, beside a standby instance."""
        for controller in self.cluster.controllers:
            await controller.start()
        leader, standby = self.cluster.controllers
        assert await leader.is_active()
        await self.until(
            lambda by_broker: all(m.controller_id == FIRST_NODE_ID for m in by_broker.values()), "all follow it"
        )
        return await self.all_answers(leader.kafka_port.port, standby.kafka_port.port, ROUNDS[1])

    async def all_answers(self, port: int, passive: int, phase: str) -> Answers:
        """The answers to all requests, in their order."""
        stuck = others.STUCK.replace(PHASE, phase)

        async def ask(part: str) -> Answers:
            return await asked_all(plan.PARTS[part], port, passive, phase)

        answers = await ask(plan.BEGIN)
        await self.scene.throttle(
            stuck, 2
        )  # before there are records to fetch: brokers apply the throttle some time later
        await self.scene.ballast(stuck)
        answers |= await ask(plan.STUCK)
        answers |= await ask(plan.MOST)
        answers |= await ask(plan.UNSTUCK)
        await self.scene.unthrottle(2)
        answers |= await ask(plan.LIMITS)
        await self.until_limited(port, phase)
        answers |= await ask(plan.LAST)
        answers |= await self.while_away(port, passive, phase)
        assert answers.keys() == {ask.id for ask in plan.EVERYTHING}
        return answers

    async def until_limited(self, port: int, phase: str) -> None:
        """Wait until the controller knows the quotas; the quota of the probe is written last."""
        for number in range(_PROBES):
            if any(THROTTLED in line for line in await asked(others.probe(number), port, phase)):
                return
        pytest.fail("the quota is not in force")

    async def while_away(self, port: int, passive: int, phase: str) -> Answers:
        """The answers while a broker is down."""
        alone, away, orders = (name.replace(PHASE, phase) for name in (others.ALONE, others.AWAY, ORDERS))
        broker = self.scene.broker(AWAY)
        await broker.terminate()

        async def noticed() -> bool:
            view = await self.cluster.view()
            return AWAY not in view.brokers and view.leaderships[tp(alone)].leader == -1

        await self.scene.until_seen(noticed, "the controller has noticed that the broker is gone")
        await self.until(lambda by_broker: all(AWAY not in m.brokers for m in by_broker.values()), "so have the others")
        answers = await asked_all(plan.PARTS[plan.AWAY], port, passive, phase)
        await broker.start()

        async def whole() -> bool:
            states = (await self.cluster.view()).leaderships
            is_back = all(BrokerId(AWAY) in states[one].isr for one in (tp(away), tp(orders, 1), tp(orders, 2)))
            return is_back and states[tp(alone)].leader == AWAY

        await self.scene.until_seen(whole, "it is back in sync")
        return answers


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Rounds]:
    """Three brokers, one of the first two as the controller, and two instances of controllerd that are not started."""
    async with AsyncExitStack() as stack:
        zookeeper = await stack.enter_async_context(EmbeddedZooKeeper(directory / "zookeeper"))
        connect = f"{zookeeper.connect}{CHROOT}"
        observer = await stack.enter_async_context(ZooKeeperObserver(connect))
        brokers = {n: RealBroker(n, connect, directory / f"broker-{n}", overrides=OVERRIDES) for n in BROKER_IDS}
        for broker in brokers.values():
            stack.push_async_callback(broker.close)
        await brokers[1].start()
        await asyncio.gather(*(broker.start() for number, broker in brokers.items() if number != 1))
        controllers = [
            ControllerProcess(
                FIRST_NODE_ID + number,
                connect,
                directory / f"controllerd-{number}",
                session_timeout_ms=SESSION_MS,
                settings=NO_REBALANCE,
            )
            for number in range(2)
        ]
        for controller in controllers:
            stack.push_async_callback(controller.close)
        cluster = DevCluster("kafka", directory, zookeeper, observer, brokers, controllers)
        rounds = Rounds(cluster)
        await rounds.scene.operator.open()
        stack.push_async_callback(rounds.scene.operator.close)
        all_brokers = set(BROKER_IDS)
        await rounds.until(
            lambda by_broker: all(set(m.brokers) == all_brokers for m in by_broker.values()), "all know each other"
        )
        yield rounds


@pytest.mark.kafka
@pytest.mark.real
@pytest.mark.timeout(540)
async def test_l_every_answer_equals_that_of_the_built_in_controller(tmp_path: Path) -> None:
    async with opened(tmp_path) as rounds:
        built_in = await rounds.first()
        controllerd = await rounds.second()
    (tmp_path / "answers.json").write_text(json.dumps([built_in, controllerd], indent=1))
    found, rows = differences(built_in, controllerd), justified()
    refused = {key for key, answer in built_in.items() if errors(answer)}
    _print_summary(built_in, refused, found)

    assert [str(d) for d in found if not any(row.covers(d) for row in rows)] == []
    assert [what for row in rows for what in row.unused(found)] == []
    assert len(refused) >= PROMISED
    answers = [*built_in.items(), *controllerd.items()]
    assert [key for key, answer in answers if answer == [NO_ANSWER]] == []


def _print_summary(built_in: Answers, refused: set[str], found: list[Difference]) -> None:
    other = {difference.id for difference in found}
    print(f"{len(built_in)} requests, {len(built_in) - len(other)} answered alike, {len(other)} otherwise")
    print(f"{len(refused)} refused by the built-in controller, {len(refused - other)} of them alike:")
    print(f"    {dict(Counter(error for key in refused for error in errors(built_in[key])))}")
    print(f"{[key for key, answer in built_in.items() if answer == [HUNG_UP]]} are answered by hanging up")
    for difference in found:
        print(difference)
