"""``controllerctl audit cat`` and ``stats``: spans of time, kinds, and sizes."""

import json
from pathlib import Path
from random import Random

import pytest

from controllerd.record.moments import moment
from tests.audit.forgery import lines_of, new_log, write
from tests.cli.documents import run

LOG = new_log(Random("a log"))
LINES = lines_of(LOG)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """A log of several boots."""
    return str(write(LOG, tmp_path / "log"))


def test_all_records_are_printed_as_they_were_written(directory: str) -> None:
    outcome = run("audit", "cat", directory, "-o", "jsonl")

    printed = [json.loads(line) for line in outcome.out.splitlines()]
    assert outcome.code == 0
    assert [(line["boot"], line["seq"]) for line in printed] == [(line.boot, line.seq) for line in LINES]


def test_a_span_leaves_out_earlier_and_later_records(directory: str) -> None:
    times = sorted(
        {json.loads(line)["ts_ms"] for line in run("audit", "cat", directory, "-o", "jsonl").out.splitlines()}
    )
    since, until = times[len(times) // 3], times[2 * len(times) // 3]

    outcome = run("audit", "cat", directory, "--from", moment(since), "--to", str(until), "-o", "jsonl")

    found = [json.loads(line)["ts_ms"] for line in outcome.out.splitlines()]
    assert found
    assert all(since <= ts_ms < until for ts_ms in found)


def test_an_empty_span_is_reported_and_is_no_error(directory: str) -> None:
    outcome = run("audit", "cat", directory, "--from", "2099-01-01T00:00:00Z")

    assert (outcome.code, outcome.out, outcome.err) == (0, "", "no such records\n")


@pytest.mark.parametrize("words", [("--from", "yesterday"), ("--kind", "nonsense")])
def test_an_invalid_span_is_wrong_usage(directory: str, words: tuple[str, str]) -> None:
    assert run("audit", "cat", directory, *words).code == 2


def test_statistics_add_up(directory: str) -> None:
    document = run("audit", "stats", directory, "-o", "json").json()
    table = run("audit", "stats", directory).out

    kinds = document["kinds"]
    assert isinstance(kinds, list)
    assert document["records"] == len(LINES) == sum(row["records"] for row in kinds)
    assert document["bytes"] == sum(row["bytes"] for row in kinds)
    assert document["boots"] == sorted({line.boot for line in LINES})
    assert f"{document['segments']} segment" in table
    names = [row["kind"] for row in kinds]
    assert set(names) == {json.loads(line.data)["kind"] for line in LINES}
    assert names == run("audit", "stats", directory, "-o", "name").out.split()


def test_no_log_is_no_input(tmp_path: Path) -> None:
    assert run("audit", "stats", str(tmp_path)).code == 66
    assert run("audit", "cat", str(tmp_path / "none")).code == 66
