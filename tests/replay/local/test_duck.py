"""DuckDB over facts in files: within its bounds, and with a clear message for each failure."""

import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from replay.facts.engine import ReplayError, ReplayProgress
from replay.facts.tables import BY_NAME
from replay.ingest.fact_files import FactFiles
from replay.local.duck import attempts, duck, in_duckdb
from replay.sql.queries import QUERIES
from tests.replay.sql.book import Book, answer, columns

CALCULATED = [name for name in BY_NAME if name in QUERIES]


@contextmanager
def no_file_above(size: int) -> Iterator[None]:
    """Files of this process cannot grow above ``size`` bytes: for DuckDB the disk is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def book(cluster: str | None = "c") -> Book:
    """A log with a window."""
    return Book(cluster=cluster).snapshot(("t-0", 1)).done().at(50).leads("t-0", -1, 1).at(60).leads("t-0", 1, 1)


def write(out: Path, facts: pa.Table, source: str = "log") -> Path:
    """The facts as ingest leaves them."""
    with FactFiles(out, source) as files:
        for batch in facts.to_batches():
            files.write(batch)
    return out / "facts"


def test_files_give_the_same_tables_as_memory(tmp_path: Path) -> None:
    facts = book().table()
    with duck() as opened:
        opened.read(write(tmp_path, facts))
        assert opened.tables(["windows"])["windows"] == answer(facts, "windows") != []


def test_many_files_are_read_once(tmp_path: Path) -> None:
    for number in range(200):
        write(tmp_path, book(f"cluster {number}").table(), f"log {number}")
    with duck() as opened:
        opened.read(tmp_path / "facts")
        shutil.rmtree(tmp_path / "facts")
        assert len(opened.tables(["windows"])["windows"]) == 200


def test_one_thread_is_tried_before_more_memory_and_nothing_is_tried_twice() -> None:
    assert attempts(2, 512) == [(2, 96), (1, 96), (1, 192), (1, 384), (1, 512)]
    assert attempts(1, 200, files=100) == [(1, 89.6), (1, 179.2), (1, 200)]
    assert attempts(1, 64) == [(1, 64)]


def test_a_copy_of_files_whose_last_rows_need_more_memory_gets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.local.duck._AT_FIRST_MB", 16)
    log = Book()
    for number in range(200):
        log.leads(f"t-{number}", 1, 1)
    facts = log.table()
    for number in range(200):
        write(tmp_path, facts, f"log {number}")
    with duck(threads=1) as opened:
        opened.read(tmp_path / "facts")
        assert columns(opened.tables(["sources"])["sources"], "cluster") == [("c",)]


@pytest.mark.parametrize("cluster", ["42", "2024-01-31", "true", "a b/c=d%&'", None])
def test_the_name_of_a_cluster_is_kept_as_text(tmp_path: Path, cluster: str | None) -> None:
    with duck() as opened:
        opened.read(write(tmp_path / "it's here", Book(cluster=cluster).add("gap", reason="x").table()))
        assert columns(opened.tables(["quality"])["quality"], "cluster", "what") == [(cluster, "gap")]


def test_a_folder_named_like_a_pattern_is_that_folder(tmp_path: Path) -> None:
    for name in ("1", "[1]", "a*?", "ab?"):
        write(tmp_path / name, Book(cluster=name).add("gap", reason="x").table())
    for name in ("[1]", "a*?"):
        with duck() as opened:
            opened.read(tmp_path / name / "facts")
            assert columns(opened.tables(["quality"])["quality"], "cluster") == [(name,)]


def test_every_table_has_the_columns_and_types_that_it_promises() -> None:
    types = {"string": str, "int": int, "long": int, "bool": bool, "ints": list}
    with duck() as opened:
        opened.take(book().event(3, "E").done().table())
        found = opened.tables(CALCULATED)
    assert list(found) == [name for name in QUERIES if name in BY_NAME]
    for name, rows in found.items():
        for row in rows:
            assert list(row) == [column.name for column in BY_NAME[name].columns]
            for column in BY_NAME[name].columns:
                assert row[column.name] is None or type(row[column.name]) is types[column.type], (name, column)


def test_a_full_disk_is_reported_with_advice(tmp_path: Path) -> None:
    with duck(tmp_path) as opened:
        opened.take(book().table())
        with no_file_above(20 * 1024), pytest.raises(ReplayError, match="File too large; free disk beside the facts"):
            opened.tables(CALCULATED)


def test_a_scratch_folder_that_cannot_be_written_is_reported_with_advice(tmp_path: Path) -> None:
    with no_file_above(1), pytest.raises(ReplayError, match=r"table scratch: .*; free disk"), duck(tmp_path):
        pass


def test_missing_facts_are_reported_with_advice(tmp_path: Path) -> None:
    with duck() as opened, pytest.raises(ReplayError, match="run `controllerctl replay ingest` first"):
        opened.read(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "cluster=c" / "date=2024-01-31"
    folder.mkdir(parents=True)
    (folder / "a.parquet").write_bytes(b"no parquet, but long enough to be looked at")
    with duck() as opened, pytest.raises(ReplayError, match=r"a\.parquet.*delete it and ingest again"):
        opened.read(tmp_path)


def test_too_little_memory_is_reported_with_advice() -> None:
    facts = pa.concat_tables([book(f"c{number}").table() for number in range(200)])
    with duck(memory_mb=2, threads=1) as opened:
        opened.take(facts)
        with pytest.raises(ReplayError, match="give it more memory"):
            opened.tables(CALCULATED)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_query_that_needs_more_memory_gets_it(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replay.local.duck._AT_FIRST_MB", 2)
    facts = pa.concat_tables([book(f"c{number}").table() for number in range(200)])
    with duck(threads=threads) as opened:
        opened.take(facts)
        assert len(opened.tables(CALCULATED)["windows"]) == 200 * len(answer(book("c").table(), "windows"))


def test_a_table_that_conflicts_with_a_failed_attempt_is_created_by_the_next_attempt() -> None:
    count = 0
    with duck() as opened:
        earlier = opened._db.cursor()
        earlier.execute("BEGIN")
        earlier.execute("CREATE TABLE sums AS SELECT 1 AS sum")

        def create() -> None:
            nonlocal count
            count += 1
            if count == 2:
                earlier.execute("ROLLBACK")
            opened._db.execute("CREATE TABLE sums AS SELECT 2 AS sum")

        opened._retried(create)
        assert opened._db.execute("FROM sums").fetchall() == [(2,)]
    assert count == 2


def test_a_conflict_that_every_attempt_meets_is_refused_with_the_name_of_the_table() -> None:
    with duck() as opened:
        opened.take(book().table())
        earlier = opened._db.cursor()
        earlier.execute("BEGIN")
        earlier.execute("CREATE TABLE quality AS SELECT 1 AS one")
        with pytest.raises(ReplayError, match=r"^table quality: .*write-write conflict.*give it more memory"):
            opened.tables(["quality"])


def test_a_long_table_keeps_its_most_important_rows_and_counts_the_others() -> None:
    log = Book().snapshot(("t-0", 1), ("t-1", 1)).done()
    for start, length in ((100, 5), (200, 50), (300, 20)):
        log.at(start).leads("t-0", -1, 1).at(start + length).leads("t-0", 1, 1)
    log.at(400).leads("t-1", -1, 1)
    with duck() as opened:
        opened.take(log.table())
        windows, sums = opened.tables(["windows", "topic_windows"], most=2).values()
    assert columns(windows, "topic", "partition", "duration_us") == [("t", 0, 50_000), ("t", 1, None)]
    assert windows.left_out == 2
    assert columns(sums, "windows") == [(4,)]


def test_progress_counts_queries_up_to_the_last(tmp_path: Path) -> None:
    seen: list[ReplayProgress] = []
    with duck(tmp_path) as opened:
        opened.take(book().table())
        opened.tables(["topic_windows"], seen.append)
    assert [progress.done for progress in seen] == list(range(len(seen)))
    assert seen[-1].done == seen[-1].total > 1
    assert list(tmp_path.iterdir()) == []


def test_results_are_dropped_after_their_last_reader() -> None:
    with duck() as opened:
        opened.take(book().table())
        first = opened.tables(["windows", "heat", "churn"])
        assert opened.tables(["windows", "churn"])["churn"] == first["churn"]


def test_last_value_is_written_in_the_syntax_of_duckdb() -> None:
    text = "SELECT LAST_VALUE(CASE WHEN f(a) = 'b' THEN c END) IGNORE NULLS OVER w, LAST_VALUE(d) IGNORE NULLS OVER w"
    assert in_duckdb(text) == (
        "SELECT LAST_VALUE(CASE WHEN f(a) = 'b' THEN c END IGNORE NULLS) OVER w, LAST_VALUE(d IGNORE NULLS) OVER w"
    )
