"""The table of releases is the one of the page, has every release with each act, and every cell of it was seen."""

import pytest

from controllerd.dev.releases import TESTED_RELEASES
from tests.releases.acts import ACTS
from tests.releases.cases import cases
from tests.releases.seen import NOT_SEEN, VARIABLE, cell, read, table
from tests.tools.page import PAGE


def test_the_table_is_on_the_page() -> None:
    assert table() in PAGE.read_text("utf-8"), "run: python -m tests.tools.page"


def test_each_release_is_tried_with_its_lowest_and_its_highest_protocol_version() -> None:
    assert dict.fromkeys(case.release for case in cases()) == dict.fromkeys(TESTED_RELEASES)
    assert [case.protocol for case in cases() if case.release == "2.6.3"] == ["2.6"]
    assert [case.protocol for case in cases() if case.release == "3.9.1"] == ["2.6", "3.9"]


def test_nothing_is_remembered_of_what_is_tried_no_more() -> None:
    assert read().keys() - {case.id for case in cases()} == set()
    assert {name for row in read().values() for name in row} - ACTS.keys() == set()


@pytest.mark.releases
def test_every_cell_of_the_table_was_seen() -> None:
    missing = [f"{case.id}: {name}" for case in cases() for name in ACTS if cell(read(), case, name) == NOT_SEEN]

    assert missing == [], f"run make test-releases with {VARIABLE}=1"
