"""The acts that are performed on a cluster of each release: the columns of the table of releases, in order."""

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
"""Performs an act and asserts its outcome. Returns the text for the table's cell; None stands for ``yes``."""


class Act(NamedTuple):
    """One column of the table: its title, and the coroutine function that performs the act."""

    title: str
    run: Run


ACTS: Final[dict[str, Act]] = {}


def act(title: str) -> Callable[[Run], Run]:
    """Register the decorated function in ``ACTS`` as a column with this title."""

    def register(run: Run) -> Run:
        ACTS[run.__name__] = Act(title, run)
        return run

    return register


@act("Take over")
async def take_over(scene: ReleaseScene) -> None:
    """controllerd takes over from the release's own controller, and keeps its topics and epochs."""
    since = time.monotonic()
    await scene.take_over()
    await scene.until_whole()
    assert scene.load.result.worst_gap_s(since_s=since) <= scene.orderly_s
    await scene.judge("take over")


@act("Create, produce")
async def create_and_produce(scene: ReleaseScene) -> None:
    """CreateTopics creates a topic, and a producer's records are acknowledged."""
    async with scene.row("create, produce", within_s=scene.orderly_s):
        topic = scene.own("made")
        await scene.create(topic, {0: [1, 2, 3], 1: [2, 3, 1]}, {"min.insync.replicas": "2"})
        async with scene.load_on(topic, 2) as load:
            await scene.until(lambda: load.acknowledged > 50, "records are acknowledged")


@act("ISR changes reported through")
async def shrink_and_grow_an_isr(scene: ReleaseScene) -> str:
    """A follower is paused and resumed within its session: the leader reports the shrunk and the full ISR."""
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
        assert (await scene.state(topic)).leader_epoch == 0, "the follower's ZooKeeper session expired"
    (way,) = await isr_ways.received(scene, since)
    assert way == isr_ways.expected(scene.broker(1).version, scene.protocol())
    return way


@act("Reassign")
async def reassign(scene: ReleaseScene) -> None:
    """AlterPartitionReassignments moves a replica to another broker under load."""
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
    """A killed leader is replaced when its session has expired, and returns to the ISR after its restart."""
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
    """ElectLeaders makes the preferred replicas leaders again; leadership does not move before it is requested."""
    async with scene.row("preferred election", within_s=scene.orderly_s):
        before = await scene.cluster.view()
        moved = sum(s.leader != before.assignments[p].replicas[0] for p, s in before.leaderships.items())
        assert moved > 0, "every preferred replica leads already"
        request = {"election_type": PREFERRED, "topic_partitions": None, "timeout": ms(30_000)}
        answer: Any = await answer_of(scene.controller.kafka_port.port, ELECT, 2, request)
        assert answer.error_code is ErrorCode.none
        after = await scene.cluster.view()
        assert all(state.leader == after.assignments[p].replicas[0] for p, state in after.leaderships.items())


@act("Bounce")
async def bounce(scene: ReleaseScene) -> None:
    """A broker restarts while controllerd is paused. controllerd finds a new epoch and sends full metadata."""
    async with scene.row("bounce", within_s=BOUNCE_S):
        since, before = time.monotonic(), await scene.operator.czxid("/brokers/ids/2")
        await scene.bounce_unseen(2)
        assert await scene.operator.czxid("/brokers/ids/2") > before
        assert await bounces_by_event(scene, since) == [{2}], "the restart was not processed as a bounce in one event"
        await scene.until_whole()
        await judge_new_life(scene, 2, since)


@act("Controlled shutdown")
async def shut_down(scene: ReleaseScene) -> None:
    """The leaderships of a broker move between SIGTERM and its end, so no producer waits for a session to expire."""
    async with scene.row("controlled shutdown", within_s=scene.orderly_s):
        led = await scene.waiting.led_by(BrokerId(3))
        assert led > 0, "the broker leads no partition, so the test would show nothing"
        await scene.shut_down_in_order(3)
        await scene.start(3)


@act("Delete")
async def delete(scene: ReleaseScene) -> None:
    """DeleteTopics removes a topic from ZooKeeper and from every disk; its name can be used again."""
    async with scene.row("delete", within_s=scene.orderly_s):
        topic = scene.own("made")
        await scene.delete(topic)
        await scene.create(topic, {0: [3, 1, 2]})
        await scene.until_isr(topic, [1, 2, 3])
        await scene.delete(topic)


@act("Give back")
async def give_back(scene: ReleaseScene) -> None:
    """The release's own controller leads again, creates a topic and deletes it."""
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
