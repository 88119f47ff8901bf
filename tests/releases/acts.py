"""What is done to a cluster of each release: the columns of the table of releases, in this order."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from controllerd.core.model import BrokerId
from controllerd.dev.cluster import BROKER_IDS
from controllerd.dev.releases import line_of
from replay.records import ReplyRecord
from tests.real.comparison.asking import ELECT, answer_of, ms
from tests.real.operator import tp
from tests.real.scene import MOVES_S, ONE_ALONE
from tests.releases.cluster import SESSION_S, ReleaseScene
from tests.releases.record_api_versions import read
from wire.versions import ApiKey

ORDERLY_S: Final = 5.0
"""The longest that producers may wait where no session has to end first."""
PREFERRED: Final = 0


class Act(NamedTuple):
    """One column: what is done, and what of it is worth a word in the cell."""

    title: str
    run: Callable[[ReleaseScene], Awaitable[None]]
    result: Callable[[str, str], str]
    """The cell by release and protocol version, where the act succeeded."""


ACTS: Final[dict[str, Act]] = {}


def _yes(_release: str, _protocol: str) -> str:
    return "yes"


def act(
    title: str, result: Callable[[str, str], str] = _yes
) -> Callable[[Callable[[ReleaseScene], Awaitable[None]]], Callable[[ReleaseScene], Awaitable[None]]]:
    """Enter a function as a column."""

    def entered(run: Callable[[ReleaseScene], Awaitable[None]]) -> Callable[[ReleaseScene], Awaitable[None]]:
        ACTS[run.__name__] = Act(title, run, result)
        return run

    return entered


def isr_way(release: str, protocol: str) -> str:
    """How leaders of this release and protocol version tell changes of ISRs."""
    if line_of(protocol) < (2, 7):
        return "ZooKeeper"
    return "AlterIsr" if read()[release][str(int(ApiKey.ALTER_PARTITION))] == [0, 0] else "AlterPartition"


def own(scene: ReleaseScene, name: str) -> str:
    """The name of a topic of an act at the protocol version of the moment."""
    return f"{name}-{scene.protocol()}"


@act("Take over")
async def take_over(scene: ReleaseScene) -> None:
    """From the release's own controller, whose topics and epochs go on."""
    since = time.monotonic()
    await scene.take_over()
    await scene.until_whole()
    assert scene.load.result.worst_gap_s(since_s=since) <= ORDERLY_S
    await scene.judge("take over")


@act("Create, produce")
async def create_and_produce(scene: ReleaseScene) -> None:
    """A topic by CreateTopics, whose records are all there."""
    async with scene.row("create, produce", within_s=ORDERLY_S):
        topic = own(scene, "made")
        await scene.create(topic, {0: [1, 2, 3], 1: [2, 3, 1]}, {"min.insync.replicas": "2"})
        async with scene.load_on(topic, 2) as load:
            await scene.until(lambda: load.acknowledged > 50, "records are acknowledged")


@act("ISR changes told by", isr_way)
async def shrink_and_grow_an_isr(scene: ReleaseScene) -> None:
    """A follower freezes within its session and goes on: the leader tells both, in the way of its release."""
    async with scene.row("ISR changes", within_s=SESSION_S):
        since, topic = time.monotonic(), own(scene, "isr")
        await scene.create(topic, {0: [1, 2]}, ONE_ALONE)
        async with scene.load_on(topic):
            scene.broker(2).pause()
            try:
                await scene.until_isr(topic, [1])
            finally:
                scene.broker(2).resume()
            await scene.until_isr(topic, [1, 2])
        assert (await scene.state(topic)).leader_epoch == 0, "the session of the follower ended"
        asked = {record.name for _, record in await scene.logged(ReplyRecord, since_s=since)}
        told_us = isr_way(scene.broker(1).version, scene.protocol()) != "ZooKeeper"
        assert ("AlterPartitionReceived" in asked) == told_us


