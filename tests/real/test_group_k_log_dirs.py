"""Log directories fail (scenarios.md, group K), on stock brokers with two of them each, under load.

The test renames a directory, which also works against a superuser: open files stay usable, and the next new file, a
segment or a checkpoint, cannot be created. From then on, the broker treats the directory as failed.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from controllerd.dev.cluster import BROKER_IDS
from tests.real.operator import REASSIGN, tp
from tests.real.scene import NO_REBALANCE, ONE_ALONE, SESSION_S, Scene, open_scene

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.real,
    pytest.mark.timeout(240),
    pytest.mark.asyncio(loop_scope="module"),
]

EVENTS: Final = "/log_dir_event_notification"
RECOVERS_S: Final = SESSION_S
"""The longest that a producer may wait. No session has to expire, since the broker lives."""
NO_CHECKPOINT: Final = dict.fromkeys(
    (
        "replica.high.watermark.checkpoint.interval.ms",
        "log.flush.offset.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
    ),
    "600000",
)
"""Without checkpoints, broker 1 fails at a new segment."""
NO_CLEANING: Final = {"log.cleaner.backoff.ms": "600000"}
"""The cleaner reads a file in each directory every 15 s, and would otherwise be the first to fail."""
OFTEN: Final = {"replica.high.watermark.checkpoint.interval.ms": "2000"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def scene(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("log-dirs")
    timings = {n: NO_CLEANING | (NO_CHECKPOINT if n == 1 else OFTEN) for n in BROKER_IDS}
    single = {n: two_directories(directory, n) | timings[n] for n in BROKER_IDS}
    async with open_scene(directory, single=single, settings=NO_REBALANCE) as scene:
        yield scene


def two_directories(directory: Path, broker: int) -> dict[str, str]:
    return {"log.dirs": ",".join(str(directory.absolute() / f"broker-{broker}" / name) for name in ("data", "more"))}


@asynccontextmanager
async def failed(scene: Scene, broker: int, topic: str) -> AsyncIterator[Path]:
    """Let the directory of the topic's first partition on this broker fail, and repair it afterwards."""
    (folder,) = scene.folders(broker, topic)
    directory, away = folder.parent, folder.parent.with_name("away")
    directory.rename(away)
    try:
        yield directory
    finally:
        await scene.broker(broker).kill()
        away.rename(directory)
    await scene.start(broker)


async def until_offline(scene: Scene, broker: int, topic: str) -> None:
    """Wait until every broker shows this replica as offline, and its broker as live."""

    async def shown() -> bool:
        metadata = await scene.cluster.metadata()
        return len(metadata) == len(BROKER_IDS) and all(
            broker in one.topics[topic].partitions[0].offline_replicas and broker in one.brokers
            for one in metadata.values()
        )

    await scene.until_seen(shown, f"the replica of {topic} on broker {broker} is offline")


async def until_no_event_is_left(scene: Scene) -> None:
    async def none_left() -> bool:
        return await scene.operator.children(EVENTS) == []

    await scene.until_seen(none_left, "every notification is consumed")


async def test_k1_k3_a_leader_whose_directory_fails_at_a_new_segment_is_replaced(scene: Scene) -> None:
    async with scene.row("K1 on roll"):
        await scene.create("k1-roll", {0: [1, 2, 3]}, {"segment.bytes": "2048"})
        async with scene.load_on("k1-roll") as load:
            async with failed(scene, 1, "k1-roll"):
                await scene.until_led("k1-roll", 2, 1, [2, 3])
                await until_offline(scene, 1, "k1-roll")
                await until_no_event_is_left(scene)
                gap = load.result.worst_gap_s()
            assert gap <= RECOVERS_S
        assert "Error while rolling log segment" in await log_of(scene, 1)


async def test_k1_k3_a_leader_whose_directory_fails_at_a_checkpoint_is_replaced(scene: Scene) -> None:
    async with scene.row("K1 on checkpoint"):
        await scene.create("k1-checkpoint", {0: [2, 3, 1]})
        async with scene.load_on("k1-checkpoint") as load:
            async with failed(scene, 2, "k1-checkpoint"):
                await scene.until_led("k1-checkpoint", 3, 1, [3, 1])
                await until_offline(scene, 2, "k1-checkpoint")
                await until_no_event_is_left(scene)
                gap = load.result.worst_gap_s()
            assert gap <= RECOVERS_S
        assert "Error while writing to checkpoint file" in await log_of(scene, 2)


async def log_of(scene: Scene, broker: int) -> str:
    return await asyncio.to_thread(scene.broker(broker).process.log_file.read_text)


async def test_k2_a_follower_keeps_fetching_replicas_in_its_other_directory(scene: Scene) -> None:
    """Each broker spreads new replicas over its directories, so one of two topics is in the sound directory."""
    async with scene.row("K2"):
        for topic in ("k2-a", "k2-b"):
            await scene.create(topic, {0: [1, 2, 3]})
        (first,), (second,) = (scene.folders(3, topic) for topic in ("k2-a", "k2-b"))
        assert first.parent != second.parent
        async with scene.load_on("k2-a"), scene.load_on("k2-b") as stays:
            async with failed(scene, 3, "k2-a"):
                await scene.until_isr("k2-a", [1, 2])
                await until_offline(scene, 3, "k2-a")
                size, sent = await asyncio.to_thread(bytes_in, second), stays.acknowledged
                await scene.until(lambda: stays.acknowledged > sent + 50, "records are acknowledged")
                assert await asyncio.to_thread(bytes_in, second) > size
                await scene.until_led("k2-b", 1, 0, [1, 2, 3])
                await until_no_event_is_left(scene)
            await scene.until_isr("k2-a", [1, 2, 3])


def bytes_in(folder: Path) -> int:
    """The size of all segments."""
    return sum(segment.stat().st_size for segment in folder.glob("*.log"))


async def test_k4_a_notification_of_an_unknown_broker_is_dropped(scene: Scene) -> None:
    async with scene.row("K4", within_s=SESSION_S):
        before = (await scene.cluster.view()).leaderships

        await scene.operator.create(f"{EVENTS}/log_dir_event_", {"version": 1, "broker": 99, "event": 1}, sequence=True)

        await until_no_event_is_left(scene)
        assert (await scene.cluster.view()).leaderships == before


async def test_g2_a_partition_moves_to_a_broker_with_a_failed_directory(scene: Scene) -> None:
    """KAFKA-10314: the target has to be sent that the replica is new."""
    async with scene.row("G2"):
        await scene.create("g2-filler", {0: [2, 1]}, ONE_ALONE)
        await scene.create("g2", {0: [1]}, ONE_ALONE)
        async with scene.load_on("g2"), failed(scene, 2, "g2-filler"):
            await until_offline(scene, 2, "g2-filler")
            await scene.operator.reassign_by_znode({tp("g2"): [2]})
            await scene.until_led("g2", 2, 3, [2])
            await scene.until_assigned("g2", [2])
            await scene.until_hosted("g2", {2})
            await scene.until_gone(REASSIGN)
