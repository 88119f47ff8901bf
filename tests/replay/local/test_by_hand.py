"""Churn, percentiles and durations of a log whose tables were calculated by hand, by the local engine."""

import pytest

from replay.facts.engine import Inputs, Rows
from replay.local.engine import LocalEngine
from tests.replay.by_hand import EXPECTED, said, write_by_hand


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    folder, engine = tmp_path_factory.mktemp("by-hand"), LocalEngine()
    engine.ingest(Inputs((write_by_hand(folder / "log"),)), str(folder / "out"))
    return engine.tables(str(folder / "out"), list(EXPECTED))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_has_the_rows_calculated_by_hand(tables: dict[str, Rows], name: str) -> None:
    columns, rows = EXPECTED[name]
    assert said(tables[name], columns) == rows
