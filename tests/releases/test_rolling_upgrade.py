"""A rolling upgrade from 2.6.3 to 3.9.1 under load, in the documented steps, with a broker killed in each.

Each release is installed on broker after broker while the protocol version stays; then the protocol version is raised
by another rolling restart. One controllerd leads all the time with unchanged settings: it has to discover the new
protocol version. In each step one broker is killed, and the others are shut down in order.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Final, NamedTuple

import pytest
import pytest_asyncio

from controllerd.dev.cluster import BROKER_IDS, resolve_jars
from controllerd.dev.releases import line_of
from controllerd.dev.verification import consume_all, verify
from tests.real.scene import MOVES_S
from tests.real.trial import TOPIC
from tests.releases.cluster import PROTOCOL, SESSION_S, ReleaseScene, open_release

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.releases,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]


class Step(NamedTuple):
    """One rolling restart: the brokers' new release and protocol version, and the broker that is killed in it."""

    release: str
    protocol: str
    killed: int


STEPS: Final = (
    Step("2.8.2", "2.6", killed=1),
    Step("2.8.2", "2.8", killed=2),
    Step("3.3.2", "2.8", killed=3),
    Step("3.3.2", "3.3", killed=1),
    Step("3.9.1", "3.3", killed=2),
    Step("3.9.1", "3.9", killed=3),
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(kafka_jars: None, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ReleaseScene]:
    """Open a cluster of 2.6.3 brokers in which controllerd has taken over from a broker."""
    await resolve_jars([step.release for step in STEPS], print)
    async with open_release(tmp_path_factory.mktemp("upgrade"), "2.6.3", "2.6") as opened:
        await opened.take_over()
        yield opened


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.release}-{step.protocol}")
async def test_a_step_of_the_upgrade_loses_nothing(scene: ReleaseScene, step: Step) -> None:
    since, epoch = time.monotonic(), await scene.epoch()
    for number in BROKER_IDS:
        if number == step.killed:
            await scene.kill(number)
        else:
            await scene.shut_down_in_order(number)
        scene.broker(number).install(version=step.release, overrides={PROTOCOL: step.protocol})
        await scene.start(number)
        await scene.until_whole()
    gap = scene.load.result.worst_gap_s(since_s=since)
    print(f"{step.release} at {step.protocol}: worst gap {gap:.2f} s in {time.monotonic() - since:.0f} s")
    assert gap <= SESSION_S + MOVES_S
    topic = made_at(step)
    await scene.create(topic, {0: [1, 2, 3]})
    async with scene.load_on(topic) as load:
        await scene.until(lambda: load.acknowledged > 50, "records are acknowledged")
    ids = (await scene.cluster.view()).topic_ids
    assert bool(ids[topic]) == has_topic_ids(step), "a topic has an id exactly from protocol version 2.8 on"
    await scene.judge(f"{step.release} at {step.protocol}")
    others = [led for led in await scene.who_led(epoch) if "controllerd" not in led]
    assert not others, "a broker was the controller meanwhile"


def made_at(step: Step) -> str:
    """Return the name of the topic that is created at the end of a step."""
    return f"made-by-{step.release}-{step.protocol}"


def has_topic_ids(step: Step) -> bool:
    """Return whether topics have ids at the protocol version (KIP-516)."""
    return line_of(step.protocol) >= (2, 8)


async def test_each_upgraded_broker_knows_the_topic_ids_and_has_every_record(scene: ReleaseScene) -> None:
    assert {scene.broker(number).version for number in BROKER_IDS} == {STEPS[-1].release}
    assert scene.protocol() == STEPS[-1].protocol
    ids = (await scene.cluster.view()).topic_ids
    assert all(ids[made_at(step)] for step in STEPS if has_topic_ids(step))
    for node, metadata in (await scene.cluster.metadata()).items():
        assert {name: topic.topic_id for name, topic in metadata.topics.items()} == ids, node
    result = await asyncio.to_thread(scene.load.stop)
    assert (result.failures, result.fatal_error) == ([], None)
    checked = verify(result.acknowledged, await asyncio.to_thread(consume_all, scene.cluster.bootstrap, TOPIC))
    print(f"records to {TOPIC} in the whole upgrade: {checked}")
    assert checked.ok
