"""The mutation gate: plants known bugs one by one in a copy of the code, and counts the seeds until one finds it.

``python -m tests.sim.mutants`` tries all of ``mutant_list`` and prints a table; ``--only NAME`` tries one. A rule
of the judge that is never broken proves nothing, and a bug that cost others an outage must be found if it comes back.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from tests.sim.mutant import Mutant
from tests.sim.mutant_list import MUTANTS

ROOT: Final = Path(__file__).parents[2]
_PARTS: Final = (
    "broker", "channel_manager", "controllerd", "events", "handlers", "replay", "wire", "tests/fakes", "tests/sim",
)  # fmt: skip
_FAILED: Final = re.compile(r"^seed (\d+) failed: (\S+) at (.*)$", re.MULTILINE)
_HEAD: Final = "| bug | what it does | stands for | seeds | rule |\n|---|---|---|---|---|"
_START_S: Final = 120.0
_SEED_S: Final = 3.0
"""The time for one seed, far more than one takes: a bug that loops for ever must not stop the whole gate."""


class PatchDoesNotFitError(Exception):
    """The text that a bug replaces is not in the file exactly once: the code has changed, and the bug must follow."""


class SearchResult(NamedTuple):
    """The result of the search for one bug. ``seeds`` is how many stories it took, None when it was not found."""

    mutant: Mutant
    seeds: int | None
    rule: str
    evidence: str


def plant(mutant: Mutant, tree: Path) -> None:
    """Change the code below ``tree``. :raises PatchDoesNotFitError: the text is not there."""
    for edit in mutant.edits:
        path = tree / edit.file
        text = path.read_text()
        found = text.count(edit.old)
        if found != 1:
            raise PatchDoesNotFitError(f"{mutant.name}: the text to replace is {found} times in {edit.file}")
        path.write_text(text.replace(edit.old, edit.new))
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()


def copy_tree(tree: Path) -> None:
    """Copy the files that the simulation needs, compiled ones too."""
    for part in _PARTS:
        shutil.copytree(ROOT / part, tree / part)


def search(mutant: Mutant, seeds: int) -> SearchResult:
    """Play stories with this bug until one breaks a rule."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        copy_tree(tree)
        try:
            plant(mutant, tree)
        except PatchDoesNotFitError as error:
            return SearchResult(mutant, None, "", str(error))
        command = [sys.executable, "-m", "tests.sim", "--seeds", str(seeds), "--jobs", "1", "--stop-at-first"]
        environment = {**os.environ, "PYTHONPATH": name}
        try:
            done = subprocess.run(
                command,
                cwd=tree,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=_START_S + seeds * _SEED_S,
            )
        except subprocess.TimeoutExpired:
            return SearchResult(mutant, None, "", "did not end")
    return _judged(mutant, done)


def _judged(mutant: Mutant, done: subprocess.CompletedProcess[str]) -> SearchResult:
    found = [(int(seed), rule, evidence) for seed, rule, evidence in _FAILED.findall(done.stdout)]
    if found:
        seed, rule, evidence = min(found)
        return SearchResult(mutant, seed + 1, rule, evidence)
    return SearchResult(mutant, None, "", "" if done.returncode == 0 else done.stderr.strip()[-300:])


def search_all(mutants: Sequence[Mutant], seeds: int, jobs: int) -> Iterator[SearchResult]:
    """Search for all bugs, so many at a time; results in their order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda mutant: search(mutant, seeds), mutants)


def row(result: SearchResult) -> str:
    """One line of the table, in Markdown."""
    seeds = "not found" if result.seeds is None else f"{result.seeds}"
    return f"| {result.mutant.name} | {result.mutant.what} | {result.mutant.stands_for} | {seeds} | {result.rule} |"


def main() -> int:
    """The command line; the exit code is 1 when a bug was not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim.mutants", description=__doc__)
    parser.add_argument("--only", action="append", help="try this one (may be given again)")
    parser.add_argument("--seeds", type=int, default=5000, help="how many seeds to play for each")
    parser.add_argument("--jobs", type=int, default=2, help="how many to try at a time")
    given = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if not given.only or mutant.name in given.only]
    results = []
    for result in search_all(chosen, given.seeds, given.jobs):
        results.append(result)
        took = f"{result.seeds} seeds, {result.rule}" if result.seeds is not None else "NOT FOUND"
        print(f"{result.mutant.name}: {took}: {result.evidence}", flush=True)
    found = [result for result in results if result.seeds is not None]
    print(f"\n{_HEAD}", *map(row, results), sep="\n")
    print(f"\n{len(found)} of {len(results)} found within {given.seeds} seeds each")
    return 0 if chosen and len(found) == len(results) else 1


if __name__ == "__main__":
    sys.exit(main())
