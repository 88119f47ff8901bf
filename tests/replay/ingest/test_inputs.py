"""The logs that a path names, and the refusal where it names none."""

from pathlib import Path

import pytest

from controllerd.audit.segments import compress
from replay.facts.engine import ReplayError
from replay.ingest.inputs import find_sources
from tests.audit.samples import alarms
from tests.replay.local.logs import lines_of, write_segment


def names_of(*places: str | Path, log_format: str | None = None) -> list[tuple[str, str]]:
    """The names and formats of the files that are found."""
    return [(source.path.name, source.format) for source in find_sources([str(p) for p in places], log_format)]


def segment(folder: Path, number: int = 1, boot: str = "boot") -> Path:
    """A small segment."""
    return write_segment(folder, lines_of(alarms(1)), boot=boot, number=number)


def test_a_folder_gives_its_segments_and_nothing_else(tmp_path: Path) -> None:
    segment(tmp_path / "c" / "1", 1)
    compress(segment(tmp_path / "c" / "1", 2))
    (tmp_path / "c" / "1" / "lock").write_text("boot")
    assert names_of(tmp_path) == [("boot-00000001.jsonl", "audit"), ("boot-00000002.jsonl.zst", "audit")]


def test_a_cluster_whose_id_begins_with_an_underscore_is_no_hidden_folder(tmp_path: Path) -> None:
    segment(tmp_path / "_v5AJ76IRMC40iZJUBVaJQ" / "2000000000")
    segment(tmp_path / "_temporary" / "0")
    segment(tmp_path / ".trash")
    assert names_of(tmp_path) == [("boot-00000001.jsonl", "audit")]


def test_a_partitioned_tree_is_a_folder_like_others(tmp_path: Path) -> None:
    for date in ("date=2026-01-30", "date=2026-01-31"):
        segment(tmp_path / "cluster=a" / date)
    assert len(names_of(tmp_path)) == 2


def test_a_segment_is_not_read_twice_while_it_is_being_compressed(tmp_path: Path) -> None:
    path = segment(tmp_path)
    content = path.read_bytes()
    compress(path)
    path.write_bytes(content)
    assert names_of(tmp_path) == [("boot-00000001.jsonl", "audit")]


def test_kafka_logs_are_known_by_name(tmp_path: Path) -> None:
    for name in (
        "state-change.log",
        "state-change.log.2026-01-31-03",
        "controller.log",
        "server.log",
        "kafkaServer-gc.log",
    ):
        (tmp_path / name).write_text("x\n")
    found = [name for name, kind in names_of(tmp_path) if kind == "kafka"]
    assert {"state-change.log", "state-change.log.2026-01-31-03", "controller.log", "server.log"} <= set(found)


def test_files_globs_and_folders_overlap_without_harm(tmp_path: Path) -> None:
    path = segment(tmp_path)
    segment(tmp_path, 2)
    assert len(names_of(path, tmp_path / "*.jsonl", tmp_path, f"file://{tmp_path}", f"file:{tmp_path}")) == 2


def test_folders_behind_links_are_found_and_none_twice(tmp_path: Path) -> None:
    segment(tmp_path / "disk" / "audit")
    (tmp_path / "audit" / "prod").mkdir(parents=True)
    (tmp_path / "audit" / "prod" / "log").symlink_to(tmp_path / "disk")
    (tmp_path / "audit" / "again").symlink_to(tmp_path / "audit")
    assert names_of(tmp_path / "audit") == [("boot-00000001.jsonl", "audit")]


def test_standard_input_has_to_be_a_file() -> None:
    with pytest.raises(ReplayError, match="standard input is not read: save it as a file"):
        names_of("-")


def test_a_segment_by_another_name_is_known_by_its_content(tmp_path: Path) -> None:
    path = segment(tmp_path).rename(tmp_path / "copy.txt")
    assert names_of(path) == [("copy.txt", "audit")]
    other = compress(segment(tmp_path)).rename(tmp_path / "copy.bin")
    assert names_of(other) == [("copy.bin", "audit")]


def test_a_format_may_be_named(tmp_path: Path) -> None:
    path = tmp_path / "whatever.txt"
    path.write_text("x\n")
    assert names_of(path, log_format="kafka") == [("whatever.txt", "kafka")]


@pytest.mark.parametrize(
    ("place", "says"),
    [
        ("missing", r"cannot read .*missing: No such file or directory"),
        ("*.jsonl", r"nothing matches .*\*\.jsonl: check the pattern"),
        (
            "other.txt",
            r"is not the name of a log.*Expected: segments of the audit log.*--format audit\|kafka",
        ),
        ("empty", r"nothing to replay: it is empty"),
        ("full", r"found 5 file\(s\) of other kinds \(0\.txt, 1\.txt, 2\.txt, \.\.\.\)"),
    ],
)
def test_a_refusal_names_the_files_found_and_gives_advice(tmp_path: Path, place: str, says: str) -> None:
    (tmp_path / "other.txt").write_text("hello\n")
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    for number in range(5):
        (tmp_path / "full" / f"{number}.txt").write_text("hello\n")
    with pytest.raises(ReplayError, match=says):
        names_of(tmp_path / place)


def test_places_of_other_hosts_are_for_another_engine() -> None:
    with pytest.raises(ReplayError, match="--engine spark"):
        names_of("hdfs://name/audit")


def test_a_format_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ReplayError, match="no format 'xml': choose one of audit, kafka"):
        names_of(tmp_path, log_format="xml")


def test_no_path_is_refused() -> None:
    with pytest.raises(ReplayError, match="nothing to read"):
        find_sources([])
