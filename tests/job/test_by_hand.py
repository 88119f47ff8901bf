"""Churn, percentiles and durations of a log whose tables were calculated by hand, by Spark."""

import pytest
from pyspark.sql import SparkSession

from replay.facts.engine import Inputs, Rows
from replay.job.engine import SparkEngine
from tests.replay.by_hand import EXPECTED, said, write_by_hand

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def tables(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rows]:
    folder, engine = tmp_path_factory.mktemp("by-hand"), SparkEngine(spark)
    engine.ingest(Inputs((write_by_hand(folder / "log"),)), str(folder / "out"))
    return engine.tables(str(folder / "out"), list(EXPECTED))


@pytest.mark.parametrize("name", EXPECTED)
def test_a_table_has_the_rows_calculated_by_hand(tables: dict[str, Rows], name: str) -> None:
    columns, rows = EXPECTED[name]
    assert said(tables[name], columns) == rows
