"""Group G, the controller ends at any step of a reassignment: the next one completes it in the same way.

The controller ends right before each of its transactions: its session expires, or its epoch is taken over. In the
second case it begins a new term while it still owns the role.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

import pytest

from controllerd.errors import CallFailed, ControllerMoved, NotController, StoreUnavailable
from tests.fakes.reassigning import (
    ask_by_znode,
    assigned,
    change_isr,
    deletions_answered,
    pending_deletions_of,
    reassign,
    requested,
    successor,
)
from tests.fakes.world import World, tp

Story = Callable[[World], Awaitable[object]]
ENDINGS = (CallFailed, ControllerMoved, NotController, StoreUnavailable)


class End(NamedTuple):
    """The content of ZooKeeper after everything is done."""

    assignment: tuple[list[int], list[int], list[int]]
    leader: int
    isr: list[int]
    request: dict[str, list[int]] | None
    pending_deletions: dict[int, list[str]]
    znodes: list[str]


async def cluster(*replicas: int) -> World:
    world = World()
    for broker in (1, 2, 3, 4):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: replicas})
    return await world.settle()


async def move_by_znode(world: World) -> None:
    """Move [1] to [2], requested by znode; the new replica catches up."""
    await ask_by_znode(world, {tp("t"): [2]})
    await catch_up(world)
    await deletions_answered(world)


async def move_by_request(world: World) -> None:
    """Move [1,2] to [2,3], requested by a call."""
    await reassign(world, {tp("t"): [2, 3]})
    await catch_up(world)
    await deletions_answered(world)


async def cancel(world: World) -> None:
    """Cancel the move from [1,2] to [3,4] when 3 is in sync already."""
    await reassign(world, {tp("t"): [3, 4]})
    await change_isr(world, "t", 1, 2, 3)
    await reassign(world, {tp("t"): None})
    await deletions_answered(world)


async def override(world: World) -> None:
    """Override the move from [1,2] to [3,2] by [4,2] when 3 is in sync already."""
    await reassign(world, {tp("t"): [3, 2, 4]})
    await change_isr(world, "t", 1, 2, 3)
    await reassign(world, {tp("t"): [4, 2]})
    await catch_up(world)
    await deletions_answered(world)


async def catch_up(world: World) -> None:
    """Let every replica of the target get in sync; if all are, the brokers send nothing."""
    replicas, adding, removing = assigned(world, "t")
    missing = [broker for broker in replicas if broker not in removing and broker not in world.state("t")[2]]
    if (adding or removing) and missing:
        await change_isr(world, "t", *world.state("t")[2], *missing)


async def end_of(world: World) -> End:
    """Let brokers answer all requests that are left."""
    await deletions_answered(world)
    leader, _, isr, _ = world.state("t")
    pending = {broker: left for broker in (1, 2, 3, 4) if (left := pending_deletions_of(world, broker))}
    return End(assigned(world, "t"), leader, sorted(isr), requested(world), pending, kafkas_own(world))


def kafkas_own(world: World) -> list[str]:
    """All znodes except ours; our folder for pending deletions stays once one was written."""
    return sorted(path for path in world.tree.nodes if not path.startswith("/controllerd"))


def lose_session(world: World) -> None:
    world.zk.expire()


def depose(world: World) -> None:
    epoch = int(world.tree.nodes["/controller_epoch"].data or b"")
    world.tree.put("/controller_epoch", str(epoch + 1).encode())


async def end_without(story: Story, replicas: tuple[int, ...]) -> tuple[End, int]:
    """The end without an interruption, and the number of transactions."""
    world = await cluster(*replicas)
    before = len(world.zk.transactions)
    await story(world)
    transactions = len(world.zk.transactions) - before
    return await end_of(world), transactions


async def end_when_killed(
    story: Story, replicas: tuple[int, ...], number: int, kill: Callable[[World], None]
) -> tuple[End, bool]:
    """The end when the controller ends before its n-th transaction, and whether it did."""
    world = await cluster(*replicas)
    epoch = world.context.epoch
    world.zk.before_transaction[len(world.zk.transactions) + number] = lambda: kill(world)
    with suppress(*ENDINGS):
        await story(world)
    was_killed = world.zk.is_lost or world.context.epoch != epoch
    after = await successor(world)
    await again(story, after)
    return await end_of(after), was_killed


async def again(story: Story, world: World) -> None:
    """Repeat a request by call, as its client does, if it has not been carried out; brokers go on.

    A request by znode is not repeated: the next controller must find it.
    """
    if story is move_by_znode:
        await catch_up(world)
        return
    replicas, adding, removing = assigned(world, "t")
    wanted = WANTED[story]
    is_on_its_way = [broker for broker in replicas if broker not in removing] == wanted and (adding or removing)
    if not is_on_its_way and set(replicas) != set(wanted):
        await reassign(world, {tp("t"): None if story is cancel else wanted})
    await catch_up(world)


WANTED: dict[Story, list[int]] = {move_by_znode: [2], move_by_request: [2, 3], override: [4, 2], cancel: [1, 2]}
STORIES = [(move_by_znode, (1,), 9), (move_by_request, (1, 2), 8), (cancel, (1, 2), 9), (override, (1, 2), 12)]


@pytest.mark.parametrize("kill", [lose_session, depose])
@pytest.mark.parametrize(("story", "replicas", "at_least"), STORIES)
async def test_g1_g6_g8_killed_before_any_of_its_transactions_a_reassignment_ends_as_without(
    story: Story, replicas: tuple[int, ...], at_least: int, kill: Callable[[World], None]
) -> None:
    expected, transactions = await end_without(story, replicas)
    assert transactions >= at_least

    for number in range(1, transactions + 1):
        end, was_killed = await end_when_killed(story, replicas, number, kill)
        assert was_killed, f"transaction {number} of {transactions}"
        assert end == expected, f"killed before transaction {number} of {transactions}"
