"""Every exit code of every command: provoked, and explained on standard error."""

import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from cli.app import main
from cli.exit_codes import ExitCode
from controllerd.status.schema.common import Problem
from tests.cli.documents import Daemon, answering, run
from tests.cli.matrix.calling import NO_SERVER, Call, interrupted_when
from tests.cli.matrix.clusters import ServedCluster
from tests.cli.matrix.silence import Silent
from tests.cli.matrix.table import NO_DAEMON, ROWS
from tests.cli.matrix.troubles import COMMON, OF_CHANGES, OF_DAEMONS

ASKING = [name for name, row in ROWS.items() if row.on != NO_DAEMON]
CHANGING = [name for name, row in ROWS.items() if row.changes]
OWN = [(name, code) for name, row in ROWS.items() for code in row.ends]


@pytest.fixture
def daemon() -> Daemon:
    """One that refuses whatever it is asked."""
    return Daemon()


@pytest.fixture
def api(daemon: Daemon) -> Iterator[str]:
    """Its address."""
    with answering(daemon) as url:
        yield url


@pytest.mark.parametrize(("command", "code"), OWN)
def test_a_command_ends_only_with_its_documented_codes(call: Call, command: str, code: int) -> None:
    outcome = call(ROWS[command].ends[code], row=ROWS[command])

    assert outcome.code == code, outcome.err
    assert code == ExitCode.DONE or outcome.out or outcome.err


@pytest.mark.parametrize("command", ROWS)
def test_wrong_usage_ends_with_2_before_anything_is_asked(call: Call, command: str) -> None:
    outcome = call.at(NO_SERVER, ROWS[command].words, "--nonsense", row=ROWS[command])

    assert (outcome.code, outcome.out) == (ExitCode.USAGE, "")
    assert COMMON[2] in outcome.err


@pytest.mark.parametrize("command", ROWS)
def test_an_answer_that_cannot_be_written_ends_with_74(
    call: Call, shown: dict[str, ServedCluster], command: str
) -> None:
    row = ROWS[command]
    planned = ["--dry-run", "-o", "json"] if row.changes else []
    url = NO_SERVER if row.on == NO_DAEMON else shown[row.on].url

    err = io.StringIO()
    with Path("/dev/full").open("w") as full, redirect_stdout(full), redirect_stderr(err):
        code = main([*call.words(row.words), *planned, "--api", url])

    assert code == ExitCode.UNWRITTEN, err.getvalue()
    assert COMMON[74] in err.getvalue()


@pytest.mark.parametrize("command", ASKING)
@pytest.mark.parametrize(("status", "code"), [(401, 77), (403, 77), (413, 2), (500, 70), (503, 69), (504, 124)])
def test_the_message_of_a_refusal_is_printed(
    call: Call, daemon: Daemon, api: str, command: str, status: int, code: int
) -> None:
    daemon.problem = Problem(title="no", status=status, detail="it is not to be", code="no", hint="do this")

    outcome = call.at(api, ROWS[command].words, row=ROWS[command])

    assert (outcome.code, outcome.out) == (code, "")
    assert "it is not to be (no); do this" in outcome.err
    assert code != ExitCode.FORBIDDEN or OF_DAEMONS[code] in outcome.err


@pytest.mark.parametrize("command", CHANGING)
def test_without_confirmation_nothing_is_changed(call: Call, shown: dict[str, ServedCluster], command: str) -> None:
    row = ROWS[command]

    outcome = run(*call.words(row.words), "--api", shown[row.on].url)

    assert outcome.code == ExitCode.DECLINED, outcome.err
    assert OF_CHANGES[7] in outcome.err


@pytest.mark.parametrize("command", CHANGING)
def test_nothing_is_changed_in_a_cluster_other_than_the_expected_one(
    call: Call, shown: dict[str, ServedCluster], command: str
) -> None:
    row = ROWS[command]

    outcome = run("--config", call.files.contexts, *call.words(row.words), "--yes", "--api", shown[row.on].url)

    assert (outcome.code, outcome.out) == (ExitCode.OTHER_CLUSTER, "")
    assert OF_CHANGES[8] in outcome.err


@pytest.mark.parametrize("command", ASKING)
def test_ctrl_c_ends_every_command(call: Call, silent: Silent, command: str) -> None:
    row = ROWS[command]

    outcome = interrupted_when([*call.words(row.words), "--api", silent.url], silent.is_asked)

    assert outcome.code == ExitCode.INTERRUPTED, outcome.err
    assert "Traceback" not in outcome.err
