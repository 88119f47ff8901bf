"""The answer of every transaction of a story is lost in turn, after ZooKeeper committed it.

Each time the story ends as it does without a loss: no instance is elected twice, every partition is led, every broker
knows the leaders, and the audit log agrees.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from controllerd.audit.reader import AuditReader, fold_directory
from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.daemon.node import ControllerNode
from controllerd.dev.txnlog import Logged, LoggedTransaction, TransactionLog
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.ports.results import Won
from controllerd.record.fold import Observed, diff_with_zookeeper
from controllerd.record.invariants import check
from controllerd.zk import codecs, paths
from controllerd.zk.access import ReplyLost, Transaction, TransactionOutcome
from events.admin import AllocateProducerIds
from events.cluster import Resign, Takeover
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.scenarios.nodes import NODE, Rig, fail_at_the_next_batch, last_sent, rig_of, served
from tests.zk.proxy import MULTI, ZooKeeperProxy
from tests.zk.world import Peer, in_memory, until

pytestmark = pytest.mark.zookeeper

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
EPOCHS: Final = 5
"""Elected at the start, after the resignation, by the other one, by takeover, and anew after a failed event."""
TRANSACTIONS: Final = {
    "the cluster's folder": ["create /cluster"],
    "the cluster's id": ["create /cluster/id"],
    "the first epoch": ["create /controller_epoch"],
    "the first election": ["create /controller", "setData /controller_epoch"],
    "the feature znode": ["create /feature"],
    "a topic's id": ["setData /brokers/topics/t"],
    "the states of a topic": [
        "create /brokers/topics/t/partitions",
        "create /brokers/topics/t/partitions/0",
        "create /brokers/topics/t/partitions/1",
        "create /brokers/topics/t/partitions/0/state",
        "create /brokers/topics/t/partitions/1/state",
    ],
    "the election after a death": ["setData /brokers/topics/t/partitions/1/state"],
    "the shrunk ISR after a death": ["setData /brokers/topics/t/partitions/0/state"],
    "an ISR that a leader asked for": ["setData /brokers/topics/t/partitions/0/state"],
    "a note of an ISR change": ["delete /isr_change_notification/isr_change_1"],
    "the first producer ids": ["create /latest_producer_id_block"],
    "the next producer ids": ["setData /latest_producer_id_block"],
    "a resignation": ["delete /controller"],
    "the election after it": ["create /controller", "setData /controller_epoch"],
    "a takeover": ["setData /controller_epoch", "delete /controller", "create /controller"],
    "the id of a topic whose event fails": ["setData /brokers/topics/u"],
    "a new term after a failed event": ["setData /controller_epoch", "delete /controller", "create /controller"],
    "the states of that topic": [
        "create /brokers/topics/u/partitions",
        "create /brokers/topics/u/partitions/0",
        "create /brokers/topics/u/partitions/0/state",
    ],
    "the resignation at the end": ["delete /controller"],
}
"""The transactions of the controller in the story, in order, without the fences."""
STATES: Final = {
    T0: LeaderAndIsr(BrokerId(1), 1, (BrokerId(1), BrokerId(3), BrokerId(2)), 1, 2),
    T1: LeaderAndIsr(BrokerId(3), 1, (BrokerId(3), BrokerId(1)), 1, 1),
    U0: LeaderAndIsr(BrokerId(2), 0, (BrokerId(2), BrokerId(1)), 5, 0),
}


@dataclass(frozen=True)
class Ended:
    """The traces of the story."""

    audit: Path
    """Where the audit log is."""
    blocks: Sequence[int]
    """The first ids of the blocks that were handed out."""


@pytest.fixture(scope="module")
def server_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the server keeps its transaction log."""
    return tmp_path_factory.mktemp("lost-replies")


@pytest.fixture(scope="module")
def server(server_directory: Path) -> Iterator[EmbeddedZooKeeper]:
    """A server of this module's own, whose transaction log can be read."""
    yield from served(server_directory)


