"""Spark gives the very rows that the plain engine gives."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from pyspark.sql import SparkSession

from controllerd.audit.lines import GENESIS, digest, encode_line
from controllerd.audit.segments import compress
from replay.facts.engine import Inputs, ReplayError, Rows
from replay.facts.tables import TABLES
from replay.job.engine import SparkEngine
from replay.job.partitions import LogMoment
from replay.local.engine import LocalEngine
from tests.record.logs import Log, busy_log, good_log
from tests.record.true_logs import true_log
from tests.replay.local.logs import write_segment

pytestmark = pytest.mark.timeout(400)  # every query of the analysis is planned and run for its few rows
KAFKA: Final = Path(__file__).parents[1] / "replay" / "kafka_logs" / "data"
OTHER_NODE: Final = 2_000_000_001


@dataclass(frozen=True)
class Compared:
    """The tables of both engines over the same logs."""

    plain: dict[str, Rows]
    spark: dict[str, Rows]
    out: str
    logs: Path


def lines_in(cluster: str, log: Log) -> list[bytes]:
    """A log as the lines of some cluster."""
    head, lines = GENESIS, []
    for envelope, record in log:
        line = encode_line(replace(envelope, cluster=cluster, prev=head), record)
        head = digest(line)
        lines.append(line + b"\n")
    return lines


def of_node(log: Log, node: int, boot: str, epoch: int) -> Log:
    """The log as another node wrote it in another epoch, later."""
    return [
        (replace(envelope, node=node, boot=boot, epoch=epoch, ts_ms=envelope.ts_ms + epoch * 60_000), record)
        for envelope, record in log
    ]


def write_logs(folder: Path) -> None:
    """Logs of many kinds, each of a cluster of its own."""
    write_segment(folder / "good", lines_in("good", good_log()))
    for seed in (1, 5):
        write_segment(folder / f"true-{seed}", lines_in(f"true-{seed}", true_log(seed)))
    busy = lines_in("busy", busy_log(1500))
    write_segment(folder / "busy", busy[:700])
    compress(write_segment(folder / "busy", busy[700:], number=2))
    broken = lines_in("broken", busy_log(600))
    broken[300] = b"{ no line of the log\n"
    write_segment(folder / "broken", [*broken[:400], *broken[390:500], *broken[520:], b'{"v":1,"ki'])
    write_segment(folder / "wrong", lines_in("wrong", [entry for entry in good_log() if entry[0].seq not in (15, 31)]))
    write_segment(folder / "first", lines_in("two-nodes", good_log()))
    second = [*of_node(good_log(), OTHER_NODE, "second", 8), *of_node(good_log(), OTHER_NODE, "third", 9)]
    write_segment(folder / "second", lines_in("two-nodes", second), boot="second")


@pytest.fixture(scope="module")
def compared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """All logs through both engines."""
    folder = tmp_path_factory.mktemp("compared")
    write_logs(folder / "logs")
    inputs = Inputs((str(folder / "logs"), str(KAFKA)), cluster="kafka")
    tables = []
    for engine in (LocalEngine(), SparkEngine(spark)):
        out = str(folder / type(engine).__name__)
        engine.ingest(inputs, out)
        tables.append(engine.tables(out))
    return Compared(tables[0], tables[1], str(folder / SparkEngine.__name__), folder / "logs")


@pytest.mark.parametrize("name", [table.name for table in TABLES])
def test_a_table_has_the_rows_of_the_plain_engine(compared: Compared, name: str) -> None:
    assert compared.spark[name] == compared.plain[name]


def test_the_logs_fill_every_table_that_they_should(compared: Compared) -> None:
    assert [name for name, rows in compared.plain.items() if not rows] == []


def test_of_a_table_that_grows_with_the_log_both_engines_keep_and_count_the_same_rows(
    compared: Compared, spark: SparkSession
) -> None:
    names = [table.name for table in TABLES if table.keeps]
    plain = LocalEngine(most=3).tables(compared.out.replace("SparkEngine", "LocalEngine"), names)
    job = SparkEngine(spark, most=3).tables(compared.out, names)
    assert job == plain
    for name in names:
        every = compared.plain[name]
        assert (len(plain[name]), plain[name].left_out) == (min(3, len(every)), max(0, len(every) - 3)), name
        assert job[name].left_out == plain[name].left_out
        assert [row for row in every if row in plain[name]] == plain[name]


def test_files_that_hadoop_opens_give_the_same_facts(compared: Compared, engine: SparkEngine, tmp_path: Path) -> None:
    paths = tuple(f"file:{compared.logs / name}" for name in ("busy", "broken"))
    ingested = engine.ingest(Inputs(paths), str(tmp_path))
    names = ("sources", "quality", "violations", "partitions")
    tables = engine.tables(str(tmp_path), names)
    assert ingested.files == 3
    for name in names:
        assert tables[name] == [row for row in compared.plain[name] if row["cluster"] in {"busy", "broken"}]


def test_a_second_ingest_reads_only_what_has_grown(engine: SparkEngine, tmp_path: Path) -> None:
    lines = lines_in("grown", good_log())
    inputs, out = Inputs((str(tmp_path / "log"),)), str(tmp_path / "out")
    write_segment(tmp_path / "log", lines[:20])
    write_segment(tmp_path / "log", lines, number=2)
    assert engine.ingest(inputs, out)[:2] == (2, 0)
    write_segment(tmp_path / "log", lines[:25])
    assert engine.ingest(inputs, out)[:3] == (1, 1, 25)


def test_the_partitions_of_an_earlier_moment(compared: Compared, engine: SparkEngine) -> None:
    began = good_log()[0][0].ts_ms
    before = engine.partitions_at(compared.out, LogMoment(time_ms=began + 14))
    at = engine.partitions_at(compared.out, LogMoment(seq=16))
    assert [row["leader"] for row in before if row["cluster"] == "good"] == [1]
    assert [(row["leader"], row["isr"]) for row in at if row["cluster"] == "good"] == [(2, [2])]


def test_a_folder_without_facts_is_refused(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match=r"no facts in .*: run `controllerctl replay ingest` first"):
        engine.tables(str(tmp_path))


def test_a_table_that_does_not_exist_is_refused(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no table 'wars': choose of"):
        engine.tables(str(tmp_path), ["wars"])


def test_an_output_that_hosts_do_not_share_is_refused(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="choose a folder that they share"):
        engine.ingest(Inputs((str(tmp_path),)), "s3a://bucket/out")
