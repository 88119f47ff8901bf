"""The common parts of verbs: tasks, idempotency keys, reasons, and the end of the role or the server."""

import asyncio

import pytest

from controllerd.status.http.idempotency import KEPT_MS as KEYS_KEPT_MS
from controllerd.status.http.problems import Refused
from controllerd.status.schema.tasks import TaskItem
from controllerd.status.schema.verbs import VerbRequest
from controllerd.status.verbs.cluster import OperatedCluster
from controllerd.status.verbs.tasks import (
    KEPT_MS,
    MAX_RUNNING,
    SHOWN,
    LiveTask,
    Operation,
    TaskBook,
    TaskItems,
    VerbCall,
)
from events.admin import Requester
from tests.fakes.world import World
from tests.status.fake_controller import FakeController
from tests.status.verbs.operating import Body, Operator, content, operating

MOVE: Body = {"partitions": [{"topic": "t", "partition": 0, "replicas": [3, 2]}]}
CREATE: Body = {"topic": "new", "partitions": 1}


@pytest.fixture
async def world(world: World) -> World:
    world.put_topic("t", {0: [1, 2]})
    await world.settle()
    return world


async def test_a_repeated_key_gets_the_task_of_the_first_request(operator: Operator) -> None:
    first = await operator.ask("/v1/reassignments", MOVE, Idempotency_Key="k1")
    again = await operator.ask("/v1/reassignments", MOVE, Idempotency_Key="k1")

    assert again.id == first.id
    assert len(await operator.tasks()) == 1


async def test_a_key_is_not_for_another_request(operator: Operator) -> None:
    await operator.do("/v1/topics", CREATE, Idempotency_Key="k1")

    other = await operator.refusal("/v1/topics", {**CREATE, "partitions": 2}, Idempotency_Key="k1")

    assert (other.status, other.code) == (409, "idempotency_key_reused")


async def test_a_request_that_was_refused_leaves_its_key_free(operator: Operator) -> None:
    unconfirmed = {"type": "unclean", "all": True, "accept_data_loss": True}
    await operator.refusal("/v1/elections", unconfirmed, Idempotency_Key="k1")

    assert (await operator.do("/v1/topics", CREATE, Idempotency_Key="k1")).state == "done"


async def test_requests_at_the_same_time_with_one_key_begin_one_task(operator: Operator) -> None:
    answers = await asyncio.gather(*(operator.send("/v1/topics", CREATE, Idempotency_Key="k1") for _ in range(5)))

    assert {status for status, _, _ in answers} <= {200, 202, 409}
    assert len(await operator.tasks()) == 1


async def test_keys_are_remembered_for_a_day_though_tasks_are_not(operator: Operator) -> None:
    first = await operator.do("/v1/topics", CREATE, Idempotency_Key="k1")
    operator.world.clock.now += KEPT_MS / 1000 + 1

    assert await operator.tasks() == []
    again = await operator.ask("/v1/topics", CREATE, Idempotency_Key="k1")
    assert (again.id, again.state, again.items, again.items_total) == (first.id, "done", [], 1)

    operator.world.clock.now += KEYS_KEPT_MS / 1000
    later = await operator.do("/v1/topics", CREATE, Idempotency_Key="k1")
    assert (later.id != first.id, later.items[0].kafka_error) == (True, "TOPIC_ALREADY_EXISTS")


@pytest.mark.parametrize("key", ["", "x" * 256])
async def test_an_invalid_key_is_refused(operator: Operator, key: str) -> None:
    assert (await operator.refusal("/v1/topics", CREATE, Idempotency_Key=key)).code == "bad_request"


async def test_a_task_is_found_at_its_location_and_an_unknown_id_is_not(operator: Operator) -> None:
    task = await operator.ask("/v1/reassignments", MOVE)

    assert (await operator.task(task.id)).verb == "reassignments"
    async with operator.http.get(f"{operator.url}/v1/tasks/none") as response:
        assert (response.status, (await response.json())["code"]) == (404, "unknown_task")


async def test_a_task_is_lost_with_the_role_and_says_that_begun_changes_continue(operator: Operator) -> None:
    task = await operator.ask("/v1/reassignments", MOVE)
    await operator.until(task, "must catch up")

    await operator.send("/v1/resign", {"reason": "drill"})
    task = await operator.end_of(task)

    assert task.state == "lost"
    assert "changes that have begun continue under the next active controller" in task.message


async def test_the_number_of_shown_items_is_limited_and_failed_items_come_first(operator: Operator) -> None:
    named = [{"topic": "t", "partition": 0}] + [{"topic": "x", "partition": number} for number in range(SHOWN)]

    task = await operator.do("/v1/elections", {"type": "preferred", "partitions": named})

    assert (task.state, task.items_total, len(task.items)) == ("partial", SHOWN + 1, SHOWN)
    assert {item.state for item in task.items} == {"failed"}


