"""``controllerctl reassign`` on a whole controller: files, the plan, the moves, how they are followed and given up."""

import asyncio
import json
import signal
from pathlib import Path

import msgspec
import pytest
import yaml

from cli.plan_files import read_plan, rollback_of
from cli.reassign import progress_line
from controllerd.planning.plans import Plan
from controllerd.status.schema.tasks import TaskList, TaskResponse
from controllerd.status.schema.work import ReassignmentList
from tests.cli.documents import DOCUMENTS, TASK
from tests.cli.on_controller import begun, ctl
from tests.cli.running import outcome_of
from tests.fakes.reassigning import assigned
from tests.status.verbs.operating import Operator


def plan_file(folder: Path, *rows: tuple[str, int, list[int]], **more: object) -> str:
    """A file as kafka-reassign-partitions takes it."""
    partitions = [{"topic": topic, "partition": number, "replicas": replicas} for topic, number, replicas in rows]
    path = folder / "plan.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions, **more}))
    return str(path)


def left_in(folder: Path) -> list[Path]:
    """The files in the folder."""
    return list(folder.iterdir())


# -- plan --------------------------------------------------------------------------------------------------------------


async def test_a_plan_is_written_with_its_rollback(operator: Operator, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"

    outcome = await ctl(operator, "reassign", "plan", "--topics", "t", "--from", "1", "-f", str(file))

    assert outcome.code == 0
    assert [list(move.replicas) for move in read_plan(str(file))] == [[3, 2]] * 3
    assert [list(move.replicas) for move in read_plan(str(rollback_of(file)))] == [[1, 2]] * 3
    assert "3 partitions to move: 3 replicas to copy (bytes not known), 3 leaders to change" in outcome.err
    assert outcome.out.splitlines()[1].split() == ["t-0", "1,2", "3,2", "moves", "-"]


async def test_a_plan_overwrites_nothing(operator: Operator, tmp_path: Path) -> None:
    back = tmp_path / "plan.rollback.json"
    back.write_text("precious")

    outcome = await ctl(operator, "reassign", "plan", "--from", "1", "-f", str(tmp_path / "plan.json"))

    assert (outcome.code, back.read_text()) == (2, "precious")
    assert "may be the rollback of another plan" in outcome.err
    assert not (tmp_path / "plan.json").exists()


async def test_a_plan_in_every_format_has_the_shape_of_the_schema(operator: Operator) -> None:
    asked = ("reassign", "plan", "--topics", "t", "--from", "1", "-o")
    plan = msgspec.json.decode((await ctl(operator, *asked, "json")).out, type=Plan)

    assert len(plan.moves) == 3
    assert msgspec.json.decode((await ctl(operator, *asked, "jsonl")).out, type=Plan) == plan
    assert msgspec.convert(yaml.safe_load((await ctl(operator, *asked, "yaml")).out), Plan) == plan
    assert (await ctl(operator, *asked, "name")).out.split() == ["t-0", "t-1", "t-2"]
    assert len((await ctl(operator, *asked, "wide")).out.splitlines()) == 4


async def test_an_empty_plan_is_reported_and_no_file_is_written(operator: Operator, tmp_path: Path) -> None:
    outcome = await ctl(operator, "reassign", "plan", "--topics", "t", "-f", str(tmp_path / "plan.json"))

    assert (outcome.code, outcome.out) == (0, "nothing to move\n")
    assert "name brokers to leave" in outcome.err
    assert left_in(tmp_path) == []


# -- apply -------------------------------------------------------------------------------------------------------------


async def test_a_plan_is_applied_throttled_and_followed_to_its_end(operator: Operator, tmp_path: Path) -> None:
    file = plan_file(tmp_path, ("t", 0, [3, 2]), ("t", 1, [1, 2]))
    words = ("reassign", "apply", "-f", file, "--throttle", "50MB", "--wait", "--yes", "--reason", "1 retires")
    process = await begun(operator, *words)
    while not operator.world.snapshot.topics["t"].partitions[0].assignment.is_being_reassigned:
        await operator.world.snapshot.next_version()
    rates = operator.world.tree.nodes["/config/brokers/3"].data or b""

    await operator.change_isr("t", 1, 2, 3)
    outcome = await outcome_of(process)

    assert outcome.code == 0, outcome.err
    assert assigned(operator.world, "t") == ([3, 2], [], [])
    assert b"50000000" in rates
    assert (await operator.tasks())[0].reason == "1 retires"
    assert "t-0  planned  [1, 2] -> [3, 2]" in outcome.err
    assert "at most 50,000,000 bytes/s for each broker, all at once" in outcome.err
    assert outcome.out.splitlines()[-1] == "reassignments: done; 1 done, 1 not-needed"


async def test_a_reassignment_applied_without_waiting_is_in_the_status_until_it_is_cancelled(
    operator: Operator, tmp_path: Path
) -> None:
    file = plan_file(tmp_path, ("t", 0, [3, 2]))

    applied = await ctl(operator, "reassign", "apply", "-f", file, "--yes")
    under_way = await ctl(operator, "reassign", "status", "-o", "json")
    planned = await ctl(operator, "reassign", "cancel", "t-0", "--dry-run")
    cancelled = await ctl(operator, "reassign", "cancel", "t-0", "--yes", "--reason", "too slow")
    over = await ctl(operator, "reassign", "status")

    assert (applied.code, "controllerctl reassign status" in applied.err) == (0, True)
    assert under_way.code == 6
    assert msgspec.json.decode(under_way.out, type=ReassignmentList).items[0].target == [3, 2]
    assert "[3, 2] -> back to [2, 1]" in planned.out  # the order that Kafka goes back to: [3, 2, 1] without 3
    assert cancelled.code == 0
    assert (over.code, over.out) == (0, "no partition is being reassigned\n")
    assert assigned(operator.world, "t") == ([2, 1], [], [])


async def test_a_status_that_waits_ends_with_the_reassignments_or_at_its_timeout(
    operator: Operator, tmp_path: Path
) -> None:
    await ctl(operator, "reassign", "apply", "-f", plan_file(tmp_path, ("t", 0, [3, 2])), "--yes")

    late = await ctl(operator, "reassign", "status", "--wait-at-most", "1ms")
    waiting = asyncio.create_task(ctl(operator, "reassign", "status", "--wait"))
    await operator.change_isr("t", 1, 2, 3)

    assert (late.code, "still moving" in late.err) == (124, True)
    assert (await waiting).code == 0


async def test_ctrl_c_ends_the_command_and_not_the_moves(operator: Operator, tmp_path: Path) -> None:
    file = plan_file(tmp_path, ("t", 0, [3, 2]))
    process = await begun(operator, "reassign", "apply", "-f", file, "--wait", "--yes")
    assert process.stderr is not None
    said = b""
    while b"0 of 1 partition" not in said:
        said += await process.stderr.readline()

    process.send_signal(signal.SIGINT)
    outcome = await outcome_of(process)
    await operator.change_isr("t", 1, 2, 3)

    assert outcome.code == 130
    assert "the operation continues, controllerctl reassign status shows its progress" in outcome.err
    assert assigned(operator.world, "t") == ([3, 2], [], [])


async def test_a_dry_run_moves_nothing_and_has_the_exit_code_of_the_plan(operator: Operator, tmp_path: Path) -> None:
    good = await ctl(operator, "reassign", "apply", "-f", plan_file(tmp_path, ("t", 0, [3, 2])), "--dry-run")
    mixed = await ctl(
        operator, "reassign", "apply", "-f", plan_file(tmp_path, ("t", 0, [3, 2]), ("t", 1, [9])), "--dry-run"
    )
    unknown = await ctl(operator, "reassign", "apply", "-f", plan_file(tmp_path, ("x", 0, [1])), "--dry-run")

    assert (good.code, mixed.code, unknown.code) == (0, 5, 3)
    assert await operator.tasks() == []


async def test_without_a_terminal_nothing_moves(operator: Operator, tmp_path: Path) -> None:
    outcome = await ctl(operator, "reassign", "apply", "-f", plan_file(tmp_path, ("t", 0, [3, 2])))

    assert (outcome.code, await operator.tasks()) == (7, [])
    assert "repeat with --yes" in outcome.err


async def test_the_answer_is_the_task_of_the_schema(operator: Operator, tmp_path: Path) -> None:
    file = plan_file(tmp_path, ("t", 0, [1, 2]))

    outcome = await ctl(operator, "reassign", "apply", "-f", file, "--yes", "-o", "json")

    task = msgspec.json.decode(outcome.out, type=TaskResponse).task
    assert [item.state for item in task.items] == ["not-needed"]


# -- plans that are too large for one request --------------------------------------------------------------------------

LONG = "x" * 240
MANY = 3_600


@pytest.fixture
async def large(operator: Operator) -> Operator:
    """A topic whose plan has more than a mebibyte."""
    operator.world.put_topic(LONG, {number: [1, 2] for number in range(MANY)})
    await operator.settle()
    return operator


def large_plan(folder: Path, *moved: int) -> str:
    """Every partition of it, these with other replicas than they have."""
    return plan_file(folder, *((LONG, number, [3, 2] if number in moved else [1, 2]) for number in range(MANY)))


async def test_a_large_plan_is_applied_in_parts_after_one_question(large: Operator, tmp_path: Path) -> None:
    file = large_plan(tmp_path, *range(MANY))

    planned = await ctl(large, "reassign", "apply", "-f", file, "--dry-run")
    unconfirmed = await ctl(large, "reassign", "apply", "-f", file)
    applied = await outcome_of(await begun(large, "reassign", "apply", "-f", file, "--yes", "-o", "json"))

    tasks = msgspec.json.decode(applied.out, type=TaskList).items
    assert (planned.code, unconfirmed.code, applied.code) == (0, 7, 0)
    assert planned.out.count("dry run, nothing was changed") == len(tasks) == 2
    assert sum(task.items_total for task in tasks) == MANY
    assert applied.err.count("reassign 3600 partitions:") == 1
    assert "part 2 of 2" in applied.err
    while not all(view.assignment.is_being_reassigned for view in large.world.snapshot.topics[LONG].partitions):
        await large.world.snapshot.next_version()  # the command ended when it had asked, not when all had begun


async def test_a_large_plan_is_not_added_to_other_reassignments_unasked(large: Operator, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    await ctl(large, "reassign", "apply", "-f", plan_file(tmp_path / "other", ("t", 0, [3, 2])), "--yes")

    outcome = await ctl(large, "reassign", "apply", "-f", large_plan(tmp_path, 0, MANY - 1), "--yes")
    joined = await ctl(large, "reassign", "apply", "-f", large_plan(tmp_path, 0), "--yes", "--additional")

    assert (outcome.code, "t-0: add --additional" in outcome.err) == (4, True)
    assert joined.code == 0


async def test_parts_of_a_plan_in_batches_follow_each_other(large: Operator, tmp_path: Path) -> None:
    words = ("reassign", "apply", "-f", large_plan(tmp_path, 0, MANY - 1), "--batch", "5", "--yes")

    alone = await ctl(large, *words)
    waiting = asyncio.create_task(ctl(large, *words, "--wait"))
    for number, other in ((0, MANY - 1), (MANY - 1, 0)):
        views = large.world.snapshot.topics[LONG].partitions
        while not views[number].assignment.is_being_reassigned:
            await large.world.snapshot.next_version()
            views = large.world.snapshot.topics[LONG].partitions
        assert not views[other].assignment.is_being_reassigned
        await large.change_isr(LONG, 1, 2, 3, partition=number)
    outcome = await waiting

    assert (alone.code, "add --wait" in alone.err) == (2, True)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1].startswith("reassignments, part 2 of 2: done; 1 done, ")


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "names no partitions"),
        ('{"version": 1, "partitions": []}', "names no partitions"),
        ('{"version": 2, "partitions": [{"topic": "t", "partition": 0, "replicas": [1]}]}', "version 2"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}', "t-0: "),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [-1]}]}', "t-0: "),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/disk2"]}]}',
            "log_dirs names a directory",
        ),
        (
            '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": 5}]}',
            "log_dirs names a directory",
        ),
    ],
)
async def test_an_invalid_file_is_refused_with_the_place(
    operator: Operator, tmp_path: Path, content: str, says: str
) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)

    outcome = await ctl(operator, "reassign", "apply", "-f", str(file), "--yes")

    assert (outcome.code, says in outcome.err) == (2, True), outcome.err


