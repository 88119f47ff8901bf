"""The fold reads only the records after the last complete snapshot."""

import re
from pathlib import Path

from pyspark.sql import SparkSession

from replay.facts.engine import Inputs
from replay.job.frames import facts_of
from replay.job.partitions import _starts, partitions
from replay.local.engine import LocalEngine
from tests.job.test_engine import OTHER_NODE, lines_in, of_node
from tests.record.logs import good_log
from tests.replay.local.logs import write_segment


def plan(spark: SparkSession, out: Path) -> str:
    """The physical plan of the fold."""
    frame = partitions(facts_of(spark, str(out)), 2)
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_records_before_the_last_snapshot_are_not_read(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "log", lines_in("one", [*good_log(), *of_node(good_log(), OTHER_NODE, "later", 9)]))
    LocalEngine().ingest(Inputs((str(tmp_path / "log"),)), str(tmp_path / "out"))
    assert re.search(r"epoch#\d+ > 9\)", plan(spark, tmp_path / "out"))


def test_a_cluster_without_a_snapshot_is_folded_from_its_beginning(spark: SparkSession, tmp_path: Path) -> None:
    later = of_node(good_log(), OTHER_NODE, "later", 9)
    write_segment(tmp_path / "log" / "one", lines_in("one", later))
    endless = [entry for entry in good_log() if entry[1].kind != "snapshot_end"]
    write_segment(tmp_path / "log" / "two", lines_in("two", endless))
    LocalEngine().ingest(Inputs((str(tmp_path / "log"),)), str(tmp_path / "out"))
    facts = facts_of(spark, str(tmp_path / "out"))
    assert _starts(facts).keys() == {"one"}
