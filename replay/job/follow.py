"""Follow new files: rounds of a stream over the inputs, each with the same ingest and the same tables.

The stream detects new files, and keeps the known ones in its checkpoint, beside the facts. The ledger detects which of
the known files have grown. A round that was interrupted is repeated with the same result.
"""

import signal
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from functools import reduce
from hashlib import sha256
from threading import Event, Thread
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType, TimestampType

from replay.facts.engine import OnProgress
from replay.job.engine import SparkEngine
from replay.job.frames import below, refusals
from replay.run import Options, ReplayOutcome, conclude

CHECKPOINT: Final = "checkpoint"
_FILES: Final = StructType([
    StructField("path", StringType()),
    StructField("modificationTime", TimestampType()),
    StructField("length", LongType()),
    StructField("content", BinaryType()),
])  # fmt: skip


class _Round:
    """Ingest and report, if there is new input."""

    def __init__(self, engine: SparkEngine, options: Options, outcome: ReplayOutcome, progress: OnProgress) -> None:
        self.outcome = outcome
        self._engine = engine
        self._options = options
        self._progress = progress

    def __call__(self) -> None:
        ingested = self._engine.ingest(self._options.inputs, self._options.out, self._progress)
        if ingested.files:
            self.outcome = conclude(self._engine, "spark", self._options, ingested, self._progress)

    def on_batch(self, batch: DataFrame, _number: int) -> None:
        """Ingest new files; when this returns, the stream counts them as processed."""
        if not batch.isEmpty():
            self()


def follow(engine: SparkEngine, options: Options, stop: Event, every_s: float, progress: OnProgress) -> ReplayOutcome:
    """Replay, then ingest new files every ``every_s`` seconds until ``stop``; return the newest outcome.

    The current round is finished first.

    :param every_s: seconds between two rounds
    :raises ReplayError: a file cannot be read, or written
    """
    ingested = engine.ingest(options.inputs, options.out, progress)
    round_ = _Round(engine, options, conclude(engine, "spark", options, ingested, progress), progress)
    while not stop.is_set():
        with refusals():
            files = new_files(engine.spark, options.inputs.paths)
            writer = files.writeStream.foreachBatch(round_.on_batch).trigger(availableNow=True)
            writer.option("checkpointLocation", checkpoint(options)).start().awaitTermination()
        round_()  # a stream does not report files that have only grown
        stop.wait(every_s)
    return round_.outcome


def follow_until_signal(
    options: Options, every_s: float, progress: OnProgress, spark: SparkSession | None = None
) -> ReplayOutcome:
    """Run ``follow`` until Ctrl-C or SIGTERM. :raises ReplayError: a file cannot be read, or written"""
    with closing(SparkEngine(spark, options.master)) as engine, _until_signal() as stop:
        return follow(engine, options, stop, every_s, progress)


@contextmanager
def _until_signal() -> Iterator[Event]:
    """Yield an event that Ctrl-C or SIGTERM set instead of their usual effect; for the main thread, with Spark open."""
    stop = Event()
    numbers = (signal.SIGINT, signal.SIGTERM)
    # Another thread sets the event: the interrupted main thread may hold the event's lock.
    before = [signal.signal(number, lambda _number, _frame: Thread(target=stop.set).start()) for number in numbers]
    try:
        yield stop
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def checkpoint(options: Options) -> str:
    """Return the checkpoint folder of the stream: Spark requires one for each choice of inputs."""
    inputs = sha256("\n".join(options.inputs.paths).encode()).hexdigest()[:16]
    return below(options.out, f"{CHECKPOINT}/{inputs}")


def new_files(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Return a stream of the paths of files at these places; their contents are not read."""
    reader = spark.readStream.format("binaryFile").schema(_FILES).option("recursiveFileLookup", "true")
    return reduce(DataFrame.union, (reader.load(path).select("path") for path in paths))
