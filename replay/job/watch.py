"""How far Spark is with what it was asked for, as the caller of an engine wants to hear it."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any, Final

from pyspark.sql import SparkSession

from replay.facts.engine import OnProgress, Progress

_EVERY_S: Final = 0.5


@contextmanager
def watched(spark: SparkSession, stage: str, progress: OnProgress) -> Iterator[None]:
    """Report finished tasks while the block runs; with Spark Connect, where nobody knows them, only begin and end."""
    progress(Progress(stage, 0, 0, "tasks"))
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
            progress(Progress(stage, done, total, "tasks"))
