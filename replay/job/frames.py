"""The Spark types of facts and tables, and functions over Arrow batches."""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

from replay.facts.engine import ReplayError
from replay.facts.schema import COLUMNS, Column, Type

_TYPES: Final[dict[Type, DataType]] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "bool": BooleanType(),
    "ints": ArrayType(IntegerType()),
}
_ARROW: Final[dict[Type, pa.DataType]] = {
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "bool": pa.bool_(),
    "ints": pa.list_(pa.int32()),
}
PANDAS_DOUBT: Final = "PySpark does not yet fully support pandas"
_OF_A_TASK: Final = re.compile(r"(?:ReplayError|OSError|\w+Error): (?P<said>.+)")
_OF_JAVA: Final = re.compile(r"^(?:: |Caused by: )(?P<cause>.+)", re.MULTILINE)
_EXCEPTION: Final = re.compile(r"(?:[\w$]+\.)+(?P<name>[\w$]+(?:Exception|Error))")
OverBatches = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def struct(columns: Iterable[Column]) -> StructType:
    """Return the Spark schema of columns; every column may be null."""
    return StructType([StructField(column.name, _TYPES[column.type]) for column in columns])


def arrow(columns: Iterable[Column]) -> pa.Schema:
    """Return the Arrow schema of columns, for the batches that a task returns."""
    return pa.schema([(column.name, _ARROW[column.type]) for column in columns])


FACTS: Final = struct(COLUMNS)


def below(out: str, name: str) -> str:
    """Return a path inside the folder of results; ``out`` may have a scheme."""
    return f"{out.rstrip('/')}/{name}"


def facts_of(spark: SparkSession, out: str) -> DataFrame:
    """Return all ingested facts. :raises ReplayError: there are none."""
    try:
        return spark.read.schema(FACTS).parquet(below(out, "facts"))
    except AnalysisException as problem:
        if problem.getCondition() != "PATH_NOT_FOUND":
            raise
        raise ReplayError(f"there are no facts in {out}: run `controllerctl replay ingest` first") from problem


def map_batches(frame: DataFrame, function: OverBatches, schema: StructType) -> DataFrame:
    """Call ``mapInArrow``. It uses no pandas, although Spark requires it on the driver and warns of new versions."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", PANDAS_DOUBT, FutureWarning)
        return frame.mapInArrow(function, schema)


@contextmanager
def refusals() -> Iterator[None]:
    """Turn a failure of Spark into an error for operators.

    :raises ReplayError: a job failed; the text has the last message of a task, and what to do
    """
    try:
        yield
    except (PySparkException, Py4JError) as problem:
        raise ReplayError(f"Spark gave up: {root_cause(str(problem))}") from problem


def root_cause(trace: str) -> str:
    """Return the cause in one line: the last message of a task, else the innermost exception of Java."""
    said = [match["said"] for match in _OF_A_TASK.finditer(trace)]
    if said:
        return said[-1]
    causes = [match["cause"] for match in _OF_JAVA.finditer(trace)]
    parts = (causes or [trace.strip().partition("\n")[0]])[-1].split(": ")
    while len(parts) > 1 and _EXCEPTION.fullmatch(parts[1]):
        del parts[0]
    name = _EXCEPTION.fullmatch(parts[0])
    return ": ".join([name["name"] if name is not None else parts[0], *parts[1:]])
