"""The log that a replay is measured with is valid: it folds, breaks no invariant, and its chain is sound."""

from pathlib import Path

from bench.replay.generate import CLUSTER, NODES, generate
from bench.replay.story import BROKERS, PARTITIONS, TOPICS
from controllerd.audit.reader import verify
from controllerd.audit.segments import list_segments, log_directory
from replay.local.log_tables import tables_from_logs


def test_a_generated_log_is_valid(tmp_path: Path) -> None:
    written = generate(tmp_path, 20_000, compressed=False, boot_records=7_000)
    folders = [log_directory(tmp_path, CLUSTER, node) for node in NODES]
    reports = [verify(folder) for folder in folders]
    assert [report.findings for report in reports] == [(), ()]
    assert sum(report.lines for report in reports) == written
    assert 20_000 <= written < 40_000

    tables = tables_from_logs([path for folder in folders for path in folder.glob("*.jsonl")], processes=1)
    assert tables["violations"] == []
    assert len(tables["partitions"]) == TOPICS * PARTITIONS
    assert {row["leader"] for row in tables["partitions"]} == set(BROKERS)


def test_closed_segments_are_compressed_if_asked_for(tmp_path: Path) -> None:
    generate(tmp_path, 2_000, compressed=True)
    segments = list_segments(log_directory(tmp_path, CLUSTER, NODES[1]))
    assert segments
    assert all(segment.is_compressed for segment in segments)