@pytest.fixture
async def rig(server: EmbeddedZooKeeper, server_directory: Path, chroot: str, tmp_path: Path) -> AsyncIterator[Rig]:
    """Three brokers and no controller yet."""
    async with (
        ZooKeeperProxy(server.connect) as proxy,
        rig_of(server.connect, chroot, proxy, TransactionLog(server_directory / "data"), tmp_path) as running,
        running.brokers(1, 2, 3),
    ):
        yield running


# -- the story ---------------------------------------------------------------------------------------------------------


async def story(rig: Rig) -> Ended:
    """A term with all that it writes, a resignation, a takeover from another one, a failed event, the end."""
    async with rig.node() as node:
        await rig.peer.add_topic("t", [[1, 3, 2], [2, 3, 1]])
        await rig.led_by("t", 1, 2)
        await rig.die(2)
        await rig.led_by("t", 1, 3)
        await has_isr(rig, T0, 1, 3)
        await come_back(rig, node, 2)
        await ask_for_isr(rig, node, T0, (1, 3, 2))
        await leave_a_note(rig)
        blocks = [await next_block(node), await next_block(node)]
        await change_hands(rig, node)
        await fail_in_an_event(rig, node)
        await wait_for_last_requests(rig)
        ended = Ended(node.audit.directory, blocks)
    assert await rig.holder() == -1
    return ended


async def has_isr(rig: Rig, tp: TopicPartition, *isr: int) -> None:
    async with asyncio.timeout(30):
        while (await rig.states(tp.topic, tp.partition + 1))[tp].isr != isr:  # noqa: ASYNC110  # ZooKeeper is looked at
            await asyncio.sleep(0.01)


async def come_back(rig: Rig, node: ControllerNode, broker: int) -> None:
    await until(lambda: BrokerId(broker) not in node.snapshot.brokers)
    await rig.register(broker)
    await until(lambda: BrokerId(broker) in node.snapshot.brokers)


async def ask_for_isr(rig: Rig, node: ControllerNode, tp: TopicPartition, isr: tuple[int, ...]) -> None:
    state = (await rig.states(tp.topic, tp.partition + 1))[tp]
    proposed = ProposedIsr(state.leader_epoch, state.partition_epoch, tuple(map(BrokerId, isr)))
    epoch = await rig.broker_epoch(state.leader)
    reply = await node.instance.queue.call(AlterPartitionReceived(state.leader, epoch, 1, {tp: proposed}, {}))
    assert reply.partitions == {tp: STATES[tp]}


async def leave_a_note(rig: Rig) -> None:
    note = paths.isr_change("isr_change_1")
    await rig.peer.put(note, codecs.encode_isr_change([T0]))
    async with asyncio.timeout(30):
        while await rig.peer.node(note) is not None:  # noqa: ASYNC110  # ZooKeeper is looked at
            await asyncio.sleep(0.01)


async def next_block(node: ControllerNode) -> int:
    return (await node.instance.queue.call(AllocateProducerIds(BrokerId(NODE), -1))).start


async def change_hands(rig: Rig, node: ControllerNode) -> None:
    """Give the role away, take it back, lose it to another controllerd, and take it from there."""
    await node.instance.queue.call(Resign())
    assert await rig.holder() == -1
    first = await node.instance.queue.call(Takeover())
    await rig.peer.lead()
    await until(lambda: not node.snapshot.is_active)
    second = await node.instance.queue.call(Takeover())
    rig.peer.elector.forget_term()  # from now on the other one only looks
    assert (first.epoch_after, second.epoch_after) == (2, 4)


async def fail_in_an_event(rig: Rig, node: ControllerNode) -> None:
    """The event of a new topic fails after it has written: a new term begins, and brings the topic online."""
    fail_at_the_next_batch(node)
    await rig.peer.add_topic("u", [[2, 1]])
    await rig.led_by("u", 2)
    await until(lambda: node.snapshot.is_active and len(node.instance.queue) == 0)


