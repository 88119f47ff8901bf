"""The tables by DuckDB: in this process, within bounded memory, what does not fit on disk."""

import glob
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from replay.facts.engine import OnProgress, Progress, ReplayError, Rows, silent
from replay.facts.tables import BY_NAME, MOST_ROWS, Table
from replay.sql.queries import QUERIES, needed, readers

MEMORY: Final = "512MB"
_MACROS: Final = (
    "CREATE MACRO get_json_object(document, path) AS json_extract_string(document, path)",
    "CREATE MACRO array_join(texts, separator) AS array_to_string(texts, separator)",
    "CREATE MACRO array_except(these, others) AS list_filter(these, lambda one: NOT list_contains(others, one))",
)
_LAST_KNOWN: Final = re.compile(r"(LAST_VALUE\((?:[^()]|\([^()]*\))*)\) IGNORE NULLS")
_INTERRUPTED: Final = "Query interrupted"
_ROWS_AT_ONCE: Final = 10_000
_GLOB: Final = "cluster=*/date=*/*.parquet"


class Duck:
    """One connection over the facts of one folder or table; closed after use."""

    def __init__(self, scratch: Path, *, memory: str = MEMORY, threads: int = 2) -> None:
        """``scratch``: an empty folder for what memory does not hold. :raises ReplayError: it cannot be written"""
        with _refusals("scratch"):
            self._db = duckdb.connect(scratch / "tables.duckdb")
        self._db.execute(f"SET memory_limit = '{memory}'")
        self._db.execute(f"SET threads = {threads}")
        self._db.execute("SET temp_directory = $folder", {"folder": str(scratch / "spill")})
        self._db.execute("SET preserve_insertion_order = false")
        self._db.execute("SET enable_progress_bar = false")  # drawn where Python takes itself to be interactive
        for macro in _MACROS:
            self._db.execute(macro)

    def read(self, facts: Path) -> None:
        """Take the facts from Parquet below this folder.

        :raises ReplayError: there are none, or one cannot be read; says what to do
        """
        if next(facts.glob(_GLOB), None) is None:
            raise ReplayError(f"there are no facts in {facts}: run `controllerctl replay ingest` first")
        # A cluster may be named like a number or a day, so nothing is guessed from the names of folders.
        options = "hive_partitioning = true, hive_types_autocast = false, union_by_name = true"
        files = f"{glob.escape(str(facts))}/{_GLOB}".replace("'", "''")
        with _refusals("facts"):
            self._db.execute(f"CREATE VIEW facts AS SELECT * FROM read_parquet('{files}', {options})")  # noqa: S608

    def take(self, facts: pa.Table) -> None:
        """Take the facts from memory."""
        self._db.register("facts", facts)

    def tables(
        self, names: Collection[str], progress: OnProgress = silent, *, most: int = MOST_ROWS
    ) -> dict[str, Rows]:
        """These tables, each in the order of its ``sort``; ``progress`` is told of queries.

        :param most: rows of a table that grows with the log
        :raises ReplayError: memory or disk did not suffice; says what to do
        """
        found: dict[str, Rows] = {}
        waiting = readers(names)
        steps = needed(names)
        for number, name in enumerate(steps):
            progress(Progress("tables", number, len(steps), "queries"))
            with _refusals(name):
                self._db.execute(f"CREATE TABLE {name} AS {in_duckdb(QUERIES[name])}")
                if name in names:
                    found[name] = self._rows(BY_NAME[name], most)
                self._drop_unread(name, waiting)
        progress(Progress("tables", len(steps), len(steps), "queries"))
        return found

    def _drop_unread(self, reader: str, waiting: dict[str, set[str]]) -> None:
        """Drop what nobody reads any more now that ``reader`` has read it."""
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
        cursor = self._db.execute(f"SELECT {chosen} FROM {source} ORDER BY {_order(table)}")  # noqa: S608 - ours
        rows = Rows()
        while some := cursor.fetchmany(_ROWS_AT_ONCE):
            rows += [dict(zip(columns, row, strict=True)) for row in some]
        if table.keeps:
            (count,) = self._db.execute(f"SELECT COUNT(*) FROM {table.name}").fetchone() or (0,)  # noqa: S608 - ours
            rows.left_out = count - len(rows)
        return rows

    def close(self) -> None:
        """Give memory and files back."""
        self._db.close()


@contextmanager
def duck(folder: Path | None = None, *, memory: str = MEMORY, threads: int = 2) -> Iterator[Duck]:
    """A connection whose scratch files lie in a new folder below ``folder`` (None: where the system has such) and go
    with it.
    """
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder) as scratch:
        opened = Duck(Path(scratch), memory=memory, threads=threads)
        try:
            yield opened
        finally:
            opened.close()


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
    except RuntimeError as problem:  # how DuckDB tells of Ctrl-C
        if str(problem) != _INTERRUPTED:
            raise
        raise KeyboardInterrupt from None


def _said(name: str, problem: Exception) -> str:
    return f"table {name}: {str(problem).partition(chr(10))[0]}"
