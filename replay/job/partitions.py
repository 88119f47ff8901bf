"""Fold the state of every partition with the daemon's own code: buckets of partitions in parallel, in bounded memory.

Rows of a partition go to its bucket, all other rows to every bucket. A bucket needs only the facts since the last
complete snapshot.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from controllerd.record.records import (
    AssignmentRecord,
    GapRecord,
    LeadershipRecord,
    PartitionStateRecord,
    SnapshotBegin,
    SnapshotEnd,
    TopicsForgotten,
    TopicsRecord,
)
from controllerd.record.state import ClusterState
from controllerd.record.travel import StateFold
from replay.facts.assemble import assemble
from replay.facts.explode import SOURCE
from replay.facts.results import partition_rows
from replay.facts.schema import COLUMNS
from replay.facts.tables import BY_NAME
from replay.job.frames import arrow, map_batches, struct

PARTITIONS: Final = BY_NAME["partitions"]
ARROW: Final = arrow(PARTITIONS.columns)
_CLUSTER: Final = re.compile("/cluster=[^/]+/")


class LogPosition(NamedTuple):
    """The position of a record in the log of its cluster."""

    epoch: int
    node: int
    boot: str
    seq: int


ORDER: Final = LogPosition._fields
_KINDS: Final = tuple(
    record.kind
    for record in (
        SnapshotBegin,
        SnapshotEnd,
        GapRecord,
        TopicsRecord,
        TopicsForgotten,
        AssignmentRecord,
        LeadershipRecord,
        PartitionStateRecord,
    )
)
_UNUSED: Final = frozenset(
    {"date", "source", "file", "line", "hash", "prev", "broker", "unclean", "reason", "state", "queued_us", "took_us"}
    | {"error", "attempts", "bytes", "zxid", "bound"}
)
_NEEDED: Final = tuple(column.name for column in COLUMNS if column.name not in _UNUSED)


class LogMoment(NamedTuple):
    """A position in the log; without values, its end. ``seq`` counts in a boot of a node; both may be left out."""

    time_ms: int | None = None
    seq: int | None = None
    node: int | None = None
    boot: str | None = None


_END: Final = LogMoment()


def partitions(facts: DataFrame, buckets: int, moment: LogMoment | None = None) -> DataFrame:
    """Return the table ``partitions`` at a moment (by wall clock: before the first record that is later).

    :param facts: all ingested facts, see ``replay.facts.schema``
    :param buckets: the number of parts of the work
    """
    recent = _since_snapshot(
        _until(facts.where((F.col("source") == SOURCE) & (F.col("epoch") > 0)), moment or _END)
    ).select(*_NEEDED)
    everywhere = F.sequence(F.lit(0), F.lit(buckets - 1))
    its_own = F.array(F.pmod(F.hash("topic", "partition"), F.lit(buckets)).cast("int"))
    bucket = F.explode(F.when(F.col("partition").isNull(), everywhere).otherwise(its_own))
    placed = recent.withColumn("bucket", bucket).repartitionById(buckets, F.col("bucket")).drop("bucket")
    ordered = placed.sortWithinPartitions("cluster", *ORDER, "row")
    return map_batches(ordered, fold, struct(PARTITIONS.columns))


def _key() -> Column:
    return F.struct(*ORDER)


def _until(facts: DataFrame, moment: LogMoment) -> DataFrame:
    """Return the facts up to the moment, in the order of the log, by cluster."""
    beyond = None
    if moment.seq is not None:
        asked = F.col("seq") == moment.seq
        for name in ("node", "boot"):
            value = getattr(moment, name)
            asked = asked if value is None else asked & (F.col(name) == value)
        last = facts.where(asked).groupBy("cluster").agg(F.max(_key()).alias("last"))
        facts = facts.join(F.broadcast(last), "cluster").where(_key() <= F.col("last")).drop("last")
    if moment.time_ms is not None:
        beyond = facts.where(F.col("ts_ms") > moment.time_ms).groupBy("cluster").agg(F.min(_key()).alias("beyond"))
        joined = facts.join(F.broadcast(beyond), "cluster", "left")
        facts = joined.where(F.col("beyond").isNull() | (_key() < F.col("beyond"))).drop("beyond")
    return facts


def _since_snapshot(facts: DataFrame) -> DataFrame:
    """Return the facts since the last complete snapshot of each cluster, of the kinds that partitions need."""
    starts = _starts(facts)
    wanted = facts.where(F.col("kind").isin(*_KINDS))
    if starts and len(starts) == _count_clusters(facts):
        # A condition on columns of the files alone, which lack the cluster: Spark then skips parts of files.
        wanted = wanted.where(_from(min(starts.values())))
    for cluster, start in starts.items():
        wanted = wanted.where((F.col("cluster") != cluster) | _from(start))
    return wanted


def _starts(facts: DataFrame) -> dict[str, LogPosition]:
    """Return the begin of the last complete snapshot of each cluster; clusters without one are left out.

    The borders of snapshots are few. They are compared here, because each step of a query that Spark plans, compiles
    and runs for them takes longer than the fold of a million records.
    """
    borders = facts.where(F.col("kind").isin(SnapshotBegin.kind, SnapshotEnd.kind))
    begins: dict[str, list[LogPosition]] = {}
    ends: dict[str, LogPosition] = {}
    for cluster, kind, *place in borders.select("cluster", "kind", *ORDER).collect():
        if kind == SnapshotBegin.kind:
            begins.setdefault(cluster, []).append(LogPosition(*place))
        else:
            ends[cluster] = max(LogPosition(*place), ends.get(cluster, LogPosition(*place)))
    complete = {cluster: [begin for begin in begins.get(cluster, ()) if begin < end] for cluster, end in ends.items()}
    return {cluster: max(places) for cluster, places in complete.items() if places}


def _count_clusters(facts: DataFrame) -> int:
    """Return the number of clusters with facts, by the names of folders, so that nothing is read."""
    return len({match[0] for file in facts.inputFiles() if (match := _CLUSTER.search(file))})


def _from(start: LogPosition) -> Column:
    """Return the condition that a record is at this position or after it.

    It compares column by column, so that readers of Parquet can use it.
    """
    earlier: dict[str, str | int] = {"boot": start.boot, "node": start.node, "epoch": start.epoch}
    follows: Column = F.col("seq") >= start.seq
    for name, value in earlier.items():
        follows = (F.col(name) > value) | ((F.col(name) == value) & follows)
    return follows


def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Fold the facts of one bucket, sorted by cluster and in the order of the log, to the rows of its partitions."""
    fold, cluster = StateFold(), None
    for batch in batches:
        for envelope, record in assemble(batch.to_pydict()):
            if envelope.cluster != cluster:
                yield from _rows(cluster, fold.state)
                fold, cluster = StateFold(), envelope.cluster
            fold.apply(envelope, record)
    yield from _rows(cluster, fold.state)


def _rows(cluster: str | None, state: ClusterState) -> Iterator[pa.RecordBatch]:
    rows = list(partition_rows(cluster, state)) if cluster is not None else []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, ARROW)
