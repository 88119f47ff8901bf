"""Admin clients create topics, add partitions and delete, with one fault at each transaction in turn.

After any fault, a topic exists with its configuration or not at all, and an existing topic is led or is being deleted.
"""

import json
from collections.abc import Callable

import pytest

from controllerd.core.partition_growth import GrowthRequest
from controllerd.core.topic_creation import TopicRequest
from controllerd.record.invariants import check
from events.admin import CreatePartitions, CreateTopics, DeleteTopics, Requester
from tests.fakes.world import World
from tests.handlers.test_faults import (
    Fault,
    ask,
    assert_in_order,
    expire_after,
    expire_before,
    fail_unexpectedly,
    lose_the_answer,
)
from tests.record.logs import stamped_log

BY = Requester("User:alice", "alice", "app", 7, "127.0.0.1")
TRANSACTIONS = range(1, 16)
"""More than the sequence has. A fault beyond its end never strikes."""


async def story(fault: Fault, number: int) -> World:
    world = World()
    for broker in (1, 2, 3):
        world.register(broker)
    await world.start()
    fault(world, number)
    requests = tuple(TopicRequest(name, 2, 2, configs={"retention.ms": "5"}) for name in ("t", "u", "v"))
    await ask(world, CreateTopics(BY, requests))
    await ask(world, CreatePartitions(BY, (GrowthRequest("t", 4), GrowthRequest("u", 3))))
    await ask(world, DeleteTopics(BY, ("u",)))
    return await world.settle()


@pytest.mark.parametrize("number", TRANSACTIONS)
@pytest.mark.parametrize("fault", [lose_the_answer, fail_unexpectedly, expire_before, expire_after])
async def test_a_fault_at_any_transaction_leaves_topics_and_image_consistent(
    fault: Callable[[World, int], None], number: int
) -> None:
    world = await story(fault, number)

    topics = {path.split("/")[3] for path in world.tree.nodes if path.startswith("/brokers/topics/")}
    configured = {path.split("/")[3] for path in world.tree.nodes if path.startswith("/config/topics/")}
    assert topics == configured
    assert topics == world.context.topics.keys()
    for topic in topics - world.context.queued_for_deletion:
        data = json.loads(world.tree.nodes[f"/brokers/topics/{topic}"].data or b"")
        assert data["partitions"].keys() == {str(tp.partition) for tp in world.context.partitions_of(topic)}
    for topic in sorted(world.context.queued_for_deletion):
        world.context.remove_topic(topic)  # brokers have not answered, and are sent no more leaders of it
    assert_in_order(world)
    assert list(check(stamped_log(world.audit.records))) == []


async def test_without_a_fault_topics_are_created_enlarged_and_deleted() -> None:
    begun: list[int] = []

    world = await story(lambda world, _number: begun.append(len(world.zk.transactions)), 0)

    assert world.context.topics.keys() == {"t", "u", "v"}
    assert len(world.context.partitions_of("t")) == 4
    assert world.context.deletions.started == {"u"}
    assert len(world.zk.transactions) - begun[0] < TRANSACTIONS.stop
