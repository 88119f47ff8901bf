"""The gaps of producers in a rolling restart of each release: under its own controller, and under controllerd.

The same three brokers are shut down in order and started again one after the other, twice, each time
under a load of its own. Their protocol version is the release's own, as after a completed upgrade.
Under controllerd no record is lost, duplicated or out of order, and no partition may wait for a
session to end: the limit is half of a session, or two thirds of it with leaders of 2.7, 2.8 and 3.0
(see ``ReleaseScene.orderly_s``).
"""

import asyncio
import time
from pathlib import Path

import pytest

from controllerd.dev.load import ProducerLoad
from controllerd.dev.releases import TESTED_RELEASES
from controllerd.dev.verification import consume_all, verify
from tests.real.trial import PARTITIONS, RECORDS_PER_S, TOPIC
from tests.releases import gaps
from tests.releases.cluster import ReleaseScene, open_release

pytestmark = [pytest.mark.kafka, pytest.mark.releases, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]


@pytest.mark.parametrize("release", TESTED_RELEASES)
async def test_producers_wait_for_no_session_in_a_rolling_restart(release: str, tmp_path: Path) -> None:
    async with open_release(tmp_path, release, release.rpartition(".")[0]) as scene:
        own = await worst_gap_s(scene)
        await scene.take_over()
        await restart_load(scene)
        measured = gaps.Gaps(own, await worst_gap_s(scene))
        limit_s = scene.orderly_s
        await scene.judge("rolling restart")
    print(f"| {release} | own controller: {measured.own:.2f} s | controllerd: {measured.ours:.2f} s |")
    gaps.record_gaps(release, measured)
    assert measured.ours <= limit_s


async def worst_gap_s(scene: ReleaseScene) -> float:
    """Return the longest time that one partition goes without an acknowledgement in a rolling restart."""
    since = time.monotonic()
    await scene.roll()
    return scene.load.result.worst_gap_s(since_s=since)


async def restart_load(scene: ReleaseScene) -> None:
    """Replace the topic and its load, so that only records written under controllerd are judged.

    Records under a broker's controller are compared and printed, but cannot fail the test. A 3.3.2 broker that was
    shut down under its own controller left three records twice: librdkafka raised its producer epoch,
    and repeated a batch that the former leader had appended.
    """
    result = await asyncio.to_thread(scene.load.stop)
    consumed = await asyncio.to_thread(consume_all, scene.cluster.bootstrap, TOPIC)
    print(f"  under its own controller: {verify(result.acknowledged, consumed)}")
    await scene.delete(TOPIC)
    await scene.create(TOPIC, {p: [1 + (p + i) % 3 for i in range(3)] for p in range(PARTITIONS)})
    scene.load = ProducerLoad(scene.cluster.bootstrap, TOPIC, PARTITIONS, records_per_s=RECORDS_PER_S)
    scene.load.start()
    await scene.until_acknowledged_again()
