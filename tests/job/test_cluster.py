"""The zip on a cluster: one master and two workers give the tables that one process gives."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from replay.facts.engine import Inputs
from replay.facts.tables import TABLES
from replay.job.package import write_package
from replay.local.engine import LocalEngine
from replay.report.writer import write_parquet
from tests.job.cluster import SparkCluster, running_cluster
from tests.job.test_engine import KAFKA, write_logs

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """One master, two workers."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), workers=2) as running:
        yield running


def test_a_submitted_job_gives_the_tables_of_one_process(cluster: SparkCluster, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs")
    inputs = (str(tmp_path / "logs"), str(KAFKA))
    plain, out = LocalEngine(), tmp_path / "out"
    plain.ingest(Inputs(inputs, cluster="kafka"), str(tmp_path / "plain"))
    write_parquet(plain.tables(str(tmp_path / "plain")), tmp_path / "expected")

    package = write_package(tmp_path / "package")
    job = ["--py-files", str(package.zip), str(package.main)]
    submitted = cluster.submit([*job, "--input", *inputs, "--cluster", "kafka", "--out", str(out)])
    assert submitted.returncode == os.EX_DATAERR, submitted.stderr
    assert json.loads((out / "report.json").read_text())["meta"]["engine"] == "spark"
    folders = (out / "tables", tmp_path / "expected")
    for table in TABLES:
        written, expected = (pq.read_table(folder / f"{table.name}.parquet") for folder in folders)
        assert written.equals(expected), table.name
    assert len(cluster.executors()) == 2
