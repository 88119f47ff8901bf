"""The simulation itself: hundreds of seeds without a violation, every seed that ever failed, and the same seed twice.

``make sim SEEDS=n`` plays any number of seeds.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog

from tests.sim.__main__ import commit_of, main, play_some
from tests.sim.plan import Plan, plan_of
from tests.sim.shrink import shrink
from tests.sim.story import play

SEEDS, AT_ONCE = 200, 25
FAILED_ONCE = (
    *(2, 31, 35, 40, 66, 67, 82, 85, 129, 141, 212, 328, 338, 376, 1103, 1325, 1340, 1551, 3574, 4494, 4787, 5168),
    *(5400, 5466, 7108, 11436, 16630, 22636, 33141, 91030, 91110),
)
"""Each seed showed a defect, of the controller or of the model, when it was first played: before there was ``LATE``."""
FAILED_WITH_REQUESTS = (
    *(5, 17, 20, 26, 45, 78, 79, 103, 126, 247, 268, 311, 422, 587, 641, 808, 922, 938, 1273, 1453, 1491, 2177),
    *(1410, 3379, 4090, 4689, 4980, 6479, 6760, 7221, 12702, 20185, 20322, 20528, 21150, 21331, 62090, 64047, 64707),
    *(1965, 2631, 5858, 13885, 15767, 16579, 17845),
)
"""The same for stories with requests."""
FAILED_WITH_TOPICS = (
    *(386, 474, 701, 898, 1006, 1256, 2358, 2493, 2601, 3035, 3063, 3071, 4691, 5095, 7295, 13976, 14323, 15986),
    *(16088, 16800, 60219),
)
"""The same for stories in which clients create, extend and delete topics besides."""
SAME = (7, 11, 20, 34)
"""In the last two stories log directories fail, and partitions of several topics get new leaders at once."""
RUNS = 10
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _log() -> object:  # play_some silences the log of this process
    before = structlog.get_config()
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("first", range(AT_ONCE, SEEDS, AT_ONCE))
def test_no_seed_breaks_a_rule(first: int) -> None:
    assert play_some(range(first, first + AT_ONCE)).failed == []


def _parts(seeds: Sequence[int]) -> list[Sequence[int]]:
    return [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]


@pytest.mark.parametrize("seeds", _parts((*FAILED_ONCE, *FAILED_WITH_REQUESTS)))
def test_no_seed_that_ever_failed_fails_again(seeds: Sequence[int]) -> None:
    assert play_some(seeds, calls_for_topics=False).failed == []


def test_no_seed_that_ever_failed_fails_again_with_topics() -> None:
    assert play_some(FAILED_WITH_TOPICS).failed == []


@pytest.mark.parametrize("seeds", _parts(FAILED_ONCE))
def test_no_seed_that_ever_failed_fails_again_without_requests(seeds: Sequence[int]) -> None:
    assert play_some(seeds, is_late=False).failed == []


def test_the_first_stories_break_no_rule_and_are_worth_their_time() -> None:
    """There are elections, writes and acknowledged records; without them no rule could be broken."""
    endings = [play(plan_of(seed)) for seed in range(AT_ONCE)]

    assert [ending.violations for ending in endings if ending.violations] == []
    assert sum(ending.elections for ending in endings) >= 2 * AT_ONCE
    assert sum(ending.acknowledged for ending in endings) >= 20 * AT_ONCE
    assert min(ending.transactions for ending in endings) > 0
    assert sum(ending.moves for ending in endings) >= AT_ONCE
    assert sum(ending.deletions for ending in endings) >= AT_ONCE / 5
    assert sum(ending.made_by_call for ending in endings) >= AT_ONCE / 2


@pytest.mark.timeout(600)
def test_the_same_seed_gives_the_same_trace_in_ten_of_ten_processes() -> None:
    """The order of hashes and the addresses of objects do not matter. Ten interpreters start one after another."""
    hashes = {_trace_hashes(str(run)) for run in range(RUNS)}

    assert len(hashes) == 1


def _trace_hashes(hash_seed: str) -> tuple[str, ...]:
    program = f"from tests.sim.__main__ import hashes; print(*hashes({SAME}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return tuple(done.stdout.split())


def test_a_failing_plan_is_cut_down_to_what_makes_it_fail() -> None:
    plan = plan_of(SAME[0])
    guilty = {plan.actions[3], plan.actions[9]}

    def broken(tried: Plan) -> str | None:
        return "a rule" if guilty <= set(tried.actions) else None

    assert set(shrink(plan, broken_by=broken).actions) == guilty


def test_a_plan_that_breaks_nothing_stays_as_it_is() -> None:
    plan = plan_of(SAME[0])

    assert shrink(plan, broken_by=lambda _: None) is plan


def test_a_crash_of_the_model_is_a_failure_of_its_seed_and_not_of_the_run() -> None:
    """An action of an unknown kind represents any defect of story, model and judge."""
    plan = plan_of(SAME[0])

    ending = play(plan.with_actions([plan.actions[0]._replace(kind="nobody_can_play_this")]))

    assert [found.id for found in ending.violations] == ["S-04"]
    assert "AttributeError" in ending.violations[0].evidence
    assert any("_act" in line for line in ending.traced)  # the traceback, for the developer


def git(tree: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost", "-c", "commit.gpgsign=false")
    command = ["git", "-C", str(tree), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_a_run_names_the_commit_and_whether_the_tree_differs_from_it(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("one")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "--quiet", "-m", "one")
    head = git(tmp_path, "rev-parse", "--short", "HEAD")
    assert commit_of(tmp_path) == f"commit {head}, unchanged"

    file.write_text("two")

    assert commit_of(tmp_path) == f"commit {head} with changes that are not committed"


def test_a_copy_inside_of_another_repository_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "one")
    copy = tmp_path / "copy"
    copy.mkdir()
    assert commit_of(copy) == "no commit"


def test_seeds_are_counted_with_the_commit_that_they_were_played_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--first", str(SAME[0]), "--seeds", "1", "--jobs", "1"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("1 seeds, 0 failed")
    assert lines[-1] == f"played on {commit_of(ROOT)}"


def test_to_cut_down_without_a_seed_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise hundreds of seeds would be played without being cut down."""
    with pytest.raises(SystemExit, match="2"):
        main(["--shrink"])

    assert "--seed" in capsys.readouterr().err
