"""Group A, endings: a controller that stops has answered every call, and its unfinished work stays in ZooKeeper."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import BrokerId
from controllerd.daemon.node import ControllerNode
from controllerd.errors import NotController
from controllerd.zk import paths
from events.admin import (
    AllocateProducerIds,
    AlterScram,
    ControlledShutdown,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    Requester,
    UpdateFeatures,
)
from events.base import Call, Event
from events.cluster import BrokerChange
from events.elections import ElectionTrigger, ElectionType, ReplicaLeaderElection
from events.reassignments import ApiPartitionReassignment, ListPartitionReassignments
from events.replicas import AlterPartitionReceived
from tests.api.cluster import Client
from tests.scenarios.nodes import NODE, RecordedEvents, Rig
from tests.zk.world import until
from wire.versions import ApiKey

pytestmark = pytest.mark.zookeeper

EVERY_REQUEST = (1, 3, 4, 8, 9, 12, 14, 22, 101)
MANY = 200
BROKER = BrokerId(1)
REQUESTER = Requester("User:alice", "alice", "app", 7, "127.0.0.1")
LISTING: Call[Any] = ListPartitionReassignments(None)
CALLS: dict[str, Call[Any]] = {
    "ElectLeaders": ReplicaLeaderElection(None, ElectionType.PREFERRED, ElectionTrigger.ADMIN_CLIENT, REQUESTER),
    "ControlledShutdown": ControlledShutdown(BROKER, -1),
    "AlterPartitionReassignments": ApiPartitionReassignment(REQUESTER, {}),
    "ListPartitionReassignments": LISTING,
    "AlterPartition": AlterPartitionReceived(BROKER, 1, 1, {}, {}),
    "AllocateProducerIds": AllocateProducerIds(BrokerId(NODE), -1),
    "UpdateFeatures": UpdateFeatures(REQUESTER, {}),
    "CreateTopics": CreateTopics(REQUESTER, ()),
    "DeleteTopics": DeleteTopics(REQUESTER, ()),
    "CreatePartitions": CreatePartitions(REQUESTER, ()),
    "AlterScram": AlterScram(REQUESTER, {}),
}
"""Every call that a client or a broker can send to a controller."""


@asynccontextmanager
async def stalled(rig: Rig, node: ControllerNode) -> AsyncIterator[None]:
    """Stop all traffic to ZooKeeper once the controller is idle."""
    loop = node.instance.loop
    assert loop is not None
    await until(lambda: len(node.instance.queue) == 0 and loop.current is None)
    rig.proxy.held |= {opcode: asyncio.Event() for opcode in EVERY_REQUEST}
    yield
    for gate in rig.proxy.held.values():
        gate.set()
    rig.proxy.held.clear()


async def busy(node: ControllerNode) -> None:
    """Give the controller an event that does not end before ZooKeeper answers."""
    node.instance.queue.put(BrokerChange())
    await wait_until_begun(node, BrokerChange)


async def wait_until_begun(node: ControllerNode, kind: type[Event]) -> None:
    """Wait until an event of this kind is being handled."""
    loop = node.instance.loop
    assert loop is not None
    await until(lambda: loop.current is not None and isinstance(loop.current.event, kind))


def open_all(gates: Iterable[asyncio.Event]) -> None:
    """Open all gates."""
    for gate in gates:
        gate.set()


class Answers:
    """The outcomes of calls, with their numbers."""

    def __init__(self) -> None:
        self.all: list[BaseException | None] = []

    def note(self, call: Awaitable[object]) -> None:
        """Keep the answer when it comes."""
        assert isinstance(call, asyncio.Future)
        call.add_done_callback(lambda done: self.all.append(done.exception()))

    def kinds(self) -> Counter[type[object]]:
        """How many answers of each kind there were."""
        return Counter(map(type, self.all))


async def test_a9_every_event_that_waits_is_preempted_exactly_once_before_the_end(rig: Rig) -> None:
    """ZooKeeper goes on when the last call is answered: the event being handled must not end before the node does."""
    answers = Answers()
    async with rig.node() as node:
        queue = node.instance.queue
        async with stalled(rig, node):
            recorded = RecordedEvents(node)
            await busy(node)
            calls: list[Awaitable[object]] = []
            for _ in range(MANY):
                queue.put(BrokerChange())
                calls.append(queue.call(LISTING))
                answers.note(calls[-1])
            waiting = len(queue)
            held, rig.proxy.held = rig.proxy.held, {}
            assert isinstance(calls[-1], asyncio.Future)
            calls[-1].add_done_callback(lambda _: open_all(held.values()))
    await until(lambda: len(answers.all) >= MANY)

    assert waiting == MANY + 1, "changes of the brokers that nobody looked at yet are one event"
    assert answers.kinds() == {NotController: MANY}
    begun = recorded.begun()
    assert (begun["BrokerChange"], begun["ListPartitionReassignments"]) == (1, 0), "none but the one in work"


@pytest.mark.parametrize("name", CALLS)
async def test_a10_a_call_that_waits_is_answered_that_we_are_not_the_controller_kafka_10193(
    rig: Rig, name: str
) -> None:
    """ZooKeeper goes on when the call is answered: the event being handled must not end before the node does."""
    async with rig.node() as node, stalled(rig, node):
        await busy(node)
        waiting = node.instance.queue.call(CALLS[name])
        held, rig.proxy.held = rig.proxy.held, {}
        assert isinstance(waiting, asyncio.Future)
        waiting.add_done_callback(lambda _: open_all(held.values()))

    with pytest.raises(NotController):
        async with asyncio.timeout(1):
            await waiting


async def test_a10_a_call_that_is_being_handled_is_answered_though_zookeeper_never_answers(rig: Rig) -> None:
    async with rig.node() as node:
        async with stalled(rig, node):
            held = dict(rig.proxy.held)
            waiting = node.instance.queue.call(CALLS["AllocateProducerIds"])
            await wait_until_begun(node, AllocateProducerIds)
            rig.proxy.held = {}
        rig.proxy.held = held

    with pytest.raises(NotController):
        async with asyncio.timeout(1):
            await waiting


async def test_a10_on_the_wire_each_api_has_its_own_way_to_say_so(rig: Rig) -> None:
    """ZooKeeper goes on when both calls are answered: the event being handled must not end before the node does."""
    async with rig.node() as node:
        endpoint = node.kafka.advertised[0]
        clients = [Client(*await asyncio.open_connection(endpoint.host, endpoint.port)) for _ in range(2)]
        async with stalled(rig, node):
            await busy(node)
            shutdown = asyncio.create_task(clients[0].ask(ApiKey.CONTROLLED_SHUTDOWN, 3, broker_id=1, broker_epoch=1))
            ids = asyncio.create_task(clients[1].ask(ApiKey.ALLOCATE_PRODUCER_IDS, 0, broker_id=1, broker_epoch=1))
            await until(lambda: len(node.instance.queue) >= 2)
            held, rig.proxy.held = rig.proxy.held, {}
            asyncio.gather(shutdown, ids).add_done_callback(lambda _: open_all(held.values()))
    answers = [(await shutdown).error_code, (await ids).error_code]
    for client in clients:
        await client.close()

    assert answers == [KafkaError.STALE_CONTROLLER_EPOCH, KafkaError.NOT_CONTROLLER]


async def test_a11_a_deletion_stays_pending_across_a_fail_over_kafka_1681_and_kafka_1742(
    rig: Rig,
) -> None:
    doomed = f"{paths.DELETE_TOPICS}/t"
    async with rig.brokers(1, 2):
        async with rig.node() as first:
            await rig.peer.add_topic("t", [[1, 2]])
            await rig.led_by("t", 1)
            await rig.die(2)
            await rig.peer.put(doomed)
            await until(
                lambda: "t" in first.snapshot.deletions and first.snapshot.deletions["t"].held_up_by is not None
            )
            asked = await rig.peer.node(doomed)

        async with rig.node(NODE + 1) as successor:
            await until(lambda: "t" in successor.snapshot.deletions)
            assert successor.snapshot.deletions["t"].held_up_by == "replicas on broker 2 cannot be deleted: not online"
            assert await rig.peer.node(doomed) == asked
            await rig.register(2)
            await until(lambda: "t" not in successor.snapshot.topics)

    assert await rig.peer.node(doomed) is None
    assert await rig.peer.node(paths.topic("t")) is None
