"""A daemon that is gone, deposed, slow or stuck: what each command does then, and what it says."""

import msgspec
import pytest

from cli.exit_codes import ExitCode
from controllerd.status.schema.work import TermList
from tests.cli.documents import run
from tests.cli.matrix.calling import NOBODY, Call
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
def test_a_daemon_that_is_gone_is_said_with_what_to_do(call: Call, command: str) -> None:
    outcome = call.at(NOBODY, ROWS[command].words, row=ROWS[command])

    assert (outcome.code, outcome.out) == (ExitCode.UNREACHABLE, "")
    assert f"no daemon answers at {NOBODY}" in outcome.err
    assert "start controllerd, or name its address with --api URL" in outcome.err


@pytest.mark.parametrize("command", LOCAL)
def test_what_reads_files_or_itself_misses_no_daemon(call: Call, command: str) -> None:
    outcome = call.at(NOBODY, ROWS[command].words, row=ROWS[command])

    assert outcome.code == ROWS[command].code
    assert NOBODY not in outcome.err


@pytest.mark.parametrize("command", ASKING)
def test_a_daemon_that_is_slow_is_waited_for_no_longer_than_the_timeout(
    call: Call, silent: Silent, command: str
) -> None:
    outcome = call.at(silent.url, ROWS[command].words, "--timeout", "30ms", row=ROWS[command])

    assert (outcome.code, outcome.out) == (ExitCode.TIMED_OUT, "")
    assert f"no answer from {silent.url} within 0.03 s" in outcome.err
    assert "--timeout waits longer" in outcome.err


@pytest.mark.parametrize("command", LOOKING)
def test_who_only_looks_does_not_wait_for_the_event_task(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, row=ROWS[command], on="stuck")

    agrees = command == "diff"  # there is no difference in that cluster
    assert outcome.code == (ExitCode.DONE if agrees else ROWS[command].code), outcome.err


@pytest.mark.parametrize("command", JUDGED)
def test_a_plan_that_the_event_task_does_not_judge_changes_nothing(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, "--timeout", "200ms", row=ROWS[command], on="stuck")

    assert (outcome.code, outcome.out) == (ExitCode.TIMED_OUT, "")
    assert "nothing was changed" in outcome.err


@pytest.mark.parametrize("command", [name for name in CHANGING if name not in JUDGED])
def test_a_change_that_the_event_task_does_not_take_up_ends_with_124_and_says_what_goes_on(
    call: Call, command: str
) -> None:
    row = ROWS[command]
    at_most = ["--wait-at-most", "300ms"] if row.is_only_begun else []

    outcome = call(row.words, *at_most, "--timeout", "700ms", row=row, on=row.stuck)

    assert outcome.code == ExitCode.TIMED_OUT, outcome.err
    assert "the operation continues" in outcome.err
    assert "controllerctl" in outcome.err.partition("the operation continues")[2]


@pytest.mark.parametrize("command", BEGINNING)
def test_what_is_only_begun_does_not_wait_for_the_event_task(call: Call, command: str) -> None:
    outcome = call(ROWS[command].words, row=ROWS[command], on="stuck")

    assert outcome.code == ExitCode.DONE, outcome.err
    assert "it continues: controllerctl " in outcome.err


@pytest.mark.parametrize("command", ASKING)
def test_a_deposed_instance_shows_what_it_knows_and_says_who_leads(call: Call, command: str) -> None:
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
