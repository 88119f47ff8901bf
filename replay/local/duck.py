"""The tables of a replay, calculated by DuckDB in this process.

DuckDB gets bounded memory. Rows that do not fit into it are written to scratch files.

A query begins with little memory and gets more if it needs it. DuckDB reports a lack of memory in three forms: as
``OutOfMemoryException``; as a failed commit, when the last rows of a table did not fit; and as a conflict with the
table of the same name that a failed attempt has not cleared away yet. No other process writes to the scratch files, so
such a conflict has no other cause. All three lead to the next attempt.
"""

import glob
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from replay.facts.engine import CHUNK, OnProgress, ReplayError, ReplayProgress, Rows, silent
from replay.facts.tables import BY_NAME, MOST_ROWS, Table
from replay.sql.queries import QUERIES, needed, readers

T = TypeVar("T")

MEMORY_MB: Final = 512
_AT_FIRST_MB: Final = 96
"""The memory of a first attempt. It suffices for nearly every query, however long the log is: DuckDB writes to disk
early and evenly.
"""
_FILE_MB: Final = 0.064
"""The memory that DuckDB takes besides, for each file that a query reads, while the query lasts."""
_MACROS: Final = (
    "CREATE MACRO get_json_object(document, path) AS json_extract_string(document, path)",
    "CREATE MACRO array_join(texts, separator) AS array_to_string(texts, separator)",
    "CREATE MACRO array_except(these, others) AS list_filter(these, lambda one: NOT list_contains(others, one))",
    "CREATE MACRO xxhash64(one, other) AS CAST(hash(one, other) >> 1 AS BIGINT)",
)
_LAST_KNOWN: Final = re.compile(r"(LAST_VALUE\((?:[^()]|\([^()]*\))*)\) IGNORE NULLS")
_INTERRUPTED: Final = "Query interrupted"
_LACKS_MEMORY: Final = re.compile(r"failed to (pin|allocate)|could not allocate|Catalog write-write conflict on create")
_GLOB: Final = "cluster=*/date=*/*.parquet"
_MANY_FILES: Final = 200
"""From this number of files on, opening them for every query takes longer than a copy. A log that is rotated by the
hour has as many.
"""


