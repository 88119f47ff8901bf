"""The table of releases is the one in the documentation, and has a valid result of each act on each release."""

import json
from pathlib import Path

import pytest

from controllerd.dev.releases import TESTED_RELEASES
from tests.releases import gaps
from tests.releases.acts import ACTS
from tests.releases.cases import cases
from tests.releases.fingerprint import constants, fingerprint
from tests.releases.seen import NOT_SEEN, VARIABLE, ActResult, cell, read, record_result, table
from tests.tools.page import PAGE


def test_the_table_is_on_the_page() -> None:
    assert table() in PAGE.read_text("utf-8"), "run: python -m tests.tools.page"


def test_each_release_is_tested_with_the_lowest_protocol_version_that_is_served_and_with_its_own() -> None:
    assert dict.fromkeys(case.release for case in cases()) == dict.fromkeys(TESTED_RELEASES)
    assert [case.protocol for case in cases() if case.release == "2.6.3"] == ["2.0", "2.6"]
    assert [case.protocol for case in cases() if case.release == "3.9.1"] == ["2.0", "3.9"]


def test_the_record_has_no_result_of_a_removed_case_or_act() -> None:
    assert read().keys() - {case.id for case in cases()} == set()
    assert {name for row in read().values() for name in row} - ACTS.keys() == set()


def test_a_cell_shows_the_recorded_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    case, record = cases()[0], tmp_path / "seen.json"
    record_result(case, "shrink_and_grow_an_isr", "a new way", record)
    assert cell(read(record), case, "shrink_and_grow_an_isr") == "a new way"
    assert cell(read(record), case, "kill") == NOT_SEEN
    record_result(case, "shrink_and_grow_an_isr", None, record)
    assert cell(read(record), case, "shrink_and_grow_an_isr") == NOT_SEEN


def test_a_cell_does_not_show_the_result_of_an_act_that_has_changed() -> None:
    case = cases()[0]
    assert cell({case.id: {"kill": ActResult("another", "yes")}}, case, "kill") == NOT_SEEN


def test_measurements_of_a_rolling_restart_are_valid_until_the_test_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    record = tmp_path / "gaps.json"
    gaps.record_gaps("2.8.2", gaps.Gaps(2.0, 1.0), record)
    assert gaps.read(record) == {"2.8.2": gaps.Gaps(2.0, 1.0)}
    kept = json.loads(record.read_text("utf-8"))
    record.write_text(json.dumps({"2.8.2": {**kept["2.8.2"], "fingerprint": "another"}}), encoding="utf-8")
    assert gaps.read(record) == {}


ACT = """\
from tests.releases import ways
from tests.releases.cluster import Scene

async def shut_down(scene: Scene) -> None:
    await scene.shut_down_in_order(3)
"""


class TestTheFingerprint:
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        """Return a tree with an act that imports a helper, which imports another one."""
        for package in ("tests/releases", "tests/real"):
            (tmp_path / package).mkdir(parents=True)
        write(tmp_path, "tests/releases/acts.py", ACT)
        write(tmp_path, "tests/releases/ways.py", "WAY = 1\n")
        write(tmp_path, "tests/releases/cluster.py", "from tests.real.scene import Scene\n")
        write(tmp_path, "tests/real/scene.py", "class Scene:\n    x = 1\n")
        return tmp_path

    @pytest.mark.parametrize("changed", ["tests/releases/ways.py", "tests/releases/cluster.py", "tests/real/scene.py"])
    def test_differs_when_a_helper_of_the_act_changed(self, root: Path, changed: str) -> None:
        before = self.of(root)
        write(root, changed, (root / changed).read_text("utf-8") + "Y = 2\n")
        assert self.of(root) != before

    def test_differs_when_the_act_changed(self, root: Path) -> None:
        assert self.of(root, "another act") != self.of(root)

    def test_is_the_same_when_another_act_or_the_layout_changed(self, root: Path) -> None:
        before = self.of(root)
        write(root, "tests/releases/acts.py", ACT + "\n\nasync def another() -> None:\n    pass\n")
        write(root, "tests/real/scene.py", "class Scene:\n\n    x  =  1\n")
        assert self.of(root) == before

    def test_counts_the_limits_of_the_module_but_not_its_other_acts(self, root: Path) -> None:
        write(root, "tests/releases/acts.py", "LIMIT_S = 5.0\n\n\nasync def another() -> None:\n    pass\n")
        assert constants(root / "tests/releases/acts.py") == "LIMIT_S = 5.0"

    @staticmethod
    def of(root: Path, source: str = "an act") -> str:
        return fingerprint(source, root / "tests/releases/acts.py", root)


def write(root: Path, path: str, text: str) -> None:
    (root / path).write_text(text, encoding="utf-8")


@pytest.mark.releases
def test_every_cell_of_the_table_has_a_result() -> None:
    missing = [f"{case.id}: {name}" for case in cases() for name in ACTS if cell(read(), case, name) == NOT_SEEN]

    assert missing == [], f"run make test-releases with {VARIABLE}=1"


@pytest.mark.releases
def test_the_gaps_of_every_release_were_measured() -> None:
    assert set(TESTED_RELEASES) - gaps.read().keys() == set(), f"run make test-releases with {VARIABLE}=1"
