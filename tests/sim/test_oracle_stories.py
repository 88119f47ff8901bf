"""The judge raises no false alarm: stories of a whole controller with all kinds of faults break no rule."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from controllerd.core.model import BrokerId, LeaderAndIsr, TopicPartition
from controllerd.core.requests import (
    ControlRequest,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
    api_name,
)
from controllerd.record.fold import apply
from controllerd.record.state import ClusterState
from controllerd.zk.access import CheckVersion, Committed, Create, Delete, SetData, TransactionOutcome
from controllerd.zk.access import Operation as ZkOperation
from events.admin import ControlledShutdown
from events.base import Call, Reply
from events.replicas import AlterPartitionReceived
from tests.fakes.world import NODE_ID, World
from tests.handlers import test_faults as faults
from tests.record.logs import log_of
from tests.sim.oracle import (
    AskedIsr,
    Operation,
    Oracle,
    Row,
    SeenRequest,
    Transaction,
    context_differences,
    log_differences,
)

WINDOW: Final = 12.0
"""In transactions, which are the seconds of these stories: a controller handles its events at once."""
OWNER: Final = "a"
OTHER_INSTANCE: Final = "5c0ffee0-0000-4000-8000-000000000002"
BROKER_SESSION: Final = 99
KINDS: Final = {Create: "create", SetData: "set", Delete: "delete", CheckVersion: "check"}


class JudgedWorld(World):
    """A controller whose every transaction, request and call is reported to the judge."""

    def __init__(self, first: "JudgedWorld | None" = None) -> None:
        """With a ``first`` world this is a second instance in the same cluster."""
        if first is None:
            super().__init__()
            self.oracle, self.owner = Oracle(window=WINDOW), OWNER
            self.apply = self.tree.apply
            self.tree.apply = self.judged_apply  # type: ignore[method-assign]
        else:
            super().__init__(tree=first.tree, session_id=2, node_id=NODE_ID + 1, instance=OTHER_INSTANCE)
            self.oracle, self.owner = first.oracle, "b"
        self.oracle.zookeeper.on_session(self.owner, self.zk.session_id)
        self.send = self.channels.send
        self.channels.send = self.judged_send  # type: ignore[method-assign]

    def judged_apply(self, operations: Sequence[ZkOperation], session_id: int) -> TransactionOutcome:
        outcome = self.apply(operations, session_id)
        if isinstance(outcome, Committed):
            seen = [operation_of(operation) for operation in operations]
            self.oracle.zookeeper.on_transaction(Transaction(outcome.zxid, session_id, seen, float(outcome.zxid)))
        return outcome

    def judged_send(self, broker: BrokerId, request: ControlRequest) -> None:
        self.send(broker, request)
        if broker in self.channels.open:
            self.oracle.requests.on_sent(self.owner, broker, request.controller_epoch, float(self.tree.zxid))
            self.oracle.requests.on_request(seen_request(self.owner, broker, request, float(self.tree.zxid)))

    async def call(self, event: Call[Reply]) -> Reply:
        if isinstance(event, ControlledShutdown):
            self.oracle.zookeeper.on_controlled_shutdown(event.broker)
        if isinstance(event, AlterPartitionReceived):
            for tp, ask in event.by_name.items():
                asked = (ask.leader_epoch, ask.partition_epoch, ask.isr, int(ask.recovery_state))
                self.oracle.zookeeper.on_alter_partition(AskedIsr(event.broker, tp.topic, tp.partition, *asked))
        return await super().call(event)


def operation_of(operation: ZkOperation) -> Operation:
    data = operation.data if isinstance(operation, Create | SetData) else None
    expected = -1 if isinstance(operation, Create) else operation.version
    is_ephemeral = isinstance(operation, Create) and operation.ephemeral
    return Operation(KINDS[type(operation)], operation.path, data, expected, is_ephemeral)


def seen_request(owner: str, broker: int, request: ControlRequest, time: float) -> SeenRequest:
    epochs = (request.controller_id, request.controller_epoch, request.broker_epoch)
    live = [int(row.id) for row in request.body.live_brokers] if isinstance(request, UpdateMetadataRequest) else []
    return SeenRequest(broker, owner, api_name(request), *epochs, 0, time, list(rows_of(request)), live)


def rows_of(request: ControlRequest) -> Iterator[Row]:
    match request:
        case LeaderAndIsrRequest():
            yield from (row(tp, p.state, p.assignment.replicas) for tp, p in request.partitions.items())
        case UpdateMetadataRequest():
            yield from (row(tp, p.state, p.replicas) for tp, p in request.body.partitions.items())
        case StopReplicaRequest():
            yield from (Row(*tp, leader_epoch=p.leader_epoch, delete=p.delete) for tp, p in request.partitions.items())


def row(tp: TopicPartition, state: LeaderAndIsr, replicas: tuple[BrokerId, ...]) -> Row:
    return Row(*tp, state.leader, state.leader_epoch, state.isr, state.partition_epoch, replicas)


def folded(world: World) -> ClusterState:
    state = ClusterState()
    for envelope, record in log_of(world.audit.records):
        apply(state, envelope, record)
    return state


async def judged(fault: Callable[[World, int], None], number: int) -> JudgedWorld:
    world = JudgedWorld()
    world.oracle.zookeeper.on_session(OWNER, faults.NEW_SESSION)
    await faults.story(world, fault, number)
    return world


@pytest.mark.parametrize("number", faults.TRANSACTIONS)
@pytest.mark.parametrize(
    "fault", [faults.lose_the_answer, faults.fail_unexpectedly, faults.expire_before, faults.expire_after]
)
async def test_a_story_with_a_fault_breaks_no_rule(fault: Callable[[World, int], None], number: int) -> None:
    world = await judged(fault, number)
    history = world.oracle.zookeeper.history
    assert world.oracle.violations == []
    assert context_differences(history, world.context, world.context.epoch) == []
    assert log_differences(history, folded(world)) == []


def elect_a_broker(world: World) -> None:
    """Let a broker's own controller take the role, in one transaction as brokers do it."""
    epoch, held = world.tree.nodes["/controller_epoch"], world.tree.nodes.get("/controller")
    raised = SetData("/controller_epoch", b"%d" % (int(epoch.data or b"0") + 1), epoch.version)
    deleted = [Delete("/controller", held.version)] if held is not None else []
    created = Create("/controller", b'{"version":2,"brokerid":3,"timestamp":"1"}', ephemeral=True)
    assert isinstance(world.tree.apply([raised, *deleted, created], BROKER_SESSION), Committed)


