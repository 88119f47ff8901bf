"""Topics over HTTP, on a whole controller."""

import json

from channel_manager.manager import event_of
from channel_manager.observer import Exchange
from controllerd.core.kafka_error import KafkaError
from controllerd.core.requests import ControlResponse, StopReplicaRequest, api_name
from tests.fakes.world import World
from tests.status.verbs.operating import Operator, briefly, operating


async def test_a_topic_is_created_and_the_task_ends_when_all_of_it_is_led(operator: Operator) -> None:
    body = {"topic": "t", "partitions": 2, "replication_factor": 2, "configs": {"retention.ms": "1000"}}

    task = await operator.do("/v1/topics", body)

    assert task.state == "done"
    assert briefly(task.items) == {"t-0": "done leader 1", "t-1": "done leader 2"}
    config = operator.world.tree.nodes["/config/topics/t"].data or b""
    assert json.loads(config)["config"] == {"retention.ms": "1000"}


async def test_a_dry_run_creates_nothing_and_shows_the_refusal_of_the_controller(operator: Operator) -> None:
    planned = await operator.dry_run("/v1/topics", {"topic": "t", "partitions": 2})
    refused = await operator.dry_run("/v1/topics", {"topic": "t", "replication_factor": 4})

    assert briefly(planned.items) == {"t-0": "planned", "t-1": "planned"}
    assert briefly(refused.items) == {
        "t": "failed INVALID_REPLICATION_FACTOR Replication factor: 4 larger than available brokers: 3."
    }


async def test_an_existing_topic_fails_unless_if_not_exists_is_set(operator: Operator) -> None:
    await operator.do("/v1/topics", {"topic": "t"})

    again = await operator.do("/v1/topics", {"topic": "t"})
    fine = await operator.do("/v1/topics", {"topic": "t", "if_not_exists": True})

    assert (again.state, again.items[0].kafka_error) == ("failed", "TOPIC_ALREADY_EXISTS")
    assert (fine.state, fine.items[0].state) == ("done", "not-needed")


async def test_partitions_without_a_live_replica_keep_the_task_waiting(operator: Operator) -> None:
    task = await operator.ask("/v1/topics", {"topic": "t", "replica_assignment": [[1], [9]]})

    task = await operator.until(task, "waits for a leader")
    assert briefly(task.items) == {
        "t-1": "running waits for a leader: none of its replicas 9 is live",
        "t-0": "done leader 1",
    }
    assert task.percent == 50.0

    operator.world.register(9)
    assert (await operator.end_of(task)).state == "done"


async def test_partitions_are_added(operator: Operator) -> None:
    await operator.do("/v1/topics", {"topic": "t", "partitions": 1})

    planned = await operator.ask("/v1/topics/t/partitions?dryRun=true", {"total": 3})
    task = await operator.do("/v1/topics/t/partitions", {"total": 3})
    too_few = await operator.do("/v1/topics/t/partitions", {"total": 2})

    assert list(briefly(planned.items)) == ["t-1", "t-2"]
    assert (task.state, sorted(briefly(task.items))) == ("done", ["t-1", "t-2"])
    assert (too_few.state, too_few.items[0].kafka_error) == ("failed", "INVALID_PARTITIONS")


async def test_a_deletion_requires_the_name_again_and_a_reason(operator: Operator) -> None:
    await operator.do("/v1/topics", {"topic": "t"})

    slip = await operator.refusal("/v1/topics/t/delete", {"confirm": "u", "reason": "old"})
    silent = await operator.refusal("/v1/topics/t/delete", {"confirm": "t"})

    assert (slip.code, silent.code) == ("not_confirmed", "reason_required")


async def test_a_deletion_ends_when_the_topic_is_gone(operator: Operator) -> None:
    await operator.do("/v1/topics", {"topic": "t", "partitions": 2, "replication_factor": 2})
    body = {"confirm": "t", "reason": "old"}

    planned = await operator.ask("/v1/topics/t/delete?dryRun=true", body)
    task = await operator.ask("/v1/topics/t/delete", body)
    task = await operator.until(task, "to delete their replicas")
    await replicas_deleted(operator)
    task = await operator.end_of(task)

    assert briefly(planned.items) == {"t": "planned 2 partitions with 4 replicas to be deleted permanently"}
    assert (task.state, briefly(task.items)) == ("done", {"t": "done it is gone"})
    assert "/brokers/topics/t" not in operator.world.tree.nodes


async def test_a_deletion_that_is_held_up_names_the_brokers(world: World) -> None:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    world.die(2)
    await world.settle()
    async with operating(world) as operator:
        body = {"confirm": "t", "reason": "old"}
        planned = await operator.dry_run("/v1/topics/t/delete", body)
        task = await operator.ask("/v1/topics/t/delete", body)
        task = await operator.until(task, "held up")

    assert "waits for brokers [2], which are not live" in planned.items[0].detail
    assert task.state == "running"


async def test_a_missing_topic_fails_unless_if_exists_is_set(operator: Operator) -> None:
    body = {"confirm": "t", "reason": "old"}

    gone = await operator.do("/v1/topics/t/delete", body)
    fine = await operator.do("/v1/topics/t/delete", body | {"if_exists": True})

    assert briefly(gone.items) == {"t": "failed UNKNOWN_TOPIC_OR_PARTITION there is no such topic"}
    assert (fine.state, fine.items[0].state) == ("done", "not-needed")


async def replicas_deleted(operator: Operator) -> None:
    """Answer each StopReplica request as a broker that has deleted its replicas."""
    world = operator.world
    for broker, request in list(world.channels.sent):
        if isinstance(request, StopReplicaRequest):
            response = ControlResponse(api_name(request), KafkaError.NONE, {})
            event = event_of(Exchange(broker, request, response, 0, 0, 0, 1, 0.0))
            if event is not None:
                world.queue.put(event)
    await operator.settle()
