"""``controllerctl replay run``, ``ingest`` and ``report``: from logs to a report, and the exit codes."""

import asyncio
import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from controllerd.record.invariants import LEFT_OUT_OF_SUMMARIES, SUMMARY, TITLES
from controllerd.record.records import SnapshotBegin, ZkWriteRecord
from tests.cli.running import PROGRAM, Outcome, controllerctl, outcome_of, start
from tests.record.logs import Log, busy_log, good_log, log_of
from tests.replay.command.lives import written


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(good_log(), tmp_path / "audit" / "cluster" / "2000000000")


def broken_log() -> Log:
    """The good one, with a write that is not fenced by the epoch of its term."""
    return log_of(
        [
            *(record for _, record in good_log()),
            ZkWriteRecord(11, 5002, 1.0, ["setData"], ["/brokers/topics/a/partitions/0/state"], [10], ["ok"], [11]),
        ]
    )


def summary_log() -> Log:
    """The good one as it is written at the level of the fewest records."""
    kept = [record for _, record in good_log() if type(record) not in LEFT_OUT_OF_SUMMARIES]
    return log_of([replace(one, level=SUMMARY) if isinstance(one, SnapshotBegin) else one for one in kept])


def lose_a_line(log: Path) -> None:
    """The last but two is gone."""
    (segment,) = log.iterdir()
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join(lines[:-3] + lines[-2:]))


def make_the_last_line_newer(log: Path) -> None:
    """A later version wrote it, with another schema."""
    (segment,) = log.iterdir()
    *lines, last = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines, last.replace(b'{"v":1', b'{"v":2')]))


async def replayed(*arguments: object) -> Outcome:
    return await controllerctl("replay", *map(str, arguments))