async def wait_for_last_requests(rig: Rig) -> None:
    """Wait until the last requests to each broker have the final states."""

    def knows() -> bool:
        for broker, stub in rig.stubs.items():
            for tp, state in STATES.items():
                now = (state.leader, state.leader_epoch, state.partition_epoch, *state.isr)
                has_replica = tp.topic == "t" or broker in state.isr
                if last_sent(stub, "UpdateMetadata", tp.topic).get(tp.partition) != now:
                    return False
                if has_replica and last_sent(stub, "LeaderAndIsr", tp.topic).get(tp.partition) != now:
                    return False
        return True

    await until(knows, 20)


# -- the traces --------------------------------------------------------------------------------------------------------


def in_brief(rig: Rig, transaction: LoggedTransaction) -> list[str]:
    """The operations without the fence and without the chroot."""
    return [f"{op.op} {op.path.removeprefix(rig.chroot)}" for op in transaction.operations if is_effect(op)]


def is_effect(op: Logged) -> bool:
    return op.op in {"create", "setData", "delete"}


async def audit_agrees(rig: Rig, ended: Ended) -> None:
    """The audit log folds to what ZooKeeper holds, and breaks no invariant."""
    topics = (await rig.peer.store.topics.read_topics(["t", "u"])).topics
    assignments = {TopicPartition(name, p): a for name, image in topics.items() for p, a in image.assignments.items()}
    held = Observed({name: image.topic_id for name, image in topics.items()}, assignments, STATES)
    assert diff_with_zookeeper(fold_directory(ended.audit), held) == []
    assert list(check(AuditReader(ended.audit))) == []


async def test_the_story_without_a_lost_reply_commits_the_listed_transactions(rig: Rig) -> None:
    await story(rig)

    ours = [found for found in rig.written() if found.session_id != rig.peer.zk.session_id]
    assert [in_brief(rig, found) for found in ours if not found.was_refused] == list(TRANSACTIONS.values())


@pytest.mark.parametrize(("number", "lost"), list(enumerate(TRANSACTIONS)), ids=list(TRANSACTIONS))
async def test_a_lost_reply_does_not_change_the_end_of_the_story(rig: Rig, number: int, lost: str) -> None:
    rig.proxy.lose_answer(MULTI, skip=number)

    ended = await story(rig)

    assert rig.proxy.lost == 1
    assert dict(await rig.states("t", 2)) | dict(await rig.states("u", 1)) == STATES
    raised = [op for found in rig.written() for op in found.operations if op.path.endswith(paths.CONTROLLER_EPOCH)]
    assert len([op for op in raised if op.op == "setData"]) == EPOCHS
    assert (await rig.epoch(), ended.blocks) == (EPOCHS, [0, 1000])
    await audit_agrees(rig, ended)


# -- never committed ---------------------------------------------------------------------------------------------------


def lose_before_the_commit(peer: Peer, times: int) -> None:
    """The next transactions get lost on their way, so that they have no effect and no answer."""
    commit, left = peer.zk.commit, [ReplyLost()] * times

    async def losing(transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        return [left.pop() for _ in transactions] if left else await commit(transactions)

    peer.zk.commit = losing  # type: ignore[method-assign]


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_resignation_is_repeated_until_it_took_effect(times: int) -> None:
    """Otherwise the session would keep the role until it ends, though no instance acts in it."""
    peer = in_memory().ours
    await peer.lead()
    lose_before_the_commit(peer, times)

    await peer.elector.resign()

    assert await peer.node(paths.CONTROLLER) is None


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_an_election_that_never_arrived_is_tried_again_with_the_same_epoch(times: int) -> None:
    peer = in_memory().ours
    await peer.lead()
    await peer.elector.resign()
    lose_before_the_commit(peer, times)

    assert await peer.elector.elect() == Won(2, 2, None)


@pytest.mark.parametrize("times", [1, 2, 5])
async def test_a_new_term_that_never_arrived_is_tried_again_with_the_same_epoch(times: int) -> None:
    peer = in_memory().ours
    won = await peer.lead()
    lose_before_the_commit(peer, times)

    assert (await peer.elector.renew()).epoch == won.epoch + 1
