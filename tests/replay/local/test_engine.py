"""The plain engine, from folders of logs to every table."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from replay.facts.engine import Engine, Inputs, ReplayError
from replay.facts.tables import TABLES
from replay.local.engine import LocalEngine
from tests.record.logs import good_log
from tests.replay.local.logs import lines_of, write_segment

GOOD = [record for _, record in good_log()]


@pytest.fixture
def engine() -> Iterator[Engine]:
    """An engine."""
    made: Engine = LocalEngine()
    yield made
    made.close()


def test_a_log_becomes_every_table(engine: Engine, tmp_path: Path) -> None:
    write_segment(tmp_path / "log", lines_of(GOOD))
    engine.ingest(Inputs((str(tmp_path / "log"),)), str(tmp_path / "out"))
    tables = engine.tables(str(tmp_path / "out"))
    assert list(tables) == [table.name for table in TABLES]
    for table in TABLES:
        names = [column.name for column in table.columns]
        assert all(list(row) == names for row in tables[table.name])
    assert [row["epoch"] for row in tables["terms"]] == [7]
    assert {row["api"] for row in tables["requests"]} == {"UpdateMetadata"}
    assert [row["leader"] for row in tables["partitions"]] == [2]
    assert tables["violations"] == []
    assert tables["quality"] == []


def test_single_tables_may_be_asked_for(engine: Engine, tmp_path: Path) -> None:
    write_segment(tmp_path / "log", lines_of(GOOD))
    engine.ingest(Inputs((str(tmp_path / "log"),)), str(tmp_path / "out"))
    assert list(engine.tables(str(tmp_path / "out"), ["violations", "terms"])) == ["terms", "violations"]


def test_a_folder_without_facts_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no facts in .*: run `controllerctl replay ingest` first"):
        engine.tables(str(tmp_path))


def test_a_table_that_does_not_exist_is_refused(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no table 'wars': choose of .*windows"):
        engine.tables(str(tmp_path), ["wars"])


def test_an_output_on_another_host_is_refused(engine: Engine) -> None:
    with pytest.raises(ReplayError, match="is no folder of this host: choose one as --out"):
        engine.ingest(Inputs(("x",)), "s3a://bucket/out")