async def test_a_run_prints_the_verdict_and_the_path_of_the_report(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    outcome = await replayed("run", log, "--out", out)

    assert outcome.code == 0, outcome.err
    verdict, *files = outcome.out.splitlines()
    assert "no invariant violated; the log is complete." in verdict
    assert [file.strip() for file in files] == [str(out / f"report.{kind}") for kind in ("html", "json", "md")]
    assert await asyncio.to_thread(lambda: all(Path(file.strip()).stat().st_size for file in files))


async def test_every_table_is_in_the_report_and_in_parquet(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "report"
    await replayed("run", log, "--out", out)
    tables = json.loads((out / "report.json").read_text())["tables"]

    assert sorted(path.stem for path in (out / "tables").iterdir()) == sorted(tables)
    assert [row["records"] for row in tables["sources"]] == [len(good_log())]


async def test_a_second_run_reads_only_what_is_new(log: Path, tmp_path: Path) -> None:
    first = await replayed("run", log, "--out", tmp_path / "report", "-o", "json")
    second = await replayed("run", log, "--out", tmp_path / "report", "-o", "json")

    assert first.json()["ingested"] == {"files": 1, "unchanged": 0} | counted(first)
    assert second.json()["ingested"] == {"files": 0, "unchanged": 1, "lines": 0, "facts": 0, "problems": 0}
    assert second.json()["sentence"] == first.json()["sentence"]


def counted(outcome: Outcome) -> dict[str, int]:
    ingested = outcome.json()["ingested"]
    assert isinstance(ingested, dict)
    assert ingested["lines"] == len(good_log())
    return {name: ingested[name] for name in ("lines", "facts", "problems")}


async def test_a_violated_invariant_ends_with_1(tmp_path: Path) -> None:
    log = written(broken_log(), tmp_path / "log")
    outcome = await replayed("run", log, "--out", tmp_path / "report")

    assert outcome.code == 1
    assert "1 invariant violated" in outcome.out


@pytest.mark.parametrize("command", ["run", "ingest"])
async def test_without_the_extra_the_message_says_what_to_install(command: str, log: Path, tmp_path: Path) -> None:
    without = f"import sys; sys.modules.update(pyarrow=None, duckdb=None); {PROGRAM}"
    arguments = ["replay", command, str(log), "--out", str(tmp_path / "report")]
    outcome = await outcome_of(await start(*arguments, program=without))
    assert outcome.code == 66
    needed = "the local engine needs pyarrow and duckdb: install controllerd with the extra `replay`"
    assert outcome.err == f"controllerctl: {needed}\n"


async def test_records_that_are_missing_end_with_65(log: Path, tmp_path: Path) -> None:
    lose_a_line(log)
    outcome = await replayed("run", log, "--out", tmp_path / "report")

    assert outcome.code == 65


async def test_records_of_a_newer_schema_are_reported_and_are_no_error(log: Path, tmp_path: Path) -> None:
    make_the_last_line_newer(log)
    outcome = await replayed("run", log, "--out", tmp_path / "report")
    stated = await controllerctl("audit", "verify", str(log))
    asked = await replayed("at", log)

    assert (outcome.code, stated.code) == (0, 0)
    assert "the log is complete (1 record of a newer schema)" in outcome.out
    assert "newer schema" in (tmp_path / "report" / "report.html").read_text()
    assert "1 line was written with schema 2, this version knows 1" in stated.out
    assert "warning: 1 record is of a newer schema than this version knows" in asked.err


async def test_a_log_of_level_summary_does_not_pass_invariants_it_cannot_check(tmp_path: Path) -> None:
    brief = written(summary_log(), tmp_path / "brief")
    await replayed("run", brief, "--out", tmp_path / "one")
    other = written(log_of([record for _, record in good_log()], boot="other"), tmp_path / "other")
    await replayed("run", brief, other, "--out", tmp_path / "both")
    one, both = (json.loads((tmp_path / name / "report.json").read_text())["meta"] for name in ("one", "both"))

    checked = {invariant["id"] for invariant in one["invariants"]}
    assert "I-30" in checked
    assert "I-02" not in checked
    assert f"{len(TITLES) - len(checked)} invariants cannot be checked in logs of level summary" in one["limits"][0]
    assert {invariant["id"] for invariant in both["invariants"]} == TITLES.keys()
    assert "of level summary" in both["limits"][0]


async def test_a_folder_without_a_log_ends_with_66_and_says_what_is_expected(tmp_path: Path) -> None:
    outcome = await replayed("run", tmp_path, "--out", tmp_path / "report")

    assert outcome.code == 66
    assert "nothing to replay" in outcome.err


async def test_a_log_of_another_name_is_read_when_its_format_is_given(tmp_path: Path) -> None:
    stream = tmp_path / "kafka-0.txt"
    stream.write_text(
        "[2024-01-31 03:14:00,000] INFO [Controller id=1 epoch=3] Sending UpdateMetadata request to brokers"
        " HashSet(1) for 1 partitions (state.change.logger)\n"
    )
    refused = await replayed("run", stream, "--out", tmp_path / "report")
    read = await replayed("ingest", stream, "--out", tmp_path / "report", "--format", "kafka", "-o", "json")

    assert refused.code == 66
    assert "say what the files are with --format audit|kafka" in refused.err
    assert read.code == 0, read.err
    assert read.json()["files"] == 1


async def test_a_report_names_only_commands_that_work(log: Path, tmp_path: Path) -> None:
    kafka = Path(__file__).parents[1] / "replay" / "kafka_logs" / "data"
    await replayed("run", kafka, "--out", tmp_path / "kafka")
    await replayed("ingest", log, "--out", tmp_path / "later")
    await replayed("report", tmp_path / "later")

    assert json.loads((tmp_path / "kafka" / "report.json").read_text())["meta"]["first_ms"] > 1_700_000_000_000
    assert "Cause: broker 1 is gone" in (tmp_path / "kafka" / "report.md").read_text()
    assert "controllerctl replay at" not in (tmp_path / "kafka" / "report.md").read_text()
    assert "controllerctl replay at" not in (tmp_path / "kafka" / "report.html").read_text()
    assert json.loads((tmp_path / "later" / "report.json").read_text())["meta"]["open_with"] == [str(log)]


async def test_logs_elsewhere_need_spark(tmp_path: Path) -> None:
    outcome = await replayed("run", "s3a://logs/audit", "--engine", "local", "--out", tmp_path / "report")

    assert outcome.code == 66
    assert "--engine spark" in outcome.err


async def test_facts_first_and_the_report_later(log: Path, tmp_path: Path) -> None:
    ingested = await replayed("ingest", log, "--out", tmp_path / "facts")
    reported = await replayed("report", tmp_path / "facts")

    assert ingested.code == reported.code == 0
    assert f"lines     {len(good_log())}" in ingested.out
    assert "no invariant violated" in reported.out


async def test_a_report_without_facts_is_refused_with_advice(tmp_path: Path) -> None:
    outcome = await replayed("report", tmp_path)

    assert outcome.code == 66
    assert "controllerctl replay ingest" in outcome.err


async def test_progress_goes_to_standard_error(log: Path, tmp_path: Path) -> None:
    outcome = await replayed("run", log, "--out", tmp_path / "report")

    assert "ingest: " in outcome.err
    assert "ingest" not in outcome.out


@pytest.mark.parametrize("stage", ["ingest: 0", "tables: 0", "judge: "])
async def test_ctrl_c_ends_with_130_and_one_sentence(tmp_path: Path, stage: str) -> None:
    log = written(busy_log(20_000), tmp_path / "log")
    process = await start("replay", "run", str(log), "--out", str(tmp_path / "report"))
    assert process.stderr is not None
    while stage not in (line := (await process.stderr.readline()).decode()):
        assert line, "the command ended before it could be interrupted"
    process.send_signal(signal.SIGINT)
    outcome = await outcome_of(process)

    assert outcome.code == 130, outcome.err
    assert "Traceback" not in outcome.err
    last = outcome.err.splitlines()[-1]
    assert last == "controllerctl: interrupted: ingested facts are kept, and the same command continues from there"
