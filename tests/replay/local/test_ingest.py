"""Facts on disk are those of the inputs as they are now: none twice, none lost, whatever runs were interrupted."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from controllerd.audit.segments import compress
from replay.facts.engine import IngestResult, Inputs, ReplayError, ReplayProgress
from replay.ingest.ledger import Ledger
from replay.local.ingest import ingest
from tests.audit.samples import alarms
from tests.replay.local.logs import lines_of, write_segment

LINES = lines_of(alarms(6))


def seqs(out: Path) -> list[tuple[str, int]]:
    """The facts below a folder, by boot and number."""
    return sorted(
        (row["boot"], row["seq"])
        for path in out.glob("facts/*/*/*.parquet")
        for row in pq.ParquetFile(path).read().to_pylist()
    )


def run(log: Path, out: Path, **options: Any) -> IngestResult:
    """One ingest."""
    return ingest(Inputs((str(log),)), out, **options)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A folder with two segments of one boot."""
    write_segment(tmp_path / "log", LINES[:2], number=1)
    write_segment(tmp_path / "log", LINES[2:4], number=2)
    return tmp_path / "log"


@pytest.mark.parametrize("processes", [1, 2])
def test_every_line_becomes_a_fact_in_the_folder_of_its_day(log: Path, tmp_path: Path, processes: int) -> None:
    result = run(log, tmp_path / "out", processes=processes)
    assert result == IngestResult(files=2, unchanged=0, lines=4, facts=4, problems=0)
    assert seqs(tmp_path / "out") == [("boot", number) for number in range(1, 5)]
    assert len(list((tmp_path / "out").glob("facts/cluster=cluster/date=2023-11-14/*.parquet"))) == 2


def test_a_second_run_reads_only_what_is_new(log: Path, tmp_path: Path) -> None:
    run(log, tmp_path / "out")
    write_segment(log, LINES[4:], number=3)
    assert run(log, tmp_path / "out") == IngestResult(files=1, unchanged=2, lines=2, facts=2, problems=0)
    assert len(seqs(tmp_path / "out")) == 6


def test_logs_are_read_again_after_a_change_of_options(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "controller.log").write_text(
        "[2024-01-31 03:14:00,000] INFO [Controller id=1] 1 successfully elected as the controller. Epoch incremented"
        " to 3 and epoch zk version is now 3 (kafka.controller.KafkaController)\n"
    )
    inputs, out = Inputs((str(tmp_path / "logs"),)), tmp_path / "out"
    found = []
    for zone in ("UTC", "Europe/Berlin", "Europe/Berlin"):
        read = ingest(inputs._replace(log_timezone=zone), out).files
        moments = {row["ts_ms"] for path in out.glob("facts/*/*/*.parquet") for row in pq.read_table(path).to_pylist()}
        found.append((read, moments))

    assert found == [(1, {1_706_670_840_000}), (1, {1_706_667_240_000}), (0, {1_706_667_240_000})]


def test_the_facts_of_a_segment_that_has_grown_are_replaced(log: Path, tmp_path: Path) -> None:
    (log / "boot-00000002.jsonl").write_bytes(LINES[2] + LINES[3][:20])
    assert run(log, tmp_path / "out").problems == 1
    write_segment(log, LINES[2:], number=2)
    assert run(log, tmp_path / "out") == IngestResult(files=1, unchanged=1, lines=4, facts=4, problems=0)
    assert seqs(tmp_path / "out") == [("boot", number) for number in range(1, 7)]


def test_a_segment_that_was_compressed_since_is_not_there_twice(log: Path, tmp_path: Path) -> None:
    run(log, tmp_path / "out")
    compress(log / "boot-00000001.jsonl")
    run(log, tmp_path / "out")
    assert len(seqs(tmp_path / "out")) == 4
    assert run(log, tmp_path / "out").files == 0


def test_facts_of_a_day_that_a_segment_has_no_more_are_removed(log: Path, tmp_path: Path) -> None:
    run(log, tmp_path / "out")
    moved = [line.replace(b'"ts_ms":17000', b'"ts_ms":17001') for line in LINES[2:4]]
    write_segment(log, moved, number=2)
    run(log, tmp_path / "out")
    assert len(seqs(tmp_path / "out")) == 4
    assert len(list((tmp_path / "out").glob("facts/*/*"))) == 2


def test_clusters_and_unknown_clusters_have_folders_of_their_own(tmp_path: Path) -> None:
    other = [line.replace(b'"cluster":"cluster"', b'"cluster":"a/b"') for line in LINES[:1]]
    write_segment(tmp_path / "log", [b"noise\n", *other, LINES[1]])
    run(tmp_path / "log", tmp_path / "out")
    folders = {path.name for path in (tmp_path / "out" / "facts").iterdir()}
    assert folders == {"cluster=__HIVE_DEFAULT_PARTITION__", "cluster=a%2Fb", "cluster=cluster"}


def test_an_interrupted_run_keeps_complete_segments(log: Path, tmp_path: Path) -> None:
    def stop(progress: ReplayProgress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(log, tmp_path / "out", progress=stop)
    assert len(seqs(tmp_path / "out")) == 2
    assert not list((tmp_path / "out").rglob("*.tmp"))
    assert run(log, tmp_path / "out").files == 1
    assert len(seqs(tmp_path / "out")) == 4


def test_progress_is_reported_in_bytes_up_to_the_end(log: Path, tmp_path: Path) -> None:
    progress_made: list[ReplayProgress] = []
    run(log, tmp_path / "out", progress=progress_made.append)
    size = sum(len(line) for line in LINES[:4])
    assert [(one.stage, one.total, one.unit) for one in progress_made] == [("ingest", size, "bytes")] * 3
    assert [one.done for one in progress_made][-1] == size


def test_two_runs_into_one_folder_are_refused(log: Path, tmp_path: Path) -> None:
    with Ledger(tmp_path / "out"), pytest.raises(ReplayError, match="another replay is writing"):
        run(log, tmp_path / "out")


def test_a_damaged_ledger_is_refused_with_the_way_out(log: Path, tmp_path: Path) -> None:
    run(log, tmp_path / "out")
    (tmp_path / "out" / "ledger.json").write_text("{")
    with pytest.raises(ReplayError, match="delete it, and everything is read again"):
        run(log, tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_refused(log: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReplayError, match="choose another --out"):
        run(log, tmp_path / "file" / "out")
