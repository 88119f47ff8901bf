"""Reassignments over HTTP, on a whole controller."""

import pytest

from controllerd.record.records import AssignmentRecord
from tests.fakes.reassigning import assigned
from tests.fakes.world import World
from tests.status.verbs.operating import Body, Operator, briefly, operating, standby_of


def moves(*targets: tuple[str, int, list[int]], **more: object) -> Body:
    """The body of a request."""
    rows = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in targets]
    return {"partitions": rows, **more}


@pytest.fixture
async def world(world: World) -> World:
    world.put_topic("t", {number: [1, 2] for number in range(6)})
    await world.settle()
    return world


async def test_a_task_follows_a_move_to_its_end(operator: Operator) -> None:
    task = await operator.ask("/v1/reassignments", moves(("t", 0, [3, 2]), reason="1 retires"))
    task = await operator.until(task, "must catch up")
    assert briefly(task.items) == {"t-0": "running ISR [1, 2] of [3, 2]; [3] must catch up"}

    await operator.change_isr("t", 1, 2, 3)
    task = await operator.end_of(task)

    assert (task.state, task.percent, task.reason) == ("done", 100.0, "1 retires")
    assert briefly(task.items) == {"t-0": "done its replicas are [3, 2]"}
    assert assigned(operator.world, "t") == ([3, 2], [], [])


async def test_assigned_replicas_are_not_needed_again_and_invalid_ones_fail(operator: Operator) -> None:
    targets = moves(("t", 0, [1, 2]), ("t", 1, [1, 9]), ("t", 2, []), ("x", 0, [1]), ("t", 3, [1, 3]), ("t", 3, [2, 3]))

    task = await operator.do("/v1/reassignments", targets)

    assert task.state == "partial"
    assert briefly(task.items) == {
        "t-1": "failed INVALID_REPLICA_ASSIGNMENT brokers [9] are not live",
        "t-2": "failed INVALID_REPLICA_ASSIGNMENT Empty replica list specified in partition reassignment.",
        "x-0": "failed UNKNOWN_TOPIC_OR_PARTITION the partition does not exist",
        "t-3": "failed INVALID_REQUEST it is named twice, with different replicas",
        "t-0": "not-needed its replicas are [1, 2] already",
    }


async def test_a_dry_run_moves_nothing(operator: Operator) -> None:
    task = await operator.dry_run("/v1/reassignments", moves(("t", 0, [3, 2]), ("t", 1, [1, 2])))

    assert briefly(task.items) == {
        "t-0": "planned [1, 2] -> [3, 2]",
        "t-1": "not-needed its replicas are [1, 2] already",
    }


async def test_never_more_than_a_batch_moves_at_a_time(operator: Operator) -> None:
    targets = moves(*(("t", number, [3, 2]) for number in range(6)), batch=2)
    task = await operator.ask("/v1/reassignments", targets)
    seen: list[int] = []

    for _ in range(6):
        moving = await moving_now(operator, at_least=min(2, 6 - len(seen)))
        assert len(moving) <= 2
        await operator.change_isr("t", 1, 2, 3, partition=moving[0])
        seen.append(moving[0])
    task = await operator.end_of(task)

    assert (task.state, task.items_total) == ("done", 6)
    assert sorted(seen) == list(range(6))
    assert most_at_once(operator) == 2


async def moving_now(operator: Operator, *, at_least: int) -> list[int]:
    """Wait until at least so many partitions are being reassigned, and return them."""
    world = operator.world
    while True:
        views = world.snapshot.topics["t"].partitions
        moving = [view.partition for view in views if view.assignment.is_being_reassigned]
        if len(moving) >= at_least:
            return moving
        await world.snapshot.next_version()


def most_at_once(operator: Operator) -> int:
    """The most partitions that were being reassigned at the same time, by the records of assignments."""
    moving: set[tuple[str, int]] = set()
    most = 0
    for record in operator.world.audit.of(AssignmentRecord):
        for topic, number, adding in zip(record.topics, record.partitions, record.adding, strict=True):
            (moving.add if adding else moving.discard)((topic, number))
        most = max(most, len(moving))
    return most