@pytest.mark.parametrize("number", faults.TRANSACTIONS)
async def test_a_story_with_a_deposed_controller_breaks_no_rule(number: int) -> None:
    def deposed(world: World, number: int) -> None:
        world.zk.before_transaction[len(world.zk.transactions) + number] = lambda: elect_a_broker(world)

    assert (await judged(deposed, number)).oracle.violations == []


async def test_the_judge_has_seen_the_story() -> None:
    """A judge without input would find no violation."""
    world = await judged(lambda _world, _number: None, 0)
    terms, history = world.oracle.zookeeper.terms, world.oracle.zookeeper.history
    assert [term.node_id for term in terms.values()] == [NODE_ID]
    assert {key for key, partition in history.partitions.items() if partition.state is not None} == {
        ("t", 0), ("t", 1), ("t", 2), ("t", 3)
    }  # fmt: skip


async def test_a_pair_of_instances_breaks_no_rule() -> None:
    """The first instance leads until its session expires; the second one takes the role, and a broker dies."""
    first = JudgedWorld()
    for broker in (1, 2, 3):
        first.register(broker)
    await first.start()
    second = JudgedWorld(first)
    await second.start()
    first.put_topic("t", {0: [1, 2, 3], 1: [2, 3, 1]})
    await first.settle()
    first.zk.expire()
    await second.settle()
    first.die(1)
    await second.settle()

    history = first.oracle.zookeeper.history
    assert first.oracle.violations == []
    assert [term.node_id for term in first.oracle.zookeeper.terms.values()] == [NODE_ID, NODE_ID + 1]
    assert context_differences(history, second.context, 2) == []
    assert log_differences(history, folded(second)) == []


async def test_a_context_that_missed_something_is_found() -> None:
    world = JudgedWorld()
    for broker in (1, 2):
        world.register(broker)
    await world.start()
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    history = world.oracle.zookeeper.history
    world.zk.on_watch = lambda _path, _fired: None
    world.die(2)
    await world.settle()
    assert [line.split(" is ")[0] for line in context_differences(history, world.context, 1)] == [
        "broker epoch 2",
        "state of replica 2 of t-0",
    ]
    assert [line.split(" is ")[0] for line in log_differences(history, folded(world))] == ["broker epoch 2"]
