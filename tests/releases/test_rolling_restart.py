"""The gaps of producers in a rolling restart of each release: under its own controller, and under controllerd.

The same three brokers under the same load are shut down in order and started again one after the other, twice. Their
protocol version is the release's own, as after a completed upgrade. Under controllerd no partition may wait for a
session to end, so the limit is half of a session.
"""

import time
from pathlib import Path

import pytest

from controllerd.dev.releases import TESTED_RELEASES
from tests.releases import gaps
from tests.releases.cluster import ORDERLY_S, ReleaseScene, open_release

pytestmark = [pytest.mark.kafka, pytest.mark.releases, pytest.mark.timeout(600), pytest.mark.usefixtures("kafka_jars")]


@pytest.mark.parametrize("release", TESTED_RELEASES)
async def test_producers_wait_for_no_session_in_a_rolling_restart(release: str, tmp_path: Path) -> None:
    async with open_release(tmp_path, release, release.rpartition(".")[0]) as scene:
        own = await worst_gap_s(scene)
        await scene.take_over()
        measured = gaps.Gaps(own, await worst_gap_s(scene))
        await scene.judge("rolling restarts")
    print(f"| {release} | own controller: {measured.own:.2f} s | controllerd: {measured.ours:.2f} s |")
    gaps.note(release, measured)
    assert measured.ours <= ORDERLY_S


async def worst_gap_s(scene: ReleaseScene) -> float:
    """The longest time that one partition goes without an acknowledgement while each broker is restarted."""
    since = time.monotonic()
    await scene.roll()
    return scene.load.result.worst_gap_s(since_s=since)
