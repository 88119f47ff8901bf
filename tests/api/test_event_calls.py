"""Waiting for what a request caused: until the picture shows it, the time is up, or the picture follows no more."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from controllerd.api.event_calls import EffectWaiter
from controllerd.api.large_messages import SMALL
from controllerd.api.server_settings import ServerLimits
from controllerd.core.model import NO_LEADER, BrokerId, PartitionState, ReplicaAssignment, TopicPartition
from controllerd.snapshot import ClusterSnapshot
from controllerd.views import DeletionView, PartitionView, Role
from tests.api.cluster import PATIENCE_S, new_snapshot, partition, put_topic, replicas

T = TypeVar("T")
LATER_MS = 60_000
SOON_MS = 30
BOTH = frozenset({0, 1})


def publish(snapshot: ClusterSnapshot, name: str, *partitions: PartitionView) -> None:
    """The controller shows a topic, as it does after each event."""
    put_topic(snapshot, name, None, *partitions)
    snapshot.announce()


def hide(snapshot: ClusterSnapshot, name: str, *, is_hidden: bool = True) -> None:
    deletion = DeletionView(is_hidden, None, (), is_hidden)
    snapshot.topics[name] = replace(snapshot.topics[name], deletion=deletion)
    snapshot.announce()


async def begun(waiting: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A wait that has looked at the present picture and found something missing."""
    task = asyncio.create_task(waiting)
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def result(task: asyncio.Task[T]) -> T:
    async with asyncio.timeout(PATIENCE_S):
        return await task


def test_no_wait_is_longer_than_the_servers_limit() -> None:
    async def times() -> tuple[float, float, float]:
        awaiter = EffectWaiter(new_snapshot(), ServerLimits(wait_s=5.0))
        now = asyncio.get_running_loop().time()
        return now, awaiter.deadline(1000), awaiter.deadline(2**31 - 1)

    now, short, long = asyncio.run(times())

    assert short - now == pytest.approx(1.0, abs=0.5)
    assert long - now == pytest.approx(5.0, abs=0.5)


# -- leaders of partitions ---------------------------------------------------------------------------------------------


async def test_partitions_that_have_leaders_are_not_waited_for() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.led({"orders": BOTH}, awaiter.deadline(LATER_MS)) == set()


async def test_a_topic_without_partitions_to_wait_for_is_not_waited_for() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.led({"unknown": frozenset()}, awaiter.deadline(LATER_MS)) == set()


