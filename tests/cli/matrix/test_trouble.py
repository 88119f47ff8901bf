"""Each command against a daemon that is unreachable, deposed, slow or stuck."""

import msgspec
import pytest

from cli.exit_codes import ExitCode
from controllerd.status.schema.history import TermList
from tests.cli.documents import run
from tests.cli.matrix.calling import NO_SERVER, Call
from tests.cli.matrix.clusters import LEADER, SUCCESSOR
from tests.cli.matrix.silence import Silent
from tests.cli.matrix.table import NO_DAEMON, ROWS

ASKING = [name for name, row in ROWS.items() if row.on != NO_DAEMON]
LOCAL = [name for name, row in ROWS.items() if row.on == NO_DAEMON]
CHANGING = [name for name, row in ROWS.items() if row.changes]
JUDGED = [name for name, row in ROWS.items() if row.asks_event_task]
BEGINNING = [name for name, row in ROWS.items() if row.is_only_begun and not row.asks_event_task]
LOOKING = [name for name in ASKING if name not in CHANGING and ROWS[name].on == "active"]


@pytest.mark.parametrize("command", ASKING)
def test_an_unreachable_daemon_is_reported_with_advice(call: Call, command: str) -> None:
    outcome = call.at(NO_SERVER, ROWS[command].words, row=ROWS[command])

    assert (outcome.code, outcome.out) == (ExitCode.UNREACHABLE, "")
    assert f"no daemon answers at {NO_SERVER}" in outcome.err
    assert "start controllerd, or name its address with --api URL" in outcome.err


@pytest.mark.parametrize("command", LOCAL)
def test_commands_that_read_files_need_no_daemon(call: Call, command: str) -> None:
    outcome = call.at(NO_SERVER, ROWS[command].words, row=ROWS[command])

    assert outcome.code == ROWS[command].code
    assert NO_SERVER not in outcome.err


@pytest.mark.parametrize("command", ASKING)
def test_a_slow_daemon_is_waited_for_no_longer_than_the_timeout(call: Call, silent: Silent, command: str) -> None:
    outcome = call.at(silent.url, ROWS[command].words, "--timeout", "30ms", row=ROWS[command])

    assert (outcome.code, outcome.out) == (ExitCode.TIMED_OUT, "")
    assert f"no answer from {silent.url} within 0.03 s" in outcome.err
    assert "--timeout waits longer" in outcome.err


@pytest.mark.parametrize("command", LOOKING)
def test_read_only_commands_do_not_wait_for_the_event_task(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, row=ROWS[command], on="stuck")

    agrees = command == "diff"  # there is no difference in that cluster
    assert outcome.code == (ExitCode.DONE if agrees else ROWS[command].code), outcome.err


@pytest.mark.parametrize("command", JUDGED)
def test_a_plan_that_the_event_task_does_not_judge_changes_nothing(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, "--timeout", "200ms", row=ROWS[command], on="stuck")

    assert (outcome.code, outcome.out) == (ExitCode.TIMED_OUT, "")
    assert "nothing was changed" in outcome.err


@pytest.mark.parametrize("command", [name for name in CHANGING if name not in JUDGED])
def test_a_change_that_the_event_task_does_not_handle_ends_with_124_and_names_its_task(
    call: Call, command: str
) -> None:
    row = ROWS[command]
    at_most = ["--wait-at-most", "300ms"] if row.is_only_begun else []

    outcome = call(row.words, *at_most, "--timeout", "700ms", row=row, on=row.stuck)

    assert outcome.code == ExitCode.TIMED_OUT, outcome.err
    assert "the operation continues" in outcome.err
    assert "controllerctl" in outcome.err.partition("the operation continues")[2]


@pytest.mark.parametrize("command", BEGINNING)
def test_a_command_that_only_starts_a_change_does_not_wait_for_the_event_task(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, row=ROWS[command], on="stuck")

    assert outcome.code == ExitCode.DONE, outcome.err
    assert "it continues: controllerctl " in outcome.err


@pytest.mark.parametrize("command", ASKING)
def test_a_deposed_instance_shows_its_own_view_and_names_the_active_controller(call: Call, command: str) -> None:
    code, says = ROWS[command].deposed

    outcome = call(ROWS[command].words, row=ROWS[command], on="deposed", until=says)

    assert outcome.code == code, outcome.err
    assert says in outcome.out + outcome.err


@pytest.mark.parametrize("command", CHANGING)
def test_zookeeper_alone_changes_nothing(call: Call, command: str) -> None:
    outcome = run(*call.words(ROWS[command].words), "--yes", "--zk", "127.0.0.1:1")

    assert (outcome.code, "--zk only reads" in outcome.err) == (ExitCode.USAGE, True)


def test_a_deposed_instance_knows_the_epoch_of_its_successor(call: Call) -> None:
    outcome = call("get history -o json", row=ROWS["get history"], on="deposed")

    terms = msgspec.json.decode(outcome.out, type=TermList).items
    assert [(term.controller_epoch, term.holder) for term in terms] == [(2, SUCCESSOR), (1, LEADER)]
