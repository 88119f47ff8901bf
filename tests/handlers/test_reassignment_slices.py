"""A reassignment of thousands of partitions yields to the event loop after every slice of them (input row 23)."""

from collections.abc import Awaitable, Callable, Mapping

import pytest

from controllerd.core.model import TopicPartition
from events.replicas import AlterPartitionReceived, ProposedIsr
from tests.fakes.reassigning import ask_by_znode, reassign
from tests.fakes.world import World, ids, topic_id_of
from tests.handlers.test_slices import LINES_OF_A_SLICE, Stretches, always_yielding_machines, cluster

TOPICS = 30


def always_yielding(world: World) -> World:
    """Have reassignments yield after every slice as well."""
    world.c.reassigner._deps.outbox = world.c.outbox
    return world


Targets = Mapping[TopicPartition, tuple[int, ...]]
Step = Callable[[World, Targets], Awaitable[object]]


async def with_targets() -> tuple[World, Targets]:
    """A cluster, and for each partition a target that replaces its first replica by a broker without one."""
    world = always_yielding(await cluster(topics=TOPICS))
    targets = {}
    for record in world.context.records():
        replicas = record.assignment.replicas
        targets[record.tp] = (*replicas[1:], next(broker for broker in (1, 2, 3, 4, 5) if broker not in replicas))
    return world, targets


async def are_asked_for_by_request(world: World, targets: Targets) -> None:
    await reassign(world, targets)


async def are_asked_for_by_znode(world: World, targets: Targets) -> None:
    await ask_by_znode(world, targets)


async def are_cancelled(world: World, targets: Targets) -> None:
    await reassign(world, dict.fromkeys(targets))


async def catch_up(world: World) -> None:
    """Each leader reports all its partitions by one request."""
    asked: dict[int, dict[tuple[str, int], ProposedIsr]] = {}
    for record in list(world.context.records()):
        state = record.leadership
        assert state is not None
        isr = (*state.isr, *record.assignment.adding)
        proposed = ProposedIsr(state.leader_epoch, state.partition_epoch, ids(*isr))
        asked.setdefault(state.leader, {})[topic_id_of(record.tp.topic), record.tp.partition] = proposed
    for leader, proposals in asked.items():
        (broker,) = ids(leader)
        world.queue.put(AlterPartitionReceived(broker, world.context.epochs()[broker], 3, {}, proposals))
    while not isinstance((queued := await world.queue.take()).event, AlterPartitionReceived):
        await world.loop.handle(queued)
    await world.loop.handle(queued)
    await world.settle()


async def are_resumed_by_another_controller(world: World, _targets: Targets) -> None:
    world.zk.expire()
    await always_yielding(always_yielding_machines(World(tree=world.tree, session_id=2))).start()


@pytest.mark.parametrize("step", [are_asked_for_by_request, are_asked_for_by_znode])
async def test_input_23_thousands_of_reassignments_that_begin_do_not_block_the_event_loop(step: Step) -> None:
    world, targets = await with_targets()
    stretches = Stretches()

    await stretches.over(step(world, targets))

    assert len(world.context.being_reassigned) == len(targets)
    assert stretches.total > 4 * LINES_OF_A_SLICE, "the cluster is too small to show anything"
    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]


@pytest.mark.parametrize("step", [are_cancelled, are_resumed_by_another_controller])
async def test_input_23_thousands_of_reassignments_that_are_under_way_do_not_block_the_event_loop(step: Step) -> None:
    world, targets = await with_targets()
    await reassign(world, targets)
    stretches = Stretches()

    await stretches.over(step(world, targets))

    assert stretches.longest[0] < LINES_OF_A_SLICE, stretches.longest[1]


async def test_input_23_thousands_of_reassignments_that_complete_do_not_block_the_event_loop() -> None:
    world, targets = await with_targets()
    await reassign(world, targets)
    stretches = Stretches()

    await stretches.over(catch_up(world))

    assert not world.context.being_reassigned
    assert all(world.context.assignment(tp).replicas == target for tp, target in targets.items())
    assert stretches.longest[0] < 2 * LINES_OF_A_SLICE, stretches.longest[1]  # AlterPartition itself is one pass