async def test_a_topic_that_is_not_shown_yet_is_waited_for() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    waiting = await begun(awaiter.led({"new": BOTH}, awaiter.deadline(LATER_MS)))

    publish(snapshot, "new", partition(0, 1, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


@pytest.mark.parametrize(
    "unled",
    [
        partition(1, NO_LEADER, 2),
        PartitionView(1, PartitionState.NEW, ReplicaAssignment(replicas(2)), None, ()),
    ],
    ids=["no leader", "no state"],
)
async def test_every_partition_must_have_a_leader(unled: PartitionView) -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    publish(snapshot, "new", partition(0, 1, 1), unled)
    waiting = await begun(awaiter.led({"new": BOTH}, awaiter.deadline(LATER_MS)))

    publish(snapshot, "new", partition(0, 1, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_the_leaders_of_an_older_topic_of_this_name_do_not_count_while_clients_are_not_told_of_it() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    hide(snapshot, "orders")
    waiting = await begun(awaiter.led({"orders": BOTH}, awaiter.deadline(LATER_MS)))

    publish(snapshot, "orders", partition(0, 1, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_what_was_seen_once_need_not_be_seen_again() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    publish(snapshot, "new", partition(0, 1, 1), partition(1, NO_LEADER, 2))
    waiting = await begun(awaiter.led({"new": BOTH}, awaiter.deadline(LATER_MS)))

    publish(snapshot, "new", partition(0, NO_LEADER, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_only_the_topics_that_are_not_led_in_time_are_named() -> None:
    awaiter = EffectWaiter(new_snapshot())
    wanted = {"orders": BOTH, "new": BOTH}
    assert await awaiter.led(wanted, awaiter.deadline(SOON_MS)) == {"new"}


async def test_a_time_that_is_over_already_leaves_one_look() -> None:
    awaiter = EffectWaiter(new_snapshot())
    wanted = {"orders": BOTH, "new": BOTH}
    assert await awaiter.led(wanted, awaiter.deadline(-1000)) == {"new"}


async def test_another_topics_picture_wakes_a_wait_but_does_not_end_it() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    publish(snapshot, "new", partition(0, NO_LEADER, 1))
    waiting = await begun(awaiter.led({"new": frozenset({0})}, awaiter.deadline(LATER_MS)))

    publish(snapshot, "other", partition(0, 1, 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    publish(snapshot, "new", partition(0, 1, 1))

    assert await result(waiting) == set()


async def test_nobody_waits_for_a_picture_that_follows_the_cluster_no_more() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    waiting = await begun(awaiter.led({"new": BOTH}, awaiter.deadline(LATER_MS)))

    snapshot.role = Role.STANDBY
    snapshot.announce()

    assert await result(waiting) == {"new"}


async def test_very_many_partitions_are_looked_at_with_turns_for_everybody_else() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    put_topic(snapshot, "large", None, *(partition(number, 1, 1) for number in range(3 * SMALL)))
    wanted = {"large": frozenset(range(3 * SMALL))}

    waiting = asyncio.create_task(awaiter.led(wanted, awaiter.deadline(LATER_MS)))
    await asyncio.sleep(0)
    assert not waiting.done()

    assert await result(waiting) == set()


async def test_a_picture_that_comes_during_a_look_is_looked_at_too() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    put_topic(snapshot, "large", None, *(partition(number, NO_LEADER, 1) for number in range(3 * SMALL)))
    wanted = {"large": frozenset(range(3 * SMALL))}

    waiting = asyncio.create_task(awaiter.led(wanted, awaiter.deadline(LATER_MS)))
    await asyncio.sleep(0)
    publish(snapshot, "large", *(partition(number, 1, 1) for number in range(3 * SMALL)))

    assert await result(waiting) == set()


async def test_an_election_is_over_when_just_the_expected_leader_is_shown() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    expected = {TopicPartition("orders", 0): BrokerId(2)}
    waiting = await begun(awaiter.leaders(expected, awaiter.deadline(LATER_MS)))

    publish(snapshot, "orders", partition(0, 2, 1, 2))

    assert await result(waiting) == set()


async def test_partitions_that_do_not_get_the_expected_leader_in_time_are_named() -> None:
    awaiter = EffectWaiter(new_snapshot())
    elected, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    expected = {elected: BrokerId(1), other: BrokerId(1), TopicPartition("unknown", 7): BrokerId(1)}
    missing = await awaiter.leaders(expected, awaiter.deadline(SOON_MS))
    assert missing == {other, TopicPartition("unknown", 7)}


# -- topics that go ----------------------------------------------------------------------------------------------------


async def test_a_topic_that_nobody_knows_is_gone() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.gone(frozenset({"unknown"}), awaiter.deadline(LATER_MS)) == set()


@pytest.mark.parametrize("is_shown_as_deleted", [True, False])
async def test_a_topic_is_gone_once_clients_are_not_told_of_it(is_shown_as_deleted: bool) -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    hide(snapshot, "orders", is_hidden=False)
    waiting = await begun(awaiter.gone(frozenset({"orders"}), awaiter.deadline(LATER_MS)))

    if is_shown_as_deleted:
        hide(snapshot, "orders")
    else:
        del snapshot.topics["orders"]
        snapshot.announce()

    assert await result(waiting) == set()


async def test_the_topics_that_are_still_there_when_the_time_is_up_are_named() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.gone(frozenset({"orders", "unknown"}), awaiter.deadline(SOON_MS)) == {"orders"}
