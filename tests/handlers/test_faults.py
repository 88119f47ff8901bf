"""Brokers fail, bounce and leave in one sequence of events, and one fault strikes at each of its transactions in turn.

In the end the image equals ZooKeeper, every partition has a leader, and every live broker was sent that leader.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, PartitionState, TopicPartition
from controllerd.core.requests import LeaderAndIsrRequest, UpdateMetadataRequest
from controllerd.errors import CallFailed, NotController, StoreUnavailable
from controllerd.zk.access import Transaction, TransactionOutcome
from events.admin import ControlledShutdown
from events.base import Call, Reply
from events.cluster import Expire, RegisterBrokerAndReelect
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.world import NODE_ID, World
from tests.handlers.test_role import depose

TRANSACTIONS = range(1, 45)
"""At least as many as the sequence has. A fault beyond its end never strikes."""
NEW_SESSION = 77

Fault = Callable[[World, int], None]
Commit = Callable[[Transaction], TransactionOutcome]


async def story(world: World, fault: Fault, number: int) -> World:
    """Create topics, fail and restart brokers, add a partition, delete a topic; ``fault`` strikes at a transaction."""
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    fault(world, number)
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    await world.settle()
    world.put_topic("u", {0: [1, 2], 1: [2, NODE_ID]})
    await catch_up(world)
    world.die(1)
    await world.settle()
    world.register(1)
    await catch_up(world)
    await leave(world, 2)
    world.bounce(2)
    await catch_up(world)
    world.put_topic("t", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2], 3: [1, 3, 2]})
    await catch_up(world)
    world.die(3)
    await world.settle()
    world.tree.remove("/brokers/topics/u")
    await world.settle()
    world.register(3)
    await catch_up(world)
    return world


async def leave(world: World, broker: int) -> None:
    """A controlled shutdown. Without a controller, no instance answers it."""
    if world.c.is_active:
        await ask(world, ControlledShutdown(BrokerId(broker), world.context.epochs()[BrokerId(broker)]))


async def catch_up(world: World) -> None:
    """Handle every event; then each leader takes all live replicas into its ISR, and repeats its request once."""
    await world.settle()
    for _ in range(2):
        for tp, state in list(leaderships(world)):
            wanted = tuple(broker for broker in world.context.assignment(tp).replicas if broker in world.context.live)
            epoch = world.context.epochs().get(state.leader)
            if epoch is not None and set(wanted) != set(state.isr):
                proposed = ProposedIsr(state.leader_epoch, state.partition_epoch, wanted)
                await ask(world, AlterPartitionReceived(state.leader, epoch, 1, {tp: proposed}, {}))


async def ask(world: World, call: Call[Reply]) -> None:
    """Send a request. Every request is answered, if only by a failure."""
    with suppress(NotController, CallFailed):
        await world.call(call)


def leaderships(world: World) -> Iterator[tuple[TopicPartition, LeaderAndIsr]]:
    for tp in [record.tp for record in world.context.records()]:
        state = world.context.leadership(tp)
        assert state is not None
        yield tp, state


def assert_in_order(world: World) -> None:
    """The instance leads, its image equals ZooKeeper, and every live broker knows every leader."""
    assert world.c.is_active
    for tp, state in leaderships(world):
        node = world.tree.nodes[f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"]
        found = json.loads(node.data or b"")
        assert (state.leader, state.leader_epoch, list(state.isr)) == (
            found["leader"],
            found["leader_epoch"],
            found["isr"],
        )
        assert state.partition_epoch == node.version
        assert world.context.partition_state(tp) is PartitionState.ONLINE
        for broker in world.context.brokers:
            assert_knows(world, broker, tp, state)


def assert_knows(world: World, broker: BrokerId, tp: TopicPartition, state: LeaderAndIsr) -> None:
    """The last request of this broker epoch about the partition has the current state."""
    epoch = world.context.epochs()[broker]
    sent = [request for request in world.channels.to(broker) if request.broker_epoch == epoch]
    metadata = [
        r.body.partitions[tp].state for r in sent if isinstance(r, UpdateMetadataRequest) if tp in r.body.partitions
    ]
    orders = [r.partitions[tp].state for r in sent if isinstance(r, LeaderAndIsrRequest) if tp in r.partitions]
    assert metadata[-1] == state
    if broker in world.context.assignment(tp).replicas:
        assert (orders[-1].leader, orders[-1].leader_epoch) == (state.leader, state.leader_epoch)


def strike(world: World, number: int, fault: Callable[[Transaction, Commit], TransactionOutcome]) -> None:
    """Replace the n-th transaction from now on by ``fault``."""
    commit, numbers = world.zk._commit, count(1)

    def struck(transaction: Transaction) -> TransactionOutcome:
        return fault(transaction, commit) if next(numbers) == number else commit(transaction)

    world.zk._commit = struck  # type: ignore[method-assign]


def lose_the_answer(world: World, number: int) -> None:
    world.zk.lose_reply_of.add(len(world.zk.transactions) + number)


def fail_unexpectedly(world: World, number: int) -> None:
    def fault(_transaction: Transaction, _commit: Commit) -> TransactionOutcome:
        raise RuntimeError("planted")

    strike(world, number, fault)


def expire(world: World, number: int, *, took_effect: bool) -> None:
    def fault(transaction: Transaction, commit: Commit) -> TransactionOutcome:
        if took_effect:
            commit(transaction)
        world.zk.expire()
        world.channels.shutdown()
        world.queue.clear_and_put(Expire(1))
        raise StoreUnavailable("the session is lost")

    def next_session() -> None:
        world.zk.reconnect_as(NEW_SESSION)
        world.queue.put(RegisterBrokerAndReelect())

    world.c.role.session_expired = next_session
    strike(world, number, fault)


def expire_before(world: World, number: int) -> None:
    expire(world, number, took_effect=False)


def expire_after(world: World, number: int) -> None:
    expire(world, number, took_effect=True)


@pytest.mark.parametrize("number", TRANSACTIONS)
@pytest.mark.parametrize("fault", [lose_the_answer, fail_unexpectedly, expire_before, expire_after])
async def test_a_fault_at_any_transaction_leaves_the_cluster_in_order(fault: Fault, number: int) -> None:
    assert_in_order(await story(World(), fault, number))


@pytest.mark.parametrize("number", TRANSACTIONS)
async def test_a_controller_deposed_at_a_transaction_neither_writes_nor_sends_any_more(number: int) -> None:
    sent: list[int] = []

    def deposed(world: World, number: int) -> None:
        def fault() -> None:
            sent.append(len(world.channels.sent))
            depose(world)

        world.zk.before_transaction[len(world.zk.transactions) + number] = fault

    world = await story(World(), deposed, number)

    assert [len(world.channels.sent)] == sent or (not sent and world.c.is_active)
    assert world.c.is_active is not bool(sent)
