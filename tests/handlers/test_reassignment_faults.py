"""One fault at each transaction of a reassignment: the reassignment ends as it would without the fault.

A fault is a refusal, a foreign write, a lost answer, a defect, or an expired session. The client repeats its request
if the answer demands that, and the timers fire.
"""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest

from controllerd.zk.access import Aborted, Transaction, TransactionOutcome
from tests.fakes.reassigning import assigned, reassign, successor
from tests.fakes.world import World, tp
from tests.fakes.zookeeper import NO_AUTH
from tests.handlers.test_faults import Commit, Fault, expire_after, fail_unexpectedly, lose_the_answer, strike
from tests.scenarios.test_group_g_kills import (
    ENDINGS,
    STORIES,
    WANTED,
    End,
    Story,
    cancel,
    catch_up,
    cluster,
    end_of,
    end_without,
)

TOPIC = "/brokers/topics/t"


def refuse(world: World, number: int) -> None:
    """ZooKeeper refuses the transaction, and every repetition of it, until the timers fire."""
    commit, refused = world.zk._commit, set[str]()

    def refuse_again(transaction: Transaction) -> TransactionOutcome | None:
        wanted = [index for index, operation in enumerate(transaction) if operation.path in refused and index > 0]
        return Aborted(world.tree.zxid, wanted[0], NO_AUTH) if wanted else None

    def fault(transaction: Transaction, _commit: Commit) -> TransactionOutcome:
        refused.update(operation.path for operation in transaction[1:])
        return refuse_again(transaction) or commit(transaction)

    strike(world, number, fault)
    struck = world.zk._commit
    world.zk._commit = lambda transaction: refuse_again(transaction) or struck(transaction)  # type: ignore[method-assign]
    world.mend = refused.clear  # type: ignore[attr-defined]


def touch_before(path: str) -> Fault:
    """Another client writes the znode right before the transaction, and changes no field that the controller reads."""

    def fault(world: World, number: int) -> None:
        def touch() -> None:
            body = json.loads(world.tree.nodes[path].data or b"")
            world.tree.put(path, json.dumps({**body, "seen": number}).encode())

        world.zk.before_transaction[len(world.zk.transactions) + number] = touch

    return fault


touch_topic = touch_before(TOPIC)
touch_state = touch_before(tp("t").state_path)


async def end_with(story: Story, replicas: tuple[int, ...], fault: Fault, number: int) -> End:
    world = await cluster(*replicas)
    fault(world, number)
    with suppress(*ENDINGS):
        await story(world)
    getattr(world, "mend", lambda: None)()
    for _ in range(3):
        for event in world.timers.fire():
            world.queue.put(event)
        await world.settle()
        await ask_again(story, world)
    end = await end_of(world)
    later = await end_of(await successor(world))  # the next term alone may clear pending deletions
    return end._replace(pending_deletions=later.pending_deletions)


async def ask_again(story: Story, world: World) -> None:
    """The client repeats a refused or lost reassignment by request, and brokers catch up."""
    replicas, adding, removing = assigned(world, "t")
    wanted = WANTED[story]
    is_on_its_way = [broker for broker in replicas if broker not in removing] == wanted and (adding or removing)
    if not is_on_its_way and set(replicas) != set(wanted):
        await reassign(world, {tp("t"): None if story is cancel else wanted})
    await catch_up(world)


@pytest.mark.parametrize(
    "fault",
    [refuse, touch_topic, touch_state, lose_the_answer, fail_unexpectedly, expire_after],
    ids=["refused", "topic touched", "state touched", "answer lost", "defect", "expired"],
)
@pytest.mark.parametrize(("story", "replicas", "_at_least"), STORIES)
async def test_a_reassignment_with_a_fault_at_any_transaction_ends_as_without_the_fault(
    story: Story, replicas: tuple[int, ...], _at_least: int, fault: Callable[[World, int], None]
) -> None:
    expected, transactions = await end_without(story, replicas)

    ends = {number: await end_with(story, replicas, fault, number) for number in range(1, transactions + 1)}

    assert {number: end for number, end in ends.items() if end != expected} == {}
