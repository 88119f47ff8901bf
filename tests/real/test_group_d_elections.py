"""Elections with and without a live ISR member (scenarios.md, group D), on stock brokers."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from controllerd.core.model import LeaderRecoveryState
from controllerd.dev.verification import consume_all
from controllerd.record.records import DecisionRecord, EventBegin, EventEnd
from tests.real.operator import tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, SMALL_FETCHES, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="module"),
]

SESSION_MS: Final = 14_000
"""The session timeout of controllerd: a broker that fails with it is gone from ZooKeeper before the next election."""
LEADERLESS_S: Final = SESSION_MS / 1000 + 2 * SESSION_S
ALL_DOWN_S: Final = 90.0
"""With two of three brokers down, records that need two replicas are not acknowledged."""
UNCLEAN: Final = "unclean.leader.election.enable"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("elections")
    async with open_scene(
        directory, instances=2, session_ms=SESSION_MS, overrides=SMALL_FETCHES, settings=NO_REBALANCE
    ) as scene:
        yield scene


async def unclean_elections(scene: Scene, since: float) -> set[str]:
    """The topics with an unclean election."""
    decisions = await scene.logged(DecisionRecord, since_s=since)
    return {t for _, d in decisions for t, was_unclean in zip(d.topics, d.unclean, strict=True) if was_unclean}


async def test_d1_a_killed_leader_is_replaced_from_the_isr_at_the_next_epoch(scene: Scene) -> None:
    async with scene.row("D1"):
        await scene.create("d1", {0: [1, 2, 3]})
        async with scene.load_on("d1"):
            await scene.kill(1)
            await scene.until_led("d1", 2, 1, [2, 3])


async def test_d1_a_leader_killed_together_with_the_controller_costs_two_epochs(scene: Scene) -> None:
    async with scene.row("D1 with a failover", within_s=LEADERLESS_S):
        await scene.create("d1-failover", {0: [1, 2, 3]})
        active = await scene.waiting.active()
        async with scene.load_on("d1-failover"):
            active.process.pause()
            await scene.broker(1).kill()

            async def unregistered() -> bool:
                return (await scene.cluster.view()).brokers == {2, 3}

            await scene.until_seen(unregistered, "the broker is gone, which no controller noticed")
            await active.process.kill()
            await scene.until_led("d1-failover", 2, 2, [2, 3])


async def test_d2_d4_d5_d10_without_an_isr_member_no_replica_leads_until_the_last_one_returns(scene: Scene) -> None:
    async with scene.row("D2, D4, D5, D10", within_s=ALL_DOWN_S):
        await scene.create("d2", {0: [1, 2]}, ONE_ALONE)
        await scene.create("d4", {0: [1, 2]}, {**ONE_ALONE, UNCLEAN: "true"})
        await scene.create("d5", {0: [1]}, {**ONE_ALONE, UNCLEAN: "true"})
        since = time.monotonic()
        async with scene.load_on("d2"):
            await scene.shut_down(2)
            await scene.until_led("d2", 1, 1, [1])
            await scene.kill(1)
            for topic, epoch in (("d2", 2), ("d4", 2), ("d5", 1)):
                await scene.until_led(topic, -1, epoch, [1])
            assert await unclean_elections(scene, since) == set()

            await scene.start(1)
            for topic, epoch in (("d2", 3), ("d4", 3), ("d5", 2)):
                await scene.until_led(topic, 1, epoch, [1])
            await scene.start(2)
            await scene.until_led("d2", 1, 3, [1, 2])
        assert await unclean_elections(scene, since) == set()


async def test_d3_d6_d8_d9_a_replica_out_of_sync_leads_where_unclean_elections_are_allowed(scene: Scene) -> None:
    """Broker 2 lacks records that broker 1 has, when broker 1 fails. Those records are lost, as the topics allow."""
    topics = {"d3": {UNCLEAN: "true"}, "d6": {UNCLEAN: "false"}, "d8": {}, "d8-later": {}, "d9": {}}
    async with scene.row("D3, D6, D8, D9", within_s=ALL_DOWN_S):
        for topic, configs in topics.items():
            await scene.create(topic, {0: [1, 2]}, {**ONE_ALONE, **configs})
            await scene.throttle(topic, 2)
        await scene.shut_down(2)
        for topic in topics:
            await scene.until_led(topic, 1, 1, [1])
            await scene.ballast(topic)
        await scene.start(2)
        await scene.until_others_in_sync(topics)
        since, epoch = time.monotonic(), await scene.epoch()

        await enabled_for(scene, "d8")
        await scene.until_led("d8", 1, 1, [1])
        await scene.kill(1)

        for topic in ("d3", "d8"):
            await scene.until_led(topic, 2, 2, [2])
            assert (await scene.state(topic)).recovery_state is LeaderRecoveryState.RECOVERING
        for topic in ("d6", "d8-later", "d9"):
            await scene.until_led(topic, -1, 2, [1])
        await enabled_for(scene, "d8-later")
        await scene.until_led("d8-later", 2, 3, [2])
        await scene.until_led("d9", -1, 2, [1])
        await scene.operator.set_broker(None, **{UNCLEAN: "true"})
        await scene.until_led("d9", 2, 3, [2])
        await scene.until_led("d6", -1, 2, [1])
        assert await unclean_elections(scene, since) == {"d3", "d8", "d8-later", "d9"}
        assert await scene.epoch() == epoch, "it took no failover"

        await scene.operator.set_broker(None, **{UNCLEAN: None})
        await scene.unthrottle(2)
        await scene.start(1)
        await scene.until_led("d6", 1, 3, [1, 2])
        await scene.until_isr("d3", [1, 2])
        assert (await scene.state("d3")).recovery_state is LeaderRecoveryState.RECOVERED
        kept = await asyncio.to_thread(consume_all, scene.cluster.bootstrap, "orders")
        assert kept, "other topics keep their records"


async def enabled_for(scene: Scene, topic: str) -> None:
    """Allow unclean elections of a topic, and wait until the controller has handled the change."""
    since = time.monotonic()
    await scene.operator.set_topic(topic, **{UNCLEAN: "true"})

    async def handled() -> bool:
        began = await scene.logged(EventBegin, since_s=since)
        numbers = {record.number for _, record in began if record.name == "TopicUncleanLeaderElectionEnable"}
        ended = {record.number for _, record in await scene.logged(EventEnd, since_s=since)}
        return bool(numbers & ended)

    await scene.until_seen(handled, f"the controller has seen the change of {topic}")


async def test_d7_an_invalid_override_counts_as_none(scene: Scene) -> None:
    """The test writes ZooKeeper, as brokers refuse the value, and reverts it before a broker starts."""
    async with scene.row("D7"):
        await scene.create("d7", {0: [1, 2, 3], 1: [1]})
        since = time.monotonic()
        path = "/config/topics/d7"
        before = await scene.operator.read(path)
        await scene.operator.write(path, {"version": 1, "config": {UNCLEAN: "perhaps"}})
        await scene.kill(1)

        await scene.until_led("d7", 2, 1, [2, 3])
        await scene.until_led("d7", -1, 1, [1], partition=1)
        await scene.operator.write(path, before)
        assert await unclean_elections(scene, since) == set()
        await scene.start(1)
        await scene.until_led("d7", 1, 2, [1], partition=1)
        assert (await scene.cluster.view()).leaderships[tp("d7", 0)].leader == 2
