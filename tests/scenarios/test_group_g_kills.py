"""Group G, the controller ends at any step of a reassignment: the next one brings it to the same end.

Ended right before each of its transactions: by the loss of its session, or because the epoch is taken from it, upon
which it begins a new term while it still owns the role.
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
    owed,
    reassign,
    requested,
    successor,
)
from tests.fakes.world import World, tp

Story = Callable[[World], Awaitable[object]]
ENDINGS = (CallFailed, ControllerMoved, NotController, StoreUnavailable)


class End(NamedTuple):
    """What ZooKeeper says when everything is over."""

    assignment: tuple[list[int], list[int], list[int]]
    leader: int
    isr: list[int]
    request: dict[str, list[int]] | None
    owed: dict[int, list[str]]
    znodes: list[str]


async def cluster(*replicas: int) -> World:
    world = World()
    for broker in (1, 2, 3, 4):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: replicas})
    return await world.settle()


async def move_by_znode(world: World) -> None:
    """[1] becomes [2], asked for by znode; the new replica catches up."""
    await ask_by_znode(world, {tp("t"): [2]})
    await catch_up(world)
    await deletions_answered(world)


async def move_by_request(world: World) -> None:
    """[1,2] becomes [2,3], asked for by request."""
    await reassign(world, {tp("t"): [2, 3]})
    await catch_up(world)
    await deletions_answered(world)


async def cancel(world: World) -> None:
    """[1,2] is on its way to [3,4], 3 is in sync already, and it is cancelled."""
    await reassign(world, {tp("t"): [3, 4]})
    await change_isr(world, "t", 1, 2, 3)
    await reassign(world, {tp("t"): None})
    await deletions_answered(world)


async def override(world: World) -> None:
    """[1,2] is on its way to [3,2], 3 is in sync already, and [4,2] is wanted instead."""
    await reassign(world, {tp("t"): [3, 2, 4]})
    await change_isr(world, "t", 1, 2, 3)
    await reassign(world, {tp("t"): [4, 2]})
    await catch_up(world)
    await deletions_answered(world)


async def catch_up(world: World) -> None:
    """Every replica of the target gets in sync, if it is not. If all are, no broker has anything to say."""
    replicas, adding, removing = assigned(world, "t")
    missing = [broker for broker in replicas if broker not in removing and broker not in world.state("t")[2]]
    if (adding or removing) and missing:
        await change_isr(world, "t", *world.state("t")[2], *missing)


async def end_of(world: World) -> End:
    """Brokers answer what is left to answer."""
    await deletions_answered(world)
    leader, _, isr, _ = world.state("t")
    debts = {broker: left for broker in (1, 2, 3, 4) if (left := owed(world, broker))}
    return End(assigned(world, "t"), leader, sorted(isr), requested(world), debts, kafkas_own(world))


def kafkas_own(world: World) -> list[str]:
    """All znodes but ours, of which the folder for debts is there once there was one."""
    return sorted(path for path in world.tree.nodes if not path.startswith("/controllerd"))


def lose_session(world: World) -> None:
    world.zk.expire()


def depose(world: World) -> None:
    epoch = int(world.tree.nodes["/controller_epoch"].data or b"")
    world.tree.put("/controller_epoch", str(epoch + 1).encode())


async def end_without(story: Story, replicas: tuple[int, ...]) -> tuple[End, int]:
    """The end when nobody is killed, and in how many transactions."""
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
    """Whoever asked by a call looks again, and asks for what has not been done; brokers go on.

    Nobody asks again for what the znode asks for: that is for the controller to find.
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
