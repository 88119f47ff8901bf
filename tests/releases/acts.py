"""What is done to a cluster of each release: the columns of the table of releases, in this order."""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from controllerd.core.model import BrokerId
from tests.real.bounces import BOUNCE_S, bounces_by_event, judge_new_life
from tests.real.comparison.asking import ELECT, answer_of, ms
from tests.real.operator import tp
from tests.real.scene import MOVES_S, ONE_ALONE
from tests.releases import isr_ways
from tests.releases.cluster import SESSION_S, ReleaseScene

PREFERRED: Final = 0


Run = Callable[[ReleaseScene], Awaitable[str | None]]
"""Does something, fails if it does not become what it should, and returns the word that was seen, if not ``yes``."""


class Act(NamedTuple):
    """One column: what is done."""

    title: str
    run: Run


ACTS: Final[dict[str, Act]] = {}


def act(title: str) -> Callable[[Run], Run]:
    """Enter a function as a column."""

    def entered(run: Run) -> Run:
        ACTS[run.__name__] = Act(title, run)
        return run

    return entered


@act("Take over")
async def take_over(scene: ReleaseScene) -> None:
    """From the release's own controller, whose topics and epochs go on."""
    since = time.monotonic()
    await scene.take_over()
    await scene.until_whole()
    assert scene.load.result.worst_gap_s(since_s=since) <= scene.orderly_s
    await scene.judge("take over")


@act("Create, produce")
async def create_and_produce(scene: ReleaseScene) -> None:
    """A topic by CreateTopics, whose records are all there."""
    async with scene.row("create, produce", within_s=scene.orderly_s):
        topic = scene.own("made")
        await scene.create(topic, {0: [1, 2, 3], 1: [2, 3, 1]}, {"min.insync.replicas": "2"})
        async with scene.load_on(topic, 2) as load:
            await scene.until(lambda: load.acknowledged > 50, "records are acknowledged")


@act("ISR changes told by")
async def shrink_and_grow_an_isr(scene: ReleaseScene) -> str:
    """A follower freezes within its session and goes on: the leader tells both, in the way of its release."""
    async with scene.row("ISR changes", within_s=SESSION_S):
        since, topic = time.monotonic(), scene.own("isr")
        await scene.create(topic, {0: [1, 2]}, ONE_ALONE)
        async with scene.load_on(topic):
            scene.broker(2).pause()
            try:
                await scene.until_isr(topic, [1])
            finally:
                scene.broker(2).resume()
            await scene.until_isr(topic, [1, 2])
        assert (await scene.state(topic)).leader_epoch == 0, "the session of the follower ended"
    (way,) = await isr_ways.received(scene, since)
    assert way == isr_ways.expected(scene.broker(1).version, scene.protocol())
    return way


@act("Reassign")
async def reassign(scene: ReleaseScene) -> None:
    """A partition moves to another broker under load, by AlterPartitionReassignments."""
    async with scene.row("reassign", within_s=scene.orderly_s):
        topic = scene.own("moved")
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
        topic = scene.own("killed")
        await scene.create(topic, {0: [1, 2, 3]}, ONE_ALONE)
        async with scene.load_on(topic):
            await scene.kill(1)
            await scene.until_led(topic, 2, 1, [2, 3])
            await scene.start(1)
            await scene.until_isr(topic, [1, 2, 3])


@act("Preferred election")
async def elect_preferred(scene: ReleaseScene) -> None:
    """Leaders go back to their preferred replicas when ElectLeaders asks for it, and not before."""
    async with scene.row("preferred election", within_s=scene.orderly_s):
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
    """A broker is gone and back before the controller looks: it tells the lives apart, and tells the new one all."""
    async with scene.row("bounce", within_s=BOUNCE_S):
        since, before = time.monotonic(), await scene.operator.czxid("/brokers/ids/2")
        await scene.bounce_unseen(2)
        assert await scene.operator.czxid("/brokers/ids/2") > before
        assert await bounces_by_event(scene, since) == [{2}], "it was no death and birth in one event"
        await scene.until_whole()
        await judge_new_life(scene, 2, since)


@act("Controlled shutdown")
async def shut_down(scene: ReleaseScene) -> None:
    """SIGTERM is answered: the leaders have moved before the broker goes, so that no producer waits for a session."""
    async with scene.row("controlled shutdown", within_s=scene.orderly_s):
        led = await scene.waiting.led_by(BrokerId(3))
        assert led > 0, "it leads nothing that would have to move"
        await scene.shut_down_in_order(3)
        await scene.start(3)


@act("Delete")
async def delete(scene: ReleaseScene) -> None:
    """Topics of the acts before are gone in ZooKeeper and on each disk; one of the same name can be made."""
    async with scene.row("delete", within_s=scene.orderly_s):
        topic = scene.own("made")
        await scene.delete(topic)
        await scene.create(topic, {0: [3, 1, 2]})
        await scene.until_isr(topic, [1, 2, 3])
        await scene.delete(topic)


@act("Give back")
async def give_back(scene: ReleaseScene) -> None:
    """The release's own controller leads again, creates, and deletes."""
    since = time.monotonic()
    await scene.give_back()
    topic = scene.own("returned")
    await scene.create(topic, {0: [1, 2, 3]})
    async with scene.load_on(topic):
        await scene.waiting.until(scene.waiting.missing_isr, "the ISRs are full")
    await scene.delete(topic)
    await scene.until_acknowledged_again()
    assert scene.load.result.worst_gap_s(since_s=since) <= scene.orderly_s
    await scene.judge_records("give back")
