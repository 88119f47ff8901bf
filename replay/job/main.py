"""The job as ``spark-submit`` starts it: from logs to facts, tables and a report.

Exits with status 0; with 1 if an invariant is violated, 2 for wrong usage, 65 if a log is damaged, 66 if there is
nothing to read or it cannot be read, 130 after Ctrl-C. With ``--follow`` Ctrl-C and SIGTERM end it, with the status of
the newest report.
"""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from typing import Final, TextIO

from pyspark.sql import SparkSession

from replay.facts.engine import Inputs, OnProgress, ReplayError, ReplayProgress
from replay.ingest.inputs import FORMATS
from replay.job.engine import SparkEngine
from replay.job.follow import follow_until_signal
from replay.report.metadata import SEVERITIES
from replay.run import Options, ReplayOutcome, conclude

_EVERY_S: Final = 2.0


class ProgressLines:
    """A progress listener that writes a line at the beginning and end of a stage, and now and then between them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stage = ""
        self._began = self._written_at = 0.0

    def __call__(self, progress: ReplayProgress) -> None:
        """Write the stage, the finished part, and the rate per second."""
        now = time.monotonic()
        if progress.stage != self._stage:
            self._stage, self._began = progress.stage, now
        elif now - self._written_at < _EVERY_S and progress.done < progress.total:
            return
        self._written_at = now
        total = f" of {progress.total:,}" if progress.total else ""
        rate = f", {progress.done / (now - self._began):,.0f}/s" if progress.done and now > self._began else ""
        self.write_line(f"{progress.stage}: {progress.done:,}{total} {progress.unit}{rate}")

    def write_line(self, sentence: str) -> None:
        """Write one line."""
        print(sentence, file=self._stream, flush=True)

    def refuse(self, why: str, code: int) -> int:
        """Print why the job ends; return its exit status."""
        self.write_line(f"replay: {why}")
        return code


CLEAN: Final = 0
VIOLATED: Final = 1
DAMAGED: Final = 65
NO_INPUT: Final = 66
INTERRUPTED: Final = 130


def main(argv: Sequence[str], spark: SparkSession | None = None) -> int:
    """Run the job; return the exit status. Options of Spark are given to ``spark-submit``, or in its configuration.

    :param spark: a session that stays open; None: one that ends with the job
    :raises SystemExit: wrong usage, with status 2
    """
    arguments = _parser().parse_args(argv)
    terminal = ProgressLines(sys.stderr)
    try:
        outcome = _replay(arguments, terminal, spark)
    except ReplayError as refusal:
        return terminal.refuse(str(refusal), NO_INPUT)
    except KeyboardInterrupt:
        return terminal.refuse("interrupted: ingested facts are kept, the same command continues", INTERRUPTED)
    terminal.write_line(outcome.sentence)
    return _code(outcome, arguments.max_damage)


def _replay(arguments: argparse.Namespace, progress: OnProgress, spark: SparkSession | None) -> ReplayOutcome:
    options = _options(arguments)
    if arguments.follow:
        return follow_until_signal(options, arguments.every, progress, spark)
    with closing(SparkEngine(spark)) as engine:
        ingested = engine.ingest(options.inputs, options.out, progress)
        return conclude(engine, "spark", options, ingested, progress)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("replay_main.py", description=__doc__)
    add = parser.add_argument
    add("--input", nargs="+", required=True, metavar="PATH", help="folders, files or globs: local, hdfs, s3a, gs")
    add("--out", required=True, metavar="DIR", help="for facts, tables and report; driver and executors must share it")
    add("--cluster", metavar="NAME", help="name for the cluster of Kafka's own logs")
    add("--log-pattern", metavar="LAYOUT", help="log4j layout of Kafka's own logs")
    add("--log-timezone", default="UTC", metavar="ZONE", help="time zone of Kafka's own logs")
    add("--format", choices=FORMATS, help="format of all files, whatever their names")
    add(
        "--fail-on",
        choices=SEVERITIES,
        default="warning",
        help="exit with status 1 from this severity of a violation on",
    )
    add(
        "--max-damage",
        type=int,
        default=0,
        metavar="N",
        help="exit with status 65 only beyond so many findings of damage",
    )
    add("--follow", action="store_true", help="continue with new files until Ctrl-C or SIGTERM")
    add("--every", type=_seconds, default=60.0, metavar="SECONDS", help="interval of --follow; default 60")
    return parser


def _options(arguments: argparse.Namespace) -> Options:
    inputs = Inputs(
        tuple(arguments.input),
        arguments.cluster,
        arguments.log_pattern,
        arguments.log_timezone,
        arguments.format,
    )
    return Options(inputs, arguments.out, "spark", fail_on=arguments.fail_on)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a valid interval: give more than 0 seconds")
    return seconds


def _code(outcome: ReplayOutcome, max_damage: int) -> int:
    if outcome.harm > max_damage:
        return DAMAGED
    return VIOLATED if outcome.violations else CLEAN