async def test_a_second_reassignment_beside_a_running_one_requires_additional(operator: Operator) -> None:
    await operator.ask("/v1/reassignments", moves(("t", 0, [3, 2])))

    problem = await operator.refusal("/v1/reassignments", moves(("t", 1, [3, 2])))
    assert (problem.status, problem.code) == (409, "reassignment_in_progress")
    assert "t-0" in problem.detail

    task = await operator.ask("/v1/reassignments", moves(("t", 1, [3, 2]), additional=True))
    await operator.until(task, "must catch up")


async def test_a_cancelled_move_stays_where_it_was_and_its_task_says_so(operator: Operator) -> None:
    task = await operator.ask("/v1/reassignments", moves(*(("t", number, [3, 2]) for number in range(3)), batch=1))
    await operator.until(task, "must catch up")

    planned = await operator.ask("/v1/reassignments:cancel?dryRun=true", {"all": True})
    cancelled = await operator.do("/v1/reassignments:cancel", {"all": True, "reason": "too slow"})
    task = await operator.end_of(task)

    assert briefly(planned.items) == {"t-0": "planned [3, 2] -> back to [2, 1]"}
    assert cancelled.state == "done"
    assert "2 waiting reassignments cancelled" in cancelled.message
    assert task.state == "failed"
    assert "cancelled" in briefly(task.items)["t-0"]
    assert briefly(task.items)["t-2"] == "failed cancelled before it began"
    assert all(assigned(operator.world, "t", number)[1] == [] for number in range(3))


async def test_only_running_reassignments_can_be_cancelled(operator: Operator) -> None:
    named = [{"topic": "t", "partition": 0}, {"topic": "x", "partition": 0}]

    task = await operator.do("/v1/reassignments:cancel", {"partitions": named})

    assert task.state == "failed"
    assert [item.kafka_error for item in task.items] == ["NO_REASSIGNMENT_IN_PROGRESS", "UNKNOWN_TOPIC_OR_PARTITION"]
    assert (await operator.refusal("/v1/reassignments:cancel", {})).code == "nothing_named"


@pytest.mark.parametrize(
    "wrong",
    [moves(), moves(("t", 0, [1, 2]), batch=0), moves(("t", 0, [1, 2]), throttle_bytes_per_s=0), {"what": 1}],
)
async def test_an_invalid_request_is_refused_as_a_whole(operator: Operator, wrong: Body) -> None:
    assert (await operator.refusal("/v1/reassignments", wrong)).code == "bad_request"


async def test_a_plan_moves_a_broker_empty_and_nothing_else(operator: Operator) -> None:
    async with operator.http.post(f"{operator.url}/v1/reassignments:plan", json={"from_brokers": [1]}) as response:
        plan = await response.json()

    assert [move["after"] for move in plan["moves"]] == [[3, 2]] * 6
    assert (plan["replicas_moved"], plan["leaders_moved"], plan["bytes"]) == (6, 6, None)


async def test_a_standby_makes_no_plan_because_it_does_not_know_the_cluster(world: World) -> None:
    standby = await standby_of(world)
    async with operating(standby) as operator:
        assert (await operator.refusal("/v1/reassignments:plan", {})).code == "not_controller"


async def test_a_throttle_is_set_before_anything_moves(operator: Operator) -> None:
    targets = moves(("t", 0, [3, 2]), throttle_bytes_per_s=1_000_000)
    await operator.dry_run("/v1/reassignments", targets)

    task = await operator.ask("/v1/reassignments", targets)
    await operator.until(task, "must catch up")

    rates = operator.world.tree.nodes["/config/brokers/3"].data or b""
    assert b'"follower.replication.throttled.rate":"1000000"' in rates.replace(b" ", b"")
    events = operator.world.metrics.events
    assert events.index("ThrottleReassignments") < events.index("ApiPartitionReassignment")


async def test_a_reassignment_that_another_request_replaced_fails(operator: Operator) -> None:
    task = await operator.ask("/v1/reassignments", moves(("t", 0, [3, 2])))
    await operator.until(task, "must catch up")

    await operator.ask("/v1/reassignments", moves(("t", 0, [2, 3])))
    task = await operator.end_of(task)

    assert briefly(task.items) == {"t-0": "failed another request replaced it: it moves to [2, 3]"}
