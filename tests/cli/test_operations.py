"""The steps that every verb shares: the plan, the question, following the task, and the exit code."""

import io
from collections.abc import Iterator

import msgspec
import pytest
import typer

from cli.arguments import parse_bytes
from cli.exit_codes import CliError, ExitCode
from cli.operations import OperationRequest, progress_line, run
from cli.output import human_bytes
from cli.settings import CliSettings
from controllerd.status.schema.status import StatusResponse
from controllerd.status.schema.tasks import TaskItem, TaskResponse
from controllerd.status.schema.verbs import ElectionRequest
from tests.cli.documents import META, TASK, Daemon, answering
from tests.cli.test_doctor import WELL

ELECTION = OperationRequest("/v1/elections", ElectionRequest(type="preferred", all=True), "preferred election")
ITEMS = [TaskItem(subject="payments-7", state="planned", detail="5 -> 3")]


def ended(state: str) -> Daemon:
    """A daemon whose operation ends like this; the plan and the beginning are answered alike."""
    task = msgspec.structs.replace(TASK, state=state, items=ITEMS, items_total=1, percent=None, eta_seconds=None)
    running = msgspec.structs.replace(task, state="running")
    status = StatusResponse(meta=META, status=WELL)
    documents: dict[str, msgspec.Struct] = {
        "/v1/status": status,
        "/v1/elections": TaskResponse(meta=META, task=running),
        "/v1/tasks/t1": TaskResponse(meta=META, task=task),
    }
    return Daemon(documents)


@pytest.fixture
def daemon() -> Daemon:
    """One whose operation is done when it is looked at."""
    return ended("done")


@pytest.fixture
def api(daemon: Daemon) -> Iterator[str]:
    """Its address."""
    with answering(daemon) as url:
        yield url


def test_a_change_is_planned_shown_made_and_followed(
    daemon: Daemon, api: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(CliSettings(api=api, assume_yes=True), ELECTION)

    out, err = capsys.readouterr()
    assert daemon.asked == ["/v1/status", "/v1/elections?dryRun=true", "/v1/elections", "/v1/tasks/t1"]
    assert [key is not None for key in daemon.keys] == [False, True]
    assert "payments-7  planned  5 -> 3" in err
    assert out.splitlines()[-1] == "reassign: done; 12 of 40 partitions moved"


def test_a_dry_run_ends_with_the_plan(daemon: Daemon, api: str) -> None:
    run(CliSettings(api=api, dry_run=True), ELECTION)

    assert daemon.asked == ["/v1/status", "/v1/elections?dryRun=true"]


def of_many(first: str) -> Daemon:
    """A daemon whose plan has more items than it shows; those that are shown are in this state."""
    daemon = ended("done")
    item = TaskItem(subject="payments-7", state=first)
    plan = msgspec.structs.replace(TASK, state="planned", items=[item], items_total=2_000)
    daemon.documents["/v1/elections"] = TaskResponse(meta=META, task=plan)
    return daemon


def test_without_anything_to_change_no_question_is_asked() -> None:
    daemon = of_many("not-needed")

    with answering(daemon) as url:
        run(CliSettings(api=url), ELECTION)

    assert daemon.asked == ["/v1/status", "/v1/elections?dryRun=true"]


def test_the_first_failures_do_not_hide_the_items_that_can_change() -> None:
    daemon = of_many("failed")

    with answering(daemon) as url, pytest.raises(typer.Exit):
        run(CliSettings(api=url, assume_yes=True), ELECTION)

    assert "/v1/elections" in daemon.asked


def test_without_a_terminal_the_answer_is_no(daemon: Daemon, api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())

    with pytest.raises(CliError) as refused:
        run(CliSettings(api=api), ELECTION)

    assert (refused.value.code, len(daemon.keys)) == (ExitCode.DECLINED, 1)


@pytest.mark.parametrize(("state", "code"), [("partial", 5), ("failed", 4), ("lost", 4)])
def test_each_failure_of_a_task_has_its_exit_code(state: str, code: int) -> None:
    with answering(ended(state)) as url, pytest.raises(typer.Exit) as left:
        run(CliSettings(api=url, assume_yes=True), ELECTION)

    assert left.value.exit_code == code


def test_without_waiting_the_command_says_that_the_task_goes_on(api: str, capsys: pytest.CaptureFixture[str]) -> None:
    run(CliSettings(api=api, assume_yes=True), ELECTION, wait=False)

    assert "it continues: controllerctl get tasks shows the progress of t1" in capsys.readouterr().err


def test_without_waiting_the_command_reports_earlier_failures() -> None:
    refused = TaskItem(subject="payments-8", state="failed", detail="broker 9 is not registered")
    daemon = ended("partial")
    begun = msgspec.structs.replace(TASK, state="running", items=[*ITEMS, refused], items_total=2)
    daemon.documents["/v1/elections"] = TaskResponse(meta=META, task=begun)

    with answering(daemon) as url, pytest.raises(typer.Exit) as left:
        run(CliSettings(api=url, assume_yes=True), ELECTION, wait=False)

    assert left.value.exit_code == ExitCode.PARTIAL


def test_another_cluster_is_refused(daemon: Daemon, api: str) -> None:
    with pytest.raises(CliError) as refused:
        run(CliSettings(api=api, assume_yes=True, expected_cluster_id="other", context="prod"), ELECTION)

    assert (refused.value.code, daemon.keys) == (ExitCode.OTHER_CLUSTER, [])


def test_progress_is_a_line_with_percent_and_what_is_left() -> None:
    assert progress_line(TASK) == "reassign: 42.0%, 3m10s left: 12 of 40 partitions moved"


@pytest.mark.parametrize(
    ("text", "number"),
    [("1000", 1000), ("50MB", 50_000_000), ("1.5GiB", 1_610_612_736), ("5MB/s", 5_000_000)],
)
def test_sizes_have_units(text: str, number: int) -> None:
    assert parse_bytes(text) == number


@pytest.mark.parametrize("text", ["", "fast", "-1", "1 X"])
def test_an_invalid_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_bytes(text)


def test_sizes_are_printed_with_units() -> None:
    assert [human_bytes(number) for number in (5, 1536, 20 * 1024**3)] == ["5 B", "1.5 KiB", "20 GiB"]