async def test_a_reason_can_be_required_for_every_verb(world: World) -> None:
    async with operating(world, require_reason=True) as operator:
        assert (await operator.refusal("/v1/topics", CREATE)).code == "reason_required"
        assert (await operator.do("/v1/topics", {**CREATE, "reason": "team x"})).reason == "team x"


async def test_a_reason_has_a_bounded_length(operator: Operator) -> None:
    assert (await operator.refusal("/v1/topics", {**CREATE, "reason": "x" * 501})).code == "bad_request"


@pytest.mark.parametrize("reason", ["two\nlines", "\x1b[31mred", "\x9b1m", "\u2028"])
async def test_a_reason_is_one_line_that_draws_nothing_on_a_terminal(operator: Operator, reason: str) -> None:
    problem = await operator.refusal("/v1/topics", {**CREATE, "reason": reason})

    assert (problem.code, "control character" in problem.detail) == ("bad_request", True)
    assert (await operator.do("/v1/topics", {**CREATE, "reason": "größer, für 東京"})).reason == "größer, für 東京"


async def test_dry_run_is_true_or_false(operator: Operator) -> None:
    before = content(operator.world)

    assert (await operator.refusal("/v1/topics?dryRun=1", CREATE)).code == "bad_request"
    assert content(operator.world) == before


async def test_the_server_closes_with_tasks_under_way(world: World) -> None:
    async with operating(world) as operator:
        task = await operator.ask("/v1/reassignments", MOVE)

    assert [one for one in asyncio.all_tasks() if one.get_name() == f"reassignments {task.id}"] == []
    assert [(record.step, record.task) for record in operator.recorded] == [("asked", task.id), ("lost", task.id)]


class Idle(Operation[VerbRequest]):
    """An operation that does nothing."""

    verb = "idle"
    summary = ""

    async def plan(self) -> list[TaskItem]:
        return []

    async def run(self, items: TaskItems) -> str:
        return ""


class Waiting(Idle):
    """An operation that runs until it is cancelled."""

    async def run(self, items: TaskItems) -> str:
        return await asyncio.Future()


async def test_tasks_that_begin_at_the_same_time_do_not_exceed_the_limit() -> None:
    book = TaskBook(lambda record: None, lambda: 1_000)
    alice = Requester("User:alice", "alice", "", 0, "here")
    many = [TaskItem(subject=f"t-{number}", state="planned") for number in range(10 * SHOWN)]
    call = VerbCall(alice, OperatedCluster(FakeController().sources()))
    waiting = [Waiting(VerbRequest(), call) for _ in range(MAX_RUNNING + 5)]

    begun = [book.begin(LiveTask(each, alice, lambda: 1_000), each, many) for each in waiting]
    outcomes = await asyncio.gather(*begun, return_exceptions=True)
    running = [task for task in book.newest_first() if task.state == "running"]
    await book.close()

    assert len(running) == MAX_RUNNING
    refusals = [outcome.problem.code for outcome in outcomes if isinstance(outcome, Refused)]
    assert refusals == ["too_many_tasks"] * 5


async def test_a_task_that_could_not_begin_takes_no_place() -> None:
    book = TaskBook(lambda record: None, lambda: 1_000)
    alice = Requester("User:alice", "alice", "", 0, "here")
    idle = Waiting(VerbRequest(), VerbCall(alice, OperatedCluster(FakeController().sources())))
    many = [TaskItem(subject=f"t-{number}", state="planned") for number in range(10 * SHOWN)]
    for _ in range(MAX_RUNNING):
        beginning = asyncio.create_task(book.begin(LiveTask(idle, alice, lambda: 1_000), idle, many))
        await asyncio.sleep(0)
        beginning.cancel()
        with pytest.raises(asyncio.CancelledError):
            await beginning

    await book.begin(LiveTask(idle, alice, lambda: 1_000), idle, [])

    assert len(book.newest_first()) == 1
    await book.close()


async def test_the_eta_assumes_the_speed_since_the_beginning() -> None:
    now = [1_000]
    alice = Requester("User:alice", "alice", "", 0, "here")
    idle = Idle(VerbRequest(), VerbCall(alice, OperatedCluster(FakeController().sources())))
    task = LiveTask(idle, alice, lambda: now[0])
    waiting = [TaskItem(subject=f"t-{n}", state="planned") for n in range(8)]
    await task.begin([*waiting, TaskItem(subject="t-8", state="not-needed")])

    now[0] += 6_000
    seen = [task.shown().eta_seconds]
    task.items.mark("t-0", "done")
    task.items.mark("t-1", "failed")
    task.items.mark("t-2", "running")
    seen.append(task.shown().eta_seconds)
    task.end(now[0])
    seen.append(task.shown().eta_seconds)

    assert seen == [None, 18.0, None]
