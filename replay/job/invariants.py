"""The table ``violations``: groups of invariants, checked in parallel over the logs in their own order."""

from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from controllerd.record.invariants import GROUPS
from replay.facts.explode import SOURCE
from replay.facts.tables import BY_NAME
from replay.job.frames import arrow, map_batches, struct
from replay.job.inputs import contents, split
from replay.job.tasks import Batches, files_of, spool
from replay.local.cluster_logs import clusters_of
from replay.local.log_tables import VIOLATIONS, LogTask, perform

_TABLE: Final = BY_NAME[VIOLATIONS]
_ARROW: Final = arrow(_TABLE.columns)


def violations(spark: SparkSession, facts: DataFrame) -> DataFrame:
    """Return the violations in the logs that the facts come from.

    :raises ReplayError: a segment does not exist any more
    """
    found = facts.where(F.col("source") == SOURCE).select("file").distinct().collect()
    by_prefix: dict[str, list[str]] = {}
    for (file,) in found:
        prefix, path = split(file)
        by_prefix.setdefault(prefix, []).append(path)
    here = _here(spark, by_prefix.pop("", []))
    return reduce(DataFrame.union, (_elsewhere(spark, *item) for item in by_prefix.items()), here)


def _here(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Check logs that the driver and all tasks can open: a task for each cluster and group of rules."""
    logs = clusters_of(map(Path, paths))
    tasks = [LogTask(VIOLATIONS, group, one) for one in logs for group in range(len(GROUPS))]
    count = max(len(tasks), 1)
    return map_batches(spark.range(0, count, 1, count), _perform(tasks), struct(_TABLE.columns))


def _elsewhere(spark: SparkSession, prefix: str, paths: Sequence[str]) -> DataFrame:
    """Check logs that only Hadoop opens: a task for each group of rules, which receives all files."""
    files = contents(spark, prefix, paths)
    groups = F.explode(F.array(*(F.lit(group) for group in range(len(GROUPS)))))
    placed = files.withColumn("group", groups).repartitionById(len(GROUPS), F.col("group"))
    return map_batches(placed, _perform_spooled(prefix), struct(_TABLE.columns))


def _perform(tasks: Sequence[LogTask]) -> Callable[[Batches], Batches]:
    def check(batches: Batches) -> Batches:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from map(_batch, tasks[number : number + 1])

    return check


def _perform_spooled(prefix: str) -> Callable[[Batches], Batches]:
    def check(batches: Batches) -> Batches:
        with TemporaryDirectory() as folder:
            paths: list[Path] = []
            groups: set[int] = set()
            for batch in batches:
                groups.update(batch.column("group").to_pylist())
                paths += [spool(folder, path, content) for path, content in files_of(iter([batch]), prefix)]
            for logs in clusters_of(paths):
                yield from (_batch(LogTask(VIOLATIONS, group, logs)) for group in sorted(groups))

    return check


def _batch(task: LogTask) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(perform(task), _ARROW)