async def test_unknown_fields_of_a_file_are_ignored_with_a_note(operator: Operator, tmp_path: Path) -> None:
    rows = [{"topic": "t", "partition": 0, "replicas": [3, 2], "log_dirs": ["any", "any"], "comment": "rack 2"}]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": rows, "by": "ann"}))

    outcome = await ctl(operator, "reassign", "apply", "-f", str(file), "--dry-run")

    assert outcome.code == 0
    assert "ignored, not part of a reassignment: by, comment" in outcome.err


async def test_a_file_that_is_not_there_is_named(operator: Operator, tmp_path: Path) -> None:
    outcome = await ctl(operator, "reassign", "apply", "-f", str(tmp_path / "none.json"), "--yes")

    assert (outcome.code, "none.json cannot be read" in outcome.err) == (2, True)


@pytest.mark.parametrize("words", [("cancel",), ("cancel", "--all", "t-0"), ("cancel", "nonsense")])
async def test_a_cancellation_needs_partitions(operator: Operator, words: tuple[str, ...]) -> None:
    assert (await ctl(operator, "reassign", *words)).code == 2


async def test_a_plan_and_its_rollback_are_two_files_and_not_standard_output(operator: Operator) -> None:
    outcome = await ctl(operator, "reassign", "plan", "--from", "1", "-f", "-")

    assert (outcome.code, "-f requires a name" in outcome.err) == (2, True)


