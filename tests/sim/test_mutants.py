"""Every planted bug still fits the code and is in the table, and three of them are found as soon as the table says."""

import re
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.sim.mutant import Edit, Mutant
from tests.sim.mutant_list import MUTANTS
from tests.sim.mutants import ROOT, PatchDoesNotFitError, plant, search

TABLE: Final = ROOT / "docs" / "simulation.md"
ROW: Final = re.compile(r"^\| ([a-z-]+) \| [^|]* \| [^|]* \| (\d+) \| ([A-Z]-\d\d|RT) \|$", re.MULTILINE)
QUICK: Final = ("no-fence", "calls-forgotten", "isr-emptied")
MARGIN: Final = 3
"""The tolerance: a change of the code shifts the events of a seed, so that a bug may take so many times more seeds."""


def found_in_table() -> dict[str, tuple[int, str]]:
    return {name: (int(seeds), rule) for name, seeds, rule in ROW.findall(TABLE.read_text("utf-8"))}


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_bug_fits_the_code(mutant: Mutant, tmp_path: Path) -> None:
    files = {edit.file for edit in mutant.edits}
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tmp_path / file)
    plant(mutant, tmp_path)
    for file in files:
        compile((tmp_path / file).read_text("utf-8"), file, "exec")


def test_a_bug_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("one\none\n")
    with pytest.raises(PatchDoesNotFitError, match="2 times"):
        plant(Mutant("bad", "fits twice", "nothing", (Edit("code.py", "one", "two"),)), tmp_path)


def test_a_bug_that_fits_is_planted(tmp_path: Path) -> None:
    (tmp_path / "code.py").write_text("one\nthree\n")
    plant(Mutant("good", "fits once", "nothing", (Edit("code.py", "one", "two"),)), tmp_path)
    assert (tmp_path / "code.py").read_text() == "two\nthree\n"


def test_names_are_unique_and_all_of_them_stand_in_the_table() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
    assert found_in_table().keys() == set(names)


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_one_is_found_about_as_soon_as_the_table_says(name: str) -> None:
    (mutant,) = (mutant for mutant in MUTANTS if mutant.name == name)
    seeds, rule = found_in_table()[name]
    result = search(mutant, MARGIN * seeds)
    assert result.seeds is not None
    assert result.rule == rule
