"""The tables that are SQL; the local engine runs the same texts."""

from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from replay.facts.tables import Table
from replay.job.frames import struct
from replay.sql.queries import QUERIES, READS, needed

_KEPT_ON: Final = StorageLevel.MEMORY_AND_DISK


class Queries:
    """The queries over one set of facts. A result that several queries read is calculated once, until ``forget``."""

    def __init__(self, spark: SparkSession, facts: DataFrame) -> None:
        self._spark = spark
        self._kept: dict[str, DataFrame] = {}
        facts.createOrReplaceTempView("facts")

    def frame(self, table: Table, most: int) -> DataFrame:
        """Return a table with its types, in any order; of one that grows with the log, the ``most`` important rows."""
        for name in needed([table.name]):
            if name not in self._kept:
                self._define(name)
        columns = [F.col(field.name).cast(field.dataType) for field in struct(table.columns)]
        frame = self._kept[table.name]
        if table.keeps:
            frame = self._spark.sql(f"SELECT * FROM {table.name} ORDER BY {table.order_by(table.keeps)} LIMIT {most}")  # noqa: S608
        return frame.select(*columns)

    def count(self, table: Table) -> int:
        """Return the number of rows of a table whose frame was requested."""
        return self._kept[table.name].count()

    def forget(self) -> None:
        """Drop the kept results, and their names."""
        for name in self._kept:
            self._spark.catalog.dropTempView(name)
        self._spark.catalog.dropTempView("facts")

    def _define(self, name: str) -> None:
        frame = self._spark.sql(QUERIES[name])
        is_read = any(name in names for names in READS.values())
        # A checkpoint cuts the plan: Spark takes longer to plan deeply nested queries than to run them.
        self._kept[name] = frame.localCheckpoint(storageLevel=_KEPT_ON) if is_read else frame
        self._kept[name].createOrReplaceTempView(name)
