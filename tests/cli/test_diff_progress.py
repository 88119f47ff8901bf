"""``controllerctl diff`` of a large cluster: it is followed to its end, and every other end is said."""

import asyncio
import io
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field

import msgspec
import pytest

from cli.app import main
from controllerd.status.reads.comparison import Comparison, ComparisonProgress
from controllerd.status.schema.common import Problem
from controllerd.status.schema.work import Comparing, DifferenceList
from tests.cli.documents import META, Daemon, answering, run
from tests.cli.matrix.calling import interrupted_when
from tests.cli.running import Outcome, outcome_of, start
from tests.status.fake_controller import FakeController, serving

FOUND = DifferenceList(meta=META, items=[], compared=100_000, brokers=[1, 2])
NOW = Comparing(meta=META, id="c1", stage="asking broker 3 (2 of 5)", percent=42.0, elapsed_s=0.2, eta_seconds=5.1)
WAITS = msgspec.structs.replace(NOW, stage="waiting for its turn", percent=None, eta_seconds=None)
FORGOTTEN = Problem(title="Not Found", status=404, detail="there is no comparison 'c1'", code="unknown_comparison")


@dataclass
class ComparingDaemon(Daemon):
    """Says these one after the other, and the last of them from then on."""

    steps: list[msgspec.Struct] = field(default_factory=lambda: [WAITS, NOW, FOUND])

    def answer(self, target: str) -> tuple[int, bytes]:
        """The next step, with the status that belongs to it."""
        assert target == ("/v1/diff?brokers=true" if len(self.asked) == 1 else "/v1/diff/c1")
        step = self.steps[min(len(self.asked), len(self.steps)) - 1]
        status = step.status if isinstance(step, Problem) else 202 if isinstance(step, Comparing) else 200
        return status, msgspec.json.encode(step)


@pytest.fixture
def daemon() -> ComparingDaemon:
    """One that needs some time."""
    return ComparingDaemon()


@pytest.fixture
def api(daemon: ComparingDaemon) -> Iterator[str]:
    """Its address."""
    with answering(daemon) as url:
        yield url


def test_a_comparison_is_followed_and_reported_in_lines_where_there_is_no_terminal(
    daemon: ComparingDaemon, api: str
) -> None:
    outcome = run("diff", "--api", api)

    assert (outcome.code, outcome.out) == (0, "no differences\n")
    assert outcome.err.splitlines() == [
        "comparing; of 100,000 partitions it takes some ten seconds",
        "compared: 100000 partitions; metadata of brokers: 1,2",
    ]
    assert len(daemon.asked) == 3


def test_the_json_document_is_the_result_without_progress(api: str) -> None:
    assert msgspec.json.decode(run("diff", "--api", api, "-o", "json").out, type=DifferenceList) == FOUND


def test_joining_a_running_comparison_is_reported(daemon: ComparingDaemon, api: str) -> None:
    daemon.steps = [msgspec.structs.replace(NOW, elapsed_s=3.7), FOUND]

    outcome = run("diff", "--api", api)

    assert "joining a comparison that began 3.7 s ago: repeat it for what has changed since" in outcome.err


def test_quiet_prints_no_progress(api: str) -> None:
    assert run("diff", "--api", api, "--quiet").err == ""


class TerminalOutput(io.StringIO):
    """An output that is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_terminal_shows_a_progress_bar_beside_the_data(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    out, err = io.StringIO(), TerminalOutput()

    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main(["diff", "--api", api])

    assert (ended.value.code, out.getvalue()) == (0, "no differences\n")
    assert "asking broker 3 (2 of 5)" in err.getvalue()
    assert "42%, 5.1 s left" in err.getvalue()


def test_a_comparison_is_waited_for_no_longer_than_the_timeout(daemon: ComparingDaemon, api: str) -> None:
    daemon.steps = [NOW]

    outcome = run("diff", "--api", api, "--timeout", "500ms")

    assert (outcome.code, outcome.out) == (124, "")
    assert "not compared within 0.5 s; the comparison continues in the daemon" in outcome.err
    assert "controllerctl diff joins it; --timeout waits longer" in outcome.err


def test_ctrl_c_ends_the_wait_and_says_that_the_comparison_goes_on(daemon: ComparingDaemon, api: str) -> None:
    daemon.steps = [NOW]

    outcome = interrupted_when(["diff", "--api", api], lambda: len(daemon.asked) > 1)

    assert (outcome.code, outcome.out) == (130, "")
    assert "interrupted; the comparison continues in the daemon" in outcome.err


def test_a_restarted_daemon_does_not_know_the_comparison(daemon: ComparingDaemon, api: str) -> None:
    daemon.steps = [NOW, FORGOTTEN]

    outcome = run("diff", "--api", api)

    assert (outcome.code, outcome.out) == (69, "")
    assert "the daemon does not know the comparison any more" in outcome.err


class Endless:
    """Compares until it is ended."""

    def __init__(self) -> None:
        self.began = asyncio.Event()

    async def compare(self, _with_brokers: bool, _progress: ComparisonProgress) -> Comparison:
        """Wait without end."""
        self.began.set()
        await asyncio.Event().wait()
        return Comparison(differences=(), partitions=0, brokers=())


@pytest.fixture
def endless() -> Endless:
    return Endless()


@pytest.fixture
def controller(endless: Endless) -> FakeController:
    """One that leads, and compares for ever."""
    controller = FakeController(compare=endless.compare)
    controller.lead(3)
    return controller


async def test_a_daemon_that_stops_during_a_comparison_is_reported(
    controller: FakeController, endless: Endless
) -> None:
    async with serving(controller) as url:
        process = await start("diff", "--api", url)
        await asyncio.wait_for(endless.began.wait(), 30)
    outcome: Outcome = await outcome_of(process)

    assert (outcome.code, outcome.out) == (69, "")
    assert f"no daemon answers at {url}" in outcome.err


async def test_an_instance_deposed_during_a_comparison_names_the_active_controller(
    controller: FakeController, endless: Endless
) -> None:
    async with serving(controller) as url:
        process = await start("diff", "--api", url)
        await asyncio.wait_for(endless.began.wait(), 30)
        controller.stand_by("broker 2 (built-in) holds the role")
        outcome = await outcome_of(process)

    assert (outcome.code, outcome.out) == (4, "")
    assert "broker 2 (built-in) leads" in outcome.err
