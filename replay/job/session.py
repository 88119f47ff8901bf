"""The Spark session: the one that the environment configures, or a small local one by default."""

import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, current_thread, main_thread
from types import FrameType
from typing import Final

from pyspark.sql import SparkSession

from replay.job.frames import PANDAS_DOUBT

_LOOPBACK: Final = "127.0.0.1"
_ASKED_FOR_BY: Final = (
    "SPARK_REMOTE",
    "MASTER",
    "PYSPARK_SUBMIT_ARGS",
    "PYSPARK_GATEWAY_PORT",
    "SPARK_CONNECT_MODE_ENABLED",
)
_LOCAL: Final = {
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.driver.host": _LOOPBACK,
    "spark.driver.memory": "640m",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
    # Data beyond the memory goes to disk in pieces: Java keeps a buffer as large as a piece outside of the heap.
    "spark.buffer.write.chunkSize": "1m",
    # A sort goes to disk long before the heap is full, so that its memory does not grow with the log.
    "spark.shuffle.spill.maxRecordsSizeForSpillThreshold": "32m",
    # Nothing is put there, but Spark makes the folder, by default in the operator's current directory.
    "spark.sql.warehouse.dir": tempfile.gettempdir(),
}
# The whole heap from the beginning, so that a session takes the same memory for any size of log; the collector that
# needs none beside it.
_HEAP: Final = "-XX:+UseSerialGC -Xms640m -XX:+AlwaysPreTouch -Djdk.nio.maxCachedBufferSize=1048576"
# Java's second compiler works longer on Spark's start than Spark on a million records, and takes memory with every
# query. With the first alone Java sets too little aside for what it compiles.
_CODE: Final = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=160m"
_FOR_EVERY_SESSION: Final = {
    "spark.sql.session.timeZone": "UTC",
    # Fewer and larger batches: most of a batch's price is paid once.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.execution.arrow.maxBytesPerBatch": "32m",
}


def open_session(options: Mapping[str, str] | None = None) -> SparkSession:
    """Return the open session, or a new one.

    ``spark-submit``, ``SPARK_REMOTE`` and ``spark-defaults.conf`` configure where it runs. Without them it is a child
    process on all cores, with 640 MiB of heap, without its web pages, and reachable from this host only.

    :param options: Spark's options, which have priority over the defaults
    :raises KeyboardInterrupt: Ctrl-C was pressed; raised when Spark has started, so that it can be ended
    """
    settings = dict(_FOR_EVERY_SESSION)
    if not is_configured(os.environ):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        logging = Path(__file__).with_name("log4j2.properties").as_uri()
        settings |= {**_LOCAL, "spark.driver.extraJavaOptions": f"{_HEAP} {_CODE} -Dlog4j2.configurationFile={logging}"}
    warnings.filterwarnings("ignore", PANDAS_DOUBT, FutureWarning)
    builder = SparkSession.builder.appName("controllerd replay")
    for name, value in {**settings, **(options or {})}.items():
        builder = builder.config(name, value)
    with _ctrl_c_waits():
        return builder.getOrCreate()


@contextmanager
def _ctrl_c_waits() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block: a JVM that loses its parent while it starts would run for ever.

    :raises KeyboardInterrupt: it was pressed meanwhile
    """
    if current_thread() is not main_thread():
        yield
        return
    pressed = Event()

    def note(_number: int, _frame: FrameType | None) -> None:
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # Spark sets one of its own, which ends its jobs as well
            signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        raise KeyboardInterrupt


def is_configured(environment: Mapping[str, str]) -> bool:
    """Return whether the environment configures where Spark runs; then no default applies."""
    if any(environment.get(name) for name in _ASKED_FOR_BY):
        return True
    folder = environment.get("SPARK_CONF_DIR")
    home = environment.get("SPARK_HOME")
    if folder is None and home is not None:
        folder = str(Path(home) / "conf")
    return folder is not None and (Path(folder) / "spark-defaults.conf").exists()