async def test_ids_of_brokers_are_numbers(operator: Operator) -> None:
    outcome = await ctl(operator, "reassign", "plan", "--from", "one")

    assert (outcome.code, "--from must be ids of brokers" in outcome.err) == (2, True)


# -- progress ----------------------------------------------------------------------------------------------------------


def test_progress_has_percent_bytes_rate_and_the_time_that_is_left() -> None:
    moving = DOCUMENTS["/v1/reassignments"].items  # type: ignore[attr-defined]  # it is a list
    task = msgspec.structs.replace(TASK, verb="reassignments", items_total=2, percent=50.0)

    line = progress_line(task, moving)

    assert line.startswith("reassignments: 71.0%, 1 of 2 partitions, 5.0 GiB to copy, 48 MiB/s, 1m47s left")
    assert "waits for replica 6" in line


def test_unknown_progress_is_not_estimated() -> None:
    moving = [
        msgspec.structs.replace(item, percent=None, bytes_left=None, bytes_per_s=None, eta_seconds=None)
        for item in DOCUMENTS["/v1/reassignments"].items  # type: ignore[attr-defined]
    ]
    task = msgspec.structs.replace(TASK, verb="reassignments", items_total=2, percent=0.0)

    line = progress_line(task, moving)

    assert line.startswith("reassignments: 0.0%, 0 of 2 partitions, waits for")
