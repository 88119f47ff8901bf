"""The job as a command: its arguments, the files that it writes, and its exit code."""

import json
import os
import signal
import time
from pathlib import Path
from threading import Thread

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from replay.facts.tables import TABLES
from replay.job.follow import CHECKPOINT
from replay.job.main import main
from tests.cli.test_replay_run import broken_log
from tests.job.test_engine import lines_in
from tests.record.logs import Log, good_log
from tests.replay.local.logs import write_segment

pytestmark = pytest.mark.timeout(400)
GOOD = lines_in("good", good_log())
WITH_A_HOLE = [*good_log()[:-3], *good_log()[-2:]]
NAMES = sorted(table.name for table in TABLES)


def printed_errors(capsys: pytest.CaptureFixture[str]) -> str:
    """The standard error of the job; standard output must be empty."""
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err


@pytest.mark.real
def test_a_clean_log_ends_with_0_and_leaves_a_report_and_every_table(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_segment(tmp_path / "log", GOOD)
    out = tmp_path / "out"
    assert main(["--input", str(tmp_path / "log"), "--out", str(out)], spark) == 0
    assert "no invariant violated; the log is complete" in printed_errors(capsys)
    assert sorted(path.stem for path in (out / "tables").iterdir()) == NAMES
    assert sorted(json.loads((out / "report.json").read_text())["tables"]) == NAMES
    assert pq.read_table(out / "tables" / "sources.parquet").column("records").to_pylist() == [len(GOOD)]
    assert all((out / name).stat().st_size for name in ("report.html", "report.md"))


@pytest.mark.real
@pytest.mark.parametrize(
    ("log", "options", "code"),
    [(broken_log(), [], 1), (WITH_A_HOLE, ["--max-damage", "0"], 65), (WITH_A_HOLE, ["--max-damage", "9"], 1)],
    ids=["violated", "damaged", "violated, and damaged as much as it may be"],
)
def test_the_exit_code_follows_from_violations_and_damage(
    spark: SparkSession, tmp_path: Path, log: Log, options: list[str], code: int
) -> None:
    write_segment(tmp_path / "log", lines_in("one", log))
    assert main(["--input", str(tmp_path / "log"), "--out", str(tmp_path / "out"), *options], spark) == code


def test_a_folder_with_no_log_ends_with_66_and_says_what_is_expected(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--input", str(tmp_path), "--out", str(tmp_path / "out")], spark) == 66
    assert "has nothing to replay" in printed_errors(capsys)


@pytest.mark.parametrize("wrong", [["--every", "0"], ["--every", "nan"], ["--format", "xml"], []])
def test_wrong_usage_ends_with_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--input", "log", *wrong])
    assert end.value.code == 2
    assert "usage: replay_main.py" in printed_errors(capsys)


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_following_after_the_current_round(
    spark: SparkSession, tmp_path: Path, number: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    write_segment(tmp_path / "log", GOOD)
    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)

    def end_it() -> None:
        while not list(out.glob(f"{CHECKPOINT}/*/commits/0")):
            time.sleep(0.05)
        os.kill(os.getpid(), number)

    ending = Thread(target=end_it)
    ending.start()
    assert main(["--input", str(tmp_path / "log"), "--out", str(out), "--follow", "--every", "300"], spark) == 0
    ending.join()
    assert "no invariant violated" in printed_errors(capsys)
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
