"""The tables that are SQL, by the texts that the plain engine runs, too."""

from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from replay.facts.tables import Table
from replay.job.frames import struct
from replay.sql.queries import QUERIES, READS, needed

_KEPT_ON: Final = StorageLevel.MEMORY_AND_DISK


class Queries:
    """The queries over one set of facts; what one of them takes from another is computed once, until ``forget``."""

    def __init__(self, spark: SparkSession, facts: DataFrame) -> None:
        self._spark = spark
        self._kept: dict[str, DataFrame] = {}
        facts.createOrReplaceTempView("facts")

    def frame(self, table: Table, most: int) -> DataFrame:
        """A table with its types, in any order; if it grows with the log, the ``most`` rows that count most."""
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
        """Give back what was kept, and the names."""
        for name in self._kept:
            self._spark.catalog.dropTempView(name)
        self._spark.catalog.dropTempView("facts")

    def _define(self, name: str) -> None:
        frame = self._spark.sql(QUERIES[name])
        is_read = any(name in names for names in READS.values())
        # A checkpoint, because plans of plans of plans take Spark longer to think about than to carry out.
        self._kept[name] = frame.localCheckpoint(storageLevel=_KEPT_ON) if is_read else frame
        self._kept[name].createOrReplaceTempView(name)
