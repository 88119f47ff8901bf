"""``controllerctl replay run`` with Spark, as an operator calls it."""

import signal
from pathlib import Path

import anyio
import pytest

from replay.facts.engine import Inputs, ReplayError, silent
from replay.job.follow import CHECKPOINT
from replay.local.engine import LocalEngine
from replay.run import Options, conclude
from tests.cli.running import controllerctl, outcome_of, start
from tests.job.test_engine import lines_in
from tests.record.logs import good_log
from tests.replay.local.logs import write_segment

GOOD = lines_in("good", good_log())


def children_of(process: int) -> list[str]:
    return Path(f"/proc/{process}/task/{process}/children").read_text().split()


def are_running(processes: list[str]) -> bool:
    return any(Path(f"/proc/{process}").exists() for process in processes)


async def test_following_without_spark_is_refused(tmp_path: Path) -> None:
    command = ("replay", "run", str(tmp_path), "--engine", "local", "--follow", "--out", str(tmp_path / "out"))
    outcome = await controllerctl(*command)
    assert outcome.code == 2
    assert "--follow needs Spark: use --engine spark" in outcome.err


def test_a_report_into_an_object_store_is_refused() -> None:
    options = Options(Inputs(()), "s3a://bucket/out")
    with pytest.raises(ReplayError, match="cannot be written to s3a://bucket/out: choose a folder"):
        conclude(LocalEngine(), "local", options, None, silent)


@pytest.mark.real
@pytest.mark.timeout(500)
async def test_a_run_that_follows_ends_by_a_signal_with_its_verdict(tmp_path: Path) -> None:
    write_segment(tmp_path / "log", GOOD)
    out = tmp_path / "out"
    process = await start("replay", "run", str(tmp_path / "log"), "--follow", "--every", "300", "--out", str(out))
    while not list(out.glob(f"{CHECKPOINT}/*/commits/0")):
        assert process.returncode is None, await outcome_of(process)
        await anyio.sleep(0.1)
    process.send_signal(signal.SIGTERM)
    outcome = await outcome_of(process)
    assert outcome.code == 0, outcome.err
    assert "no invariant violated; the log is complete." in outcome.out
    assert (out / "report.html").exists()


@pytest.mark.real
@pytest.mark.timeout(500)
async def test_ctrl_c_while_spark_starts_ends_it_and_leaves_nothing_running(tmp_path: Path) -> None:
    write_segment(tmp_path / "log", GOOD)
    command = ("replay", "run", str(tmp_path / "log"), "--engine", "spark", "--out", str(tmp_path / "out"))
    process = await start(*command)
    while not (children := children_of(process.pid)):
        assert process.returncode is None, await outcome_of(process)
        await anyio.sleep(0.02)
    process.send_signal(signal.SIGINT)
    outcome = await outcome_of(process)
    assert outcome.code == 130, outcome.err
    assert "Traceback" not in outcome.err
    assert any(line.startswith("controllerctl: interrupted: ") for line in outcome.err.splitlines())
    while are_running(children):
        assert process.returncode == 130
        await anyio.sleep(0.02)