class Duck:
    """One connection over the facts of one folder or table; closed after use."""

    def __init__(self, scratch: Path, *, memory_mb: int = MEMORY_MB, threads: int = 2) -> None:
        """
        :param scratch: an empty folder for rows that memory does not hold
        :param memory_mb: the most that DuckDB may take
        :raises ReplayError: the folder cannot be written
        """
        self._memory_mb = memory_mb
        self._threads = threads
        self._files = 0
        with _refusals("scratch"):
            self._db = duckdb.connect(scratch / "tables.duckdb")
        self._db.execute("SET temp_directory = $folder", {"folder": str(scratch / "spill")})
        self._db.execute("SET preserve_insertion_order = false")
        self._db.execute("SET enable_progress_bar = false")  # DuckDB draws it in an interactive Python
        for macro in _MACROS:
            self._db.execute(macro)

    def read(self, facts: Path) -> None:
        """Read the facts from the Parquet files below this folder: many files once, a few again for each query.

        :raises ReplayError: there is no file, or one cannot be read; the text says what to do
        """
        some = sum(1 for _ in islice(facts.glob(_GLOB), _MANY_FILES))
        if not some:
            raise ReplayError(f"there are no facts in {facts}: run `controllerctl replay ingest` first")
        # A cluster may be named like a number or a day, so no type is guessed from the names of folders.
        # All files have the same columns: comparing them would keep every one of them open.
        options = "hive_partitioning = true, hive_types_autocast = false"
        self._files = some if some < _MANY_FILES else 0  # of a copy, no query reads files
        files = f"{glob.escape(str(facts))}/{_GLOB}".replace("'", "''")
        with _refusals("facts"):
            kind = "TABLE" if some == _MANY_FILES else "VIEW"
            self._execute(f"CREATE {kind} facts AS SELECT * FROM read_parquet('{files}', {options})")  # noqa: S608

    def take(self, facts: pa.Table) -> None:
        """Take the facts from memory."""
        self._db.register("facts", facts)

    def tables(
        self, names: Collection[str], progress: OnProgress = silent, *, most: int = MOST_ROWS
    ) -> dict[str, Rows]:
        """Calculate these tables, each in the order of its ``sort``; ``progress`` counts queries.

        :param most: the most rows of a table that grows with the log
        :raises ReplayError: memory or disk did not suffice; the text says what to do
        """
        found: dict[str, Rows] = {}
        waiting = readers(names)
        steps = needed(names)
        for number, name in enumerate(steps):
            progress(ReplayProgress("tables", number, len(steps), "queries"))
            with _refusals(name):
                self._execute(f"CREATE TABLE {name} AS {in_duckdb(QUERIES[name])}")
                if name in names:
                    found[name] = self._rows(BY_NAME[name], most)
                self._drop_unread(name, waiting)
        progress(ReplayProgress("tables", len(steps), len(steps), "queries"))
        return found

    def _drop_unread(self, reader: str, waiting: dict[str, set[str]]) -> None:
        """Drop the results that no later query reads, after ``reader`` has read them."""
        for name in [name for name, others in waiting.items() if others <= {reader}]:
            self._db.execute(f"DROP TABLE {name}")
            del waiting[name]
        for others in waiting.values():
            others.discard(reader)

    def _rows(self, table: Table, most: int) -> Rows:
        columns = [column.name for column in table.columns]
        chosen, source = ", ".join(f'"{column}"' for column in columns), table.name
        if table.keeps:
            source = f"(SELECT {chosen} FROM {table.name} ORDER BY {_order(table, table.keeps)} LIMIT {most})"  # noqa: S608
        query = f"SELECT {chosen} FROM {source} ORDER BY {_order(table)}"  # noqa: S608 - ours
        rows = self._retried(lambda: self._read(query, columns))
        if table.keeps:
            (count,) = self._db.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone() or (0,)  # noqa: S608 - ours
            rows.left_out = count - len(rows)
        return rows

    def _execute(self, text: str) -> None:
        self._retried(lambda: self._db.execute(text))

    def _read(self, text: str, columns: Sequence[str]) -> Rows:
        """Read the rows of a query. DuckDB makes them while they are fetched, so memory may run short here too."""
        found = self._db.execute(text)
        return Rows.of(columns, iter(lambda: found.fetchmany(CHUNK), []))

    def _retried(self, query: Callable[[], T]) -> T:
        """Run a query. One that lacks memory is run again by one thread, and then with twice as much each time."""
        *cheaper, last = attempts(self._threads, self._memory_mb, self._files)
        for threads, memory_mb in cheaper:
            with suppress(duckdb.OutOfMemoryException):
                return self._attempt(query, threads, memory_mb)
        return self._attempt(query, *last)

    def _attempt(self, query: Callable[[], T], threads: int, memory_mb: float) -> T:
        self._db.execute(f"SET threads = {threads}")
        self._db.execute(f"SET memory_limit = '{memory_mb:.0f}MB'")
        try:
            return query()
        except duckdb.TransactionException as problem:
            if not _LACKS_MEMORY.search(str(problem)):
                raise
            raise duckdb.OutOfMemoryException(str(problem)) from None

    def close(self) -> None:
        """Give memory and files back."""
        self._db.close()


@contextmanager
def duck(folder: Path | None = None, *, memory_mb: int = MEMORY_MB, threads: int = 2) -> Iterator[Duck]:
    """Open a connection with its scratch files in a new folder, and remove both afterwards.

    :param folder: where the new folder is created; None: where the system keeps temporary files
    """
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder) as scratch:
        opened = Duck(Path(scratch), memory_mb=memory_mb, threads=threads)
        try:
            yield opened
        finally:
            opened.close()


def attempts(threads: int, most_mb: int, files: int = 0) -> list[tuple[int, float]]:
    """Return the threads and megabytes of each attempt to run a query, the cheapest first, none twice.

    The memory that DuckDB takes for each file that it reads is subtracted, so that many files need no more in all.
    """
    memory_mb = min(_AT_FIRST_MB - files * _FILE_MB, most_mb)
    found = [(threads, memory_mb), (1, memory_mb)]
    while memory_mb < most_mb:
        memory_mb = min(2 * memory_mb, most_mb)
        found.append((1, memory_mb))
    return list(dict.fromkeys(found))


def _order(table: Table, first: tuple[str, ...] = ()) -> str:
    return table.order_by(first).replace("`", '"')


def in_duckdb(text: str) -> str:
    """Return a query in DuckDB's dialect; the other differences from Spark's are macros."""
    return _LAST_KNOWN.sub(r"\1 IGNORE NULLS)", text)


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as problem:
        raise ReplayError(
            f"{_described(name, problem)}; give it more memory, or free disk for its scratch files"
        ) from None
    except (duckdb.OperationalError, duckdb.FatalException) as problem:
        raise ReplayError(
            f"{_described(name, problem)}; free disk beside the facts, or if a file of facts is damaged, delete it and "
            "ingest again"
        ) from None
    except duckdb.InvalidInputException as problem:
        raise ReplayError(
            f"{_described(name, problem)}; if a file of facts is damaged, delete it and ingest again"
        ) from None
    except RuntimeError as problem:  # the form in which DuckDB reports Ctrl-C
        if str(problem) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


def _described(name: str, problem: Exception) -> str:
    return f"table {name}: {str(problem).partition(chr(10))[0]}"
