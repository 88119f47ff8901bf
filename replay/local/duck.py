"""The tables by DuckDB: in this process, within bounded memory, what does not fit on disk."""

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
"""Nearly every query does with so little, however long the log is: it goes to disk early and evenly."""
_FILE_MB: Final = 0.064
"""About so much it takes beside that, while a query lasts, for each file that the query reads."""
_MACROS: Final = (
    "CREATE MACRO get_json_object(document, path) AS json_extract_string(document, path)",
    "CREATE MACRO array_join(texts, separator) AS array_to_string(texts, separator)",
    "CREATE MACRO array_except(these, others) AS list_filter(these, lambda one: NOT list_contains(others, one))",
    "CREATE MACRO xxhash64(one, other) AS CAST(hash(one, other) >> 1 AS BIGINT)",
)
_LAST_KNOWN: Final = re.compile(r"(LAST_VALUE\((?:[^()]|\([^()]*\))*)\) IGNORE NULLS")
_INTERRUPTED: Final = "Query interrupted"
_NO_MEMORY: Final = re.compile(r"failed to (pin|allocate)|could not allocate")
_GLOB: Final = "cluster=*/date=*/*.parquet"
_MANY_FILES: Final = 200
"""From so many on, opening them for every query takes longer than a copy; a log rotated by the hour has them."""


class Duck:
    """One connection over the facts of one folder or table; closed after use."""

    def __init__(self, scratch: Path, *, memory_mb: int = MEMORY_MB, threads: int = 2) -> None:
        """
        :param scratch: an empty folder for what memory does not hold
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
        self._db.execute("SET enable_progress_bar = false")  # drawn where Python takes itself to be interactive
        for macro in _MACROS:
            self._db.execute(macro)

    def read(self, facts: Path) -> None:
        """Take the facts from Parquet below this folder: many files once, a few for every query that wants them.

        :raises ReplayError: there are none, or one cannot be read; says what to do
        """
        some = sum(1 for _ in islice(facts.glob(_GLOB), _MANY_FILES))
        if not some:
            raise ReplayError(f"there are no facts in {facts}: run `controllerctl replay ingest` first")
        # A cluster may be named like a number or a day, so nothing is guessed from the names of folders.
        # All files have the same columns: comparing them would keep every one of them open.
        options = "hive_partitioning = true, hive_types_autocast = false"
        self._files = some % _MANY_FILES
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
        """These tables, each in the order of its ``sort``; ``progress`` counts queries.

        :param most: rows of a table that grows with the log
        :raises ReplayError: memory or disk did not suffice; says what to do
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
        """The rows of a query, which DuckDB makes while they are taken: memory may lack as late as that."""
        found = self._db.execute(text)
        return Rows.of(columns, iter(lambda: found.fetchmany(CHUNK), []))

    def _retried(self, query: Callable[[], T]) -> T:
        """Do a query; one that cannot do with so little memory is done by one thread, and then gets twice as much."""
        *cheaper, last = ways(self._threads, self._memory_mb, self._files)
        for way in cheaper:
            with suppress(duckdb.OutOfMemoryException):
                return self._done(query, *way)
        return self._done(query, *last)

    def _done(self, query: Callable[[], T], threads: int, memory_mb: float) -> T:
        self._db.execute(f"SET threads = {threads}")
        self._db.execute(f"SET memory_limit = '{memory_mb:.0f}MB'")
        try:
            return query()
        except duckdb.TransactionException as problem:
            if not _NO_MEMORY.search(str(problem)):
                raise
            raise duckdb.OutOfMemoryException(str(problem)) from None  # which it does not say of a table's last rows

    def close(self) -> None:
        """Give memory and files back."""
        self._db.close()


@contextmanager
def duck(folder: Path | None = None, *, memory_mb: int = MEMORY_MB, threads: int = 2) -> Iterator[Duck]:
    """A connection whose scratch files lie in a new folder below ``folder`` (None: where the system has such) and go
    with it.
    """
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder) as scratch:
        opened = Duck(Path(scratch), memory_mb=memory_mb, threads=threads)
        try:
            yield opened
        finally:
            opened.close()


def ways(threads: int, most_mb: int, files: int = 0) -> list[tuple[int, float]]:
    """Threads and megabytes to run a query with, each once, the cheapest first.

    What the files take that it reads counts, so that many of them need no more.
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
    """A query as DuckDB wants it: the other differences are macros."""
    return _LAST_KNOWN.sub(r"\1 IGNORE NULLS)", text)


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    try:
        yield
    except duckdb.OutOfMemoryException as problem:
        raise ReplayError(f"{_said(name, problem)}; give it more memory, or free disk for its scratch files") from None
    except (duckdb.OperationalError, duckdb.FatalException) as problem:
        raise ReplayError(
            f"{_said(name, problem)}; free disk beside the facts, or if a file of facts is damaged, delete it and "
            "ingest again"
        ) from None
    except duckdb.InvalidInputException as problem:
        raise ReplayError(
            f"{_said(name, problem)}; if a file of facts is damaged, delete it and ingest again"
        ) from None
    except RuntimeError as problem:  # the form in which DuckDB reports Ctrl-C
        if str(problem) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


def _said(name: str, problem: Exception) -> str:
    return f"table {name}: {str(problem).partition(chr(10))[0]}"