@act("Reassign")
async def reassign(scene: ReleaseScene) -> None:
    """A partition moves to another broker under load, by AlterPartitionReassignments."""
    async with scene.row("reassign", within_s=ORDERLY_S):
        topic = own(scene, "moved")
        await scene.create(topic, {0: [1, 2]}, ONE_ALONE)
        async with scene.load_on(topic):
            assert await scene.operator.reassign({tp(topic): [3, 2]}) == {tp(topic): ErrorCode.none}
            await scene.until_assigned(topic, [3, 2])
            await scene.until_hosted(topic, {2, 3})
            await scene.until_isr(topic, [2, 3])


@act("kill -9")
async def kill(scene: ReleaseScene) -> None:
    """The leader of partitions is killed; others lead when its session has ended; it returns with its data."""
    async with scene.row("kill -9", within_s=SESSION_S + MOVES_S):
        topic = own(scene, "killed")
        await scene.create(topic, {0: [1, 2, 3]}, ONE_ALONE)
        async with scene.load_on(topic):
            await scene.kill(1)
            await scene.until_led(topic, 2, 1, [2, 3])
            await scene.start(1)
            await scene.until_isr(topic, [1, 2, 3])


@act("Preferred election")
async def elect_preferred(scene: ReleaseScene) -> None:
    """Leaders go back to their preferred replicas when ElectLeaders asks for it, and not before."""
    async with scene.row("preferred election", within_s=ORDERLY_S):
        before = await scene.cluster.view()
        moved = sum(s.leader != before.assignments[p].replicas[0] for p, s in before.leaderships.items())
        assert moved > 0, "every preferred replica leads already"
        wanted = {"election_type": PREFERRED, "topic_partitions": None, "timeout": ms(30_000)}
        answer: Any = await answer_of(scene.controller.kafka_port.port, ELECT, 2, wanted)
        assert answer.error_code is ErrorCode.none
        after = await scene.cluster.view()
        assert all(state.leader == after.assignments[p].replicas[0] for p, state in after.leaderships.items())


@act("Bounce")
async def bounce(scene: ReleaseScene) -> None:
    """A broker is killed and started at once: the controller tells its two lives apart."""
    async with scene.row("bounce", within_s=2 * SESSION_S + MOVES_S):
        before = await scene.operator.czxid("/brokers/ids/2")
        await scene.broker(2).restart()
        await scene.until_registered(*BROKER_IDS)
        assert await scene.operator.czxid("/brokers/ids/2") > before


@act("Controlled shutdown")
async def shut_down(scene: ReleaseScene) -> None:
    """SIGTERM is answered: the leaders have moved before the broker goes, so that no producer waits for a session."""
    async with scene.row("controlled shutdown", within_s=ORDERLY_S):
        led = await scene.waiting.led_by(BrokerId(3))
        assert led > 0, "it leads nothing that would have to move"
        await scene.shut_down_in_order(3)
        await scene.start(3)


@act("Delete")
async def delete(scene: ReleaseScene) -> None:
    """Topics of the acts before are gone in ZooKeeper and on each disk; one of the same name can be made."""
    async with scene.row("delete", within_s=ORDERLY_S):
        topic = own(scene, "made")
        await scene.delete(topic)
        await scene.create(topic, {0: [3, 1, 2]})
        await scene.until_isr(topic, [1, 2, 3])
        await scene.delete(topic)


@act("Give back")
async def give_back(scene: ReleaseScene) -> None:
    """The release's own controller leads again, creates, and deletes."""
    since = time.monotonic()
    await scene.give_back()
    topic = own(scene, "returned")
    await scene.create(topic, {0: [1, 2, 3]})
    async with scene.load_on(topic):
        await scene.waiting.until(scene.waiting.missing_isr, "the ISRs are full")
    await scene.delete(topic)
    await scene.until_acknowledged_again()
    assert scene.load.result.worst_gap_s(since_s=since) <= ORDERLY_S
