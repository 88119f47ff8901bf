"""The Spark engine: for logs that are too large for one host, or that only Hadoop can open."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from replay.facts.engine import (
    IngestResult,
    Inputs,
    OnProgress,
    ReplayError,
    ReplayProgress,
    Rows,
    in_order,
    silent,
)
from replay.facts.tables import BY_NAME, MOST_ROWS, Table
from replay.job.frames import facts_of, refusals
from replay.job.ingest import Folder, ingest
from replay.job.inputs import is_remote
from replay.job.invariants import violations
from replay.job.partitions import LogMoment, partitions
from replay.job.queries import Queries
from replay.job.session import open_session
from replay.local.log_tables import PARTITIONS, VIOLATIONS


class SparkEngine:
    """An implementation of ``replay.facts.engine.Engine``; its rows equal those of the local engine."""

    def __init__(self, spark: SparkSession | None = None, master: str | None = None, *, most: int = MOST_ROWS) -> None:
        """Create the engine on a session.

        :param spark: a session that stays open; None: ``open_session``, until ``close``
        :param master: the master of a session that is opened here; None: that of Spark's configuration
        :param most: the most rows of a table that grows with the log
        """
        self._most = most
        self._owned = spark is None
        self.spark = spark or open_session({"spark.master": master} if master else None)

    def ingest(self, inputs: Inputs, out: str, progress: OnProgress = silent) -> IngestResult:
        """Convert the new part of the inputs into facts below ``out``, a folder that driver and executors share.

        The inputs may have every scheme that Hadoop supports: ``hdfs``, ``s3a``, ``gs``.

        :raises ReplayError: there is nothing to read, or a file cannot be opened; the text says what to do
        """
        with refusals():
            return ingest(self.spark, inputs, self._folder(out), progress)

    def tables(self, out: str, names: Collection[str] | None = None, progress: OnProgress = silent) -> dict[str, Rows]:
        """Return the requested tables (None: all) from the facts below ``out``, each in the order of ``Table.sort``.

        :raises ReplayError: there are no facts, or memory or disk did not suffice; the text says what to do
        """
        unknown = sorted(set(names or ()) - BY_NAME.keys())
        if unknown:
            raise ReplayError(f"there is no table {unknown[0]!r}: choose of {', '.join(BY_NAME)}")
        wanted = [table for table in BY_NAME.values() if names is None or table.name in names]
        with refusals():
            facts = facts_of(self.spark, out)
            queries = Queries(self.spark, facts)
            try:
                return {table.name: self._table(table, facts, queries, progress) for table in wanted}
            finally:
                queries.forget()

    def partitions_at(self, out: str, moment: LogMoment, progress: OnProgress = silent) -> Rows:
        """Return the table ``partitions`` at a moment. :raises ReplayError: as ``tables``"""
        with refusals():
            frame = partitions(facts_of(self.spark, out), self._buckets, moment)
            return self._rows(frame, BY_NAME[PARTITIONS], progress)

    def close(self) -> None:
        """End the session that was opened here."""
        if self._owned:
            self.spark.stop()

    @property
    def _buckets(self) -> int:
        return int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)

    def _folder(self, out: str) -> Folder:
        if is_remote(out):
            raise ReplayError(f"{out} is no folder that the tasks can write: choose a folder that they share as --out")
        return Folder(self.spark, Path(out))

    def _table(self, table: Table, facts: DataFrame, queries: Queries, progress: OnProgress) -> Rows:
        rows = self._rows(self._frame(table, facts, queries), table, progress)
        if table.keeps and len(rows) == self._most:
            rows.left_out = queries.count(table) - self._most
        return rows

    def _frame(self, table: Table, facts: DataFrame, queries: Queries) -> DataFrame:
        if table.name == PARTITIONS:
            return partitions(facts, self._buckets)
        if table.name == VIOLATIONS:
            return violations(self.spark, facts)
        return queries.frame(table, self._most)

    def _rows(self, frame: DataFrame, table: Table, progress: OnProgress) -> Rows:
        with watched(self.spark, table.name, progress):
            rows = Rows(in_order(table, frame.toArrow().to_pylist()))
        progress(ReplayProgress(table.name, len(rows), len(rows), "rows"))
        return rows


_EVERY_S: Final = 0.5


@contextmanager
def watched(spark: SparkSession, stage: str, progress: OnProgress) -> Iterator[None]:
    """Report finished tasks while the block runs. With Spark Connect, only begin and end are known."""
    progress(ReplayProgress(stage, 0, 0, "tasks"))
    tracker = spark.sparkContext.statusTracker() if type(spark).__module__ == "pyspark.sql.session" else None
    over = Event()
    thread = Thread(target=_poll, args=(tracker, stage, progress, over), name="progress", daemon=True)
    if tracker is not None:
        thread.start()
    try:
        yield
    finally:
        over.set()
        if tracker is not None:
            thread.join()


def _poll(tracker: Any, stage: str, progress: OnProgress, over: Event) -> None:
    while not over.wait(_EVERY_S):
        infos = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        known = [info for info in infos if info is not None]
        if known:
            done, total = (
                sum(counts) for counts in zip(*((i.numCompletedTasks, i.numTasks) for i in known), strict=True)
            )
            progress(ReplayProgress(stage, done, total, "tasks"))
