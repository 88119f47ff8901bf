"""The tables made from the logs themselves: violated invariants, and the last state of every partition."""

from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.record.invariants import GROUPS
from controllerd.record.state import ClusterState
from controllerd.record.travel import StateFold
from replay.facts.assemble import FOLDED_KINDS
from replay.facts.engine import OnProgress, ReplayProgress, Row, silent
from replay.facts.results import partition_rows, violation_rows
from replay.local.cluster_logs import ClusterLogs, clusters_of, read_cluster
from replay.local.pool import each, workers

VIOLATIONS: Final = "violations"
PARTITIONS: Final = "partitions"
LOG_TABLES: Final = (VIOLATIONS, PARTITIONS)
"""The tables that this module makes."""
_SMALL: Final = 16 * 1024 * 1024


class LogTask(NamedTuple):
    """The work of one process: a group of rules, or the fold."""

    table: str
    group: int
    logs: ClusterLogs


def tables_from_logs(
    paths: Collection[Path],
    names: Collection[str] = LOG_TABLES,
    progress: OnProgress = silent,
    *,
    lines: int = 0,
    processes: int | None = None,
) -> dict[str, list[Row]]:
    """Return the tables ``violations`` and ``partitions`` of the clusters of these segments; not sorted.

    :param lines: the number of lines of the segments, for the progress; 0: not known
    :raises ReplayError: a segment does not exist any more
    """
    clusters = clusters_of(paths)
    tasks = [task for logs in clusters for task in _tasks(logs) if task.table in names]
    if processes is None:
        processes = workers() if sum(path.stat().st_size for path in paths if path.exists()) > _SMALL else 1
    tables: dict[str, list[Row]] = {name: [] for name in names}
    report = partial(_report_progress, progress, lines, len(tasks) // max(1, len(clusters)))
    for task, rows in each(perform, tasks, processes=processes, on_steps=report):
        tables[task.table] += rows
    return tables


def perform(task: LogTask) -> list[Row]:
    """Return the rows of one task."""
    if task.table == PARTITIONS:
        return list(partition_rows(task.logs.cluster, fold(task.logs)))
    return violation_rows(task.logs.cluster, read_cluster(task.logs), GROUPS[task.group])


def fold(logs: ClusterLogs) -> ClusterState:
    """Return the last state of the cluster: its last complete snapshot with the later records applied."""
    fold = StateFold()
    for envelope, record in read_cluster(logs, FOLDED_KINDS):
        fold.apply(envelope, record)
    return fold.state


def _tasks(logs: ClusterLogs) -> list[LogTask]:
    return [*(LogTask(VIOLATIONS, group, logs) for group in range(len(GROUPS))), LogTask(PARTITIONS, 0, logs)]


def _report_progress(progress: OnProgress, total: int, times: int, done: int) -> None:
    """Report the progress; each record is read as many times as its cluster has tasks."""
    progress(ReplayProgress("judge", done // times, total, "records"))
