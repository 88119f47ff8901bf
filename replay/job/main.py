"""The job as ``spark-submit`` starts it: from logs to facts, tables and a report.

Ends with 0; with 1 if an invariant is violated, 2 for wrong usage, 65 if a log is damaged, 66 if there is nothing to
read or it cannot be read, 130 after Ctrl-C. With ``--follow`` Ctrl-C and SIGTERM are the way to end it, with the code
of the newest report.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from typing import Final

from pyspark.sql import SparkSession

from replay.facts.engine import Inputs, OnProgress, ReplayError
from replay.ingest.inputs import FORMATS
from replay.job.engine import SparkEngine
from replay.job.follow import follow_until_signal
from replay.job.terminal import Terminal
from replay.report.meta import SEVERITIES
from replay.run import Options, Outcome, conclude

CLEAN: Final = 0
VIOLATED: Final = 1
DAMAGED: Final = 65
NO_INPUT: Final = 66
INTERRUPTED: Final = 130


def main(argv: Sequence[str], spark: SparkSession | None = None) -> int:
    """Run the job; the exit code. What Spark is to be is said to ``spark-submit``, or in Spark's configuration.

    :param spark: a session that stays open; None: one that ends with the job
    :raises SystemExit: wrong usage, with 2
    """
    arguments = _parser().parse_args(argv)
    terminal = Terminal(sys.stderr)
    try:
        outcome = _replay(arguments, terminal, spark)
    except ReplayError as refusal:
        return terminal.refuse(str(refusal), NO_INPUT)
    except KeyboardInterrupt:
        return terminal.refuse("interrupted: what was ingested is kept, the same command goes on", INTERRUPTED)
    terminal.tell(outcome.sentence)
    return _code(outcome, arguments.max_damage)


def _replay(arguments: argparse.Namespace, progress: OnProgress, spark: SparkSession | None) -> Outcome:
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
    add("--cluster", metavar="NAME", help="what to call the cluster of Kafka's own logs")
    add("--log-pattern", metavar="LAYOUT", help="log4j layout of Kafka's own logs")
    add("--log-timezone", default="UTC", metavar="ZONE", help="where the clock of Kafka's own logs hung")
    add("--format", choices=FORMATS, help="what all files are, whatever their names")
    add("--fail-on", choices=SEVERITIES, default="warning", help="end with 1 from this severity of a violation on")
    add("--max-damage", type=int, default=0, metavar="N", help="end with 65 only beyond so many findings of damage")
    add("--follow", action="store_true", help="go on with what is added, until Ctrl-C or SIGTERM")
    add("--every", type=_seconds, default=60.0, metavar="SECONDS", help="how often --follow looks; default 60")
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
        raise argparse.ArgumentTypeError(f"{text} is no time to wait: say more than 0 seconds")
    return seconds


def _code(outcome: Outcome, max_damage: int) -> int:
    if outcome.harm > max_damage:
        return DAMAGED
    return VIOLATED if outcome.violations else CLEAN
