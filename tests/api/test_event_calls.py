"""A request waits for its effect: until the snapshot shows it, the time is up, or the instance loses the role."""

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
LONG_MS = 60_000
SHORT_MS = 30
BOTH = frozenset({0, 1})


def publish(snapshot: ClusterSnapshot, name: str, *partitions: PartitionView) -> None:
    """Publish a topic in the snapshot, as the controller does after each event."""
    put_topic(snapshot, name, None, *partitions)
    snapshot.announce()


def hide(snapshot: ClusterSnapshot, name: str, *, is_hidden: bool = True) -> None:
    deletion = DeletionView(is_hidden, None, (), is_hidden)
    snapshot.topics[name] = replace(snapshot.topics[name], deletion=deletion)
    snapshot.announce()


async def begun(waiting: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A wait that has read the present snapshot and found the effect missing."""
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


async def test_the_wait_ends_at_once_for_partitions_with_leaders() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.wait_until_led({"orders": BOTH}, awaiter.deadline(LONG_MS)) == set()


async def test_the_wait_ends_at_once_without_partitions() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.wait_until_led({"unknown": frozenset()}, awaiter.deadline(LONG_MS)) == set()


async def test_the_wait_lasts_until_the_snapshot_has_the_topic() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    waiting = await begun(awaiter.wait_until_led({"new": BOTH}, awaiter.deadline(LONG_MS)))

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
    waiting = await begun(awaiter.wait_until_led({"new": BOTH}, awaiter.deadline(LONG_MS)))

    publish(snapshot, "new", partition(0, 1, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_the_leaders_of_a_hidden_older_topic_of_that_name_do_not_count() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    hide(snapshot, "orders")
    waiting = await begun(awaiter.wait_until_led({"orders": BOTH}, awaiter.deadline(LONG_MS)))

    publish(snapshot, "orders", partition(0, 1, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_a_leader_that_was_seen_once_counts_for_the_whole_wait() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    publish(snapshot, "new", partition(0, 1, 1), partition(1, NO_LEADER, 2))
    waiting = await begun(awaiter.wait_until_led({"new": BOTH}, awaiter.deadline(LONG_MS)))

    publish(snapshot, "new", partition(0, NO_LEADER, 1), partition(1, 2, 2))

    assert await result(waiting) == set()


async def test_only_topics_without_leaders_in_time_are_returned() -> None:
    awaiter = EffectWaiter(new_snapshot())
    wanted = {"orders": BOTH, "new": BOTH}
    assert await awaiter.wait_until_led(wanted, awaiter.deadline(SHORT_MS)) == {"new"}


async def test_a_deadline_in_the_past_allows_one_check() -> None:
    awaiter = EffectWaiter(new_snapshot())
    wanted = {"orders": BOTH, "new": BOTH}
    assert await awaiter.wait_until_led(wanted, awaiter.deadline(-1000)) == {"new"}


async def test_a_change_of_another_topic_does_not_end_the_wait() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    publish(snapshot, "new", partition(0, NO_LEADER, 1))
    waiting = await begun(awaiter.wait_until_led({"new": frozenset({0})}, awaiter.deadline(LONG_MS)))

    publish(snapshot, "other", partition(0, 1, 1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    publish(snapshot, "new", partition(0, 1, 1))

    assert await result(waiting) == set()


async def test_the_wait_ends_when_the_instance_loses_the_role() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    waiting = await begun(awaiter.wait_until_led({"new": BOTH}, awaiter.deadline(LONG_MS)))

    snapshot.role = Role.STANDBY
    snapshot.announce()

    assert await result(waiting) == {"new"}


async def test_very_many_partitions_are_checked_in_slices() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    put_topic(snapshot, "large", None, *(partition(number, 1, 1) for number in range(3 * SMALL)))
    wanted = {"large": frozenset(range(3 * SMALL))}

    waiting = asyncio.create_task(awaiter.wait_until_led(wanted, awaiter.deadline(LONG_MS)))
    await asyncio.sleep(0)
    assert not waiting.done()

    assert await result(waiting) == set()


async def test_a_snapshot_that_is_published_during_a_check_is_checked_too() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    put_topic(snapshot, "large", None, *(partition(number, NO_LEADER, 1) for number in range(3 * SMALL)))
    wanted = {"large": frozenset(range(3 * SMALL))}

    waiting = asyncio.create_task(awaiter.wait_until_led(wanted, awaiter.deadline(LONG_MS)))
    await asyncio.sleep(0)
    publish(snapshot, "large", *(partition(number, 1, 1) for number in range(3 * SMALL)))

    assert await result(waiting) == set()


async def test_the_wait_for_an_election_ends_with_the_expected_leader() -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    expected = {TopicPartition("orders", 0): BrokerId(2)}
    waiting = await begun(awaiter.wait_for_leaders(expected, awaiter.deadline(LONG_MS)))

    publish(snapshot, "orders", partition(0, 2, 1, 2))

    assert await result(waiting) == set()


async def test_partitions_without_the_expected_leader_in_time_are_returned() -> None:
    awaiter = EffectWaiter(new_snapshot())
    elected, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
    expected = {elected: BrokerId(1), other: BrokerId(1), TopicPartition("unknown", 7): BrokerId(1)}
    missing = await awaiter.wait_for_leaders(expected, awaiter.deadline(SHORT_MS))
    assert missing == {other, TopicPartition("unknown", 7)}


# -- deleted topics ----------------------------------------------------------------------------------------------------


async def test_an_unknown_topic_counts_as_deleted() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.wait_until_gone(frozenset({"unknown"}), awaiter.deadline(LONG_MS)) == set()


@pytest.mark.parametrize("is_shown_as_deleted", [True, False])
async def test_a_topic_counts_as_deleted_once_it_is_hidden_from_clients(is_shown_as_deleted: bool) -> None:
    snapshot = new_snapshot()
    awaiter = EffectWaiter(snapshot)
    hide(snapshot, "orders", is_hidden=False)
    waiting = await begun(awaiter.wait_until_gone(frozenset({"orders"}), awaiter.deadline(LONG_MS)))

    if is_shown_as_deleted:
        hide(snapshot, "orders")
    else:
        del snapshot.topics["orders"]
        snapshot.announce()

    assert await result(waiting) == set()


async def test_topics_that_still_exist_at_the_deadline_are_returned() -> None:
    awaiter = EffectWaiter(new_snapshot())
    assert await awaiter.wait_until_gone(frozenset({"orders", "unknown"}), awaiter.deadline(SHORT_MS)) == {"orders"}
