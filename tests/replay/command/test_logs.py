"""Finding and reading logs: no further back than needed, and with a problem for each damage."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from controllerd.audit.segments import compress
from controllerd.core.model import TopicPartition
from controllerd.record.records import GapRecord
from replay.command.logs import NoLog, Problems, find_logs, read_logs
from replay.command.partition_history import read_history
from replay.command.why import explain
from tests.replay.command.lives import START, Life, led_by, moved, outage, written

UNPRIVILEGED: Final = (
    ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all") if os.geteuid() == 0 else ()
)
"""The superuser may read every file unless these capabilities are dropped."""


def two_terms() -> Life:
    """A term of an hour ago and one of now."""
    life = Life()
    life.second = -3600
    life.begin()
    life.end()
    life.second = -10
    life.begin(13)
    return life


def test_logs_are_found_below_a_folder(tmp_path: Path) -> None:
    first = written(outage().log, tmp_path / "a" / "prod" / "2000000000")
    second = written(outage().log, tmp_path / "b" / "prod" / "2000000001")

    assert find_logs([tmp_path]) == [first, second]
    assert find_logs([first, tmp_path / "b", second]) == [first, second]


def test_logs_behind_links_are_found_once(tmp_path: Path) -> None:
    written(outage().log, tmp_path / "disk" / "prod" / "2000000000")
    (tmp_path / "audit").mkdir()
    (tmp_path / "audit" / "here").symlink_to(tmp_path / "disk")
    (tmp_path / "audit" / "there").symlink_to(tmp_path / "audit")

    assert find_logs([tmp_path / "audit"]) == [tmp_path / "audit" / "here" / "prod" / "2000000000"]


def test_a_folder_without_a_log_is_refused_with_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(NoLog, match=r"no audit log: segments are named <boot>-<number>\.jsonl"):
        find_logs([tmp_path])
    with pytest.raises(NoLog, match="does not exist"):
        find_logs([tmp_path / "nowhere"])


@pytest.mark.parametrize("lines", [None, 1, 4])
def test_written_records_are_read_whatever_the_segments(tmp_path: Path, lines: int | None) -> None:
    life = outage()
    log = written(life.log, tmp_path / "log", lines=lines)
    problems = Problems()

    assert [record for _, record in read_logs([log], problems)] == [record for _, record in life.log]
    assert list(problems.sentences()) == []


def test_segments_before_the_last_snapshot_are_not_read(tmp_path: Path) -> None:
    life = two_terms()
    log = written(life.log, tmp_path / "log", lines=11)
    begins = [path for path in sorted(log.iterdir()) if b'"snapshot_begin"' in path.read_bytes()]
    assert len(begins) == 2
    records = list(read_logs([log], Problems(), START))

    assert len(records) < len(life.log)
    assert records[-1][1] == life.log[-1][1]
    assert {envelope.epoch for envelope, _ in records} >= {13}


def test_a_moment_before_the_second_snapshot_needs_the_first(tmp_path: Path) -> None:
    life = two_terms()
    log = written(life.log, tmp_path / "log", lines=11)

    assert len(list(read_logs([log], Problems(), START - 60_000))) == len(life.log)


def test_damaged_lines_are_left_out_and_reported(tmp_path: Path) -> None:
    life = outage()
    log = written(life.log, tmp_path / "log")
    (segment,) = log.iterdir()
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:3], b"rubbish\n", *lines[4:]]))
    problems = Problems()

    assert len(list(read_logs([log], problems))) == len(life.log) - 1
    assert list(problems.sentences()) == ["damaged lines left out: 1; controllerctl audit verify says which are lost"]


def test_a_torn_tail_is_no_problem(tmp_path: Path) -> None:
    life = outage()
    log = written(life.log, tmp_path / "log")
    (segment,) = log.iterdir()
    segment.write_bytes(segment.read_bytes()[:-5])
    problems = Problems()

    assert len(list(read_logs([log], problems))) == len(life.log) - 1
    assert list(problems.sentences()) == []


def test_a_truncated_compressed_segment_is_reported(tmp_path: Path) -> None:
    life = outage()
    log = written(life.log, tmp_path / "log")
    (segment,) = log.iterdir()
    compressed = compress(segment)
    compressed.write_bytes(compressed.read_bytes()[:-40])
    problems = Problems()

    assert len(list(read_logs([log], problems))) < len(life.log)
    assert list(problems.sentences())


def test_missing_records_are_reported(tmp_path: Path) -> None:
    life = outage()
    log = written(life.log, tmp_path / "log")
    (segment,) = log.iterdir()
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(b"".join([*lines[:5], *lines[8:]]))
    problems = Problems()

    assert len(list(read_logs([log], problems))) == len(life.log) - 3
    (sentence,) = problems.sentences()
    assert sentence.startswith("records missing: 3;")


def test_records_that_a_gap_record_declares_are_not_reported_as_missing(tmp_path: Path) -> None:
    life = outage()
    lost = life.log[4:8]
    at, _ = life.log[8]
    life.log[4:9] = [(at, GapRecord(len(lost), lost[0][0].seq, lost[-1][0].seq, "the disk was full"))]
    problems = Problems()

    assert len(list(read_logs([written(life.log, tmp_path / "log")], problems))) == len(life.log)
    assert list(problems.sentences()) == []


def test_logs_of_two_clusters_are_not_read_as_one(tmp_path: Path) -> None:
    written(outage().log, tmp_path / "a")
    written([(replace(at, cluster="test"), record) for at, record in outage().log], tmp_path / "b")

    with pytest.raises(NoLog, match=r"logs of 2 clusters: prod, as in .*a; test, as in .*b\. Give the logs of one"):
        find_logs([tmp_path])


def test_a_log_that_may_not_be_read_is_refused_by_name(tmp_path: Path) -> None:
    log = written(outage().log, tmp_path / "log")
    (segment,) = log.iterdir()
    ask = f"from pathlib import Path; from replay.command.logs import find_logs; find_logs([Path({str(tmp_path)!r})])"
    refusals = []
    for locked, kept in ((segment, 0o644), (log, 0o755)):
        locked.chmod(0)
        refusals.append(subprocess.run([*UNPRIVILEGED, sys.executable, "-c", ask], capture_output=True, check=False))
        locked.chmod(kept)

    for refusal, locked in zip(refusals, (segment, log), strict=True):
        assert f"NoLog: cannot read {locked}: " in refusal.stderr.decode()


def with_a_clock_that_jumped() -> Life:
    """The wall clock is two hours ahead for half an hour; the leader is lost 30 s before the true moment."""
    life = Life()
    for second, clock in ((-3600, -3600), (-2400, 4800), (-600, -600), (-30, -30), (120, 120)):
        life.second = second
        if second == -3600:
            life.begin()
        elif second == -30:
            life.event("BrokerChange", moved("OnlinePartition", "OfflinePartition"), led_by(-1, 41, 5))
        else:
            life.event("TopicChange")
        new = [entry for entry in life.log if entry[0].ts_ms == START + second * 1000]
        life.log[-len(new) :] = [(replace(at, ts_ms=START + clock * 1000), record) for at, record in new]
    return life


def test_a_clock_that_jumped_is_reported_and_does_not_end_the_search(tmp_path: Path) -> None:
    log = written(with_a_clock_that_jumped().log, tmp_path / "log")
    problems = Problems()
    found = read_history(TopicPartition("payments", 7), read_logs([log], problems), START)

    assert explain(found, START).sentences[0].startswith("payments-7 had no leader at 2026-01-31T03:14:00.000Z: since")
    assert [sentence.partition(":")[0] for sentence in problems.sentences()] == [
        "the clock of node 2000000000 went 2 h 00 min ahead (or its host slept) at 2026-01-31T02",
        "the clock of node 2000000000 went 2 h 00 min back at 2026-01-31T04",
    ]
    assert not problems.is_incomplete
