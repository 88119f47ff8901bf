"""What computes the tables of an analysis: the plain engine or Spark, one behind the same few calls. Pure."""

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple, Protocol


class ReplayError(Exception):
    """A replay cannot go on; the message says why and what to do next."""


Value = str | int | bool | list[int] | None
Row = dict[str, Value]
"""One row of a table of ``replay.facts.tables``, by the names of its columns."""


class Rows(list[Row]):
    """The rows of a table; so many more were left out, see ``Table.keeps``."""

    left_out: int

    def __init__(self, rows: Iterable[Row] = (), left_out: int = 0) -> None:
        super().__init__(rows)
        self.left_out = left_out


class Inputs(NamedTuple):
    """What to read. Paths are files, folders or globs; an engine refuses the schemes that it cannot open."""

    paths: tuple[str, ...]
    cluster: str | None = None
    """Name for logs that do not say it: those of Kafka itself."""
    log_pattern: str | None = None
    """log4j layout of Kafka's logs; None: whatever of the known ones fits."""
    log_timezone: str = "UTC"
    """Where the clock hung that Kafka's logs were stamped by."""
    log_format: str | None = None
    """What all files are, whatever their names: one of ``replay.ingest.inputs.FORMATS``; None: told by their names."""


class Progress(NamedTuple):
    """How far one stage of the work is; ``total`` is 0 while nobody knows it."""

    stage: str
    done: int
    total: int
    unit: str


OnProgress = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """For callers that show no progress."""


class IngestResult(NamedTuple):
    """What one ingest did."""

    files: int
    """Files from which something new was read."""
    unchanged: int
    """Files that an earlier run had read whole."""
    lines: int
    facts: int
    problems: int
    """Lines that nobody understood, damaged ones and torn tails; the table `quality` has them."""


class Engine(Protocol):
    """From logs to facts below ``out``, and from there to tables. One caller at a time."""

    def ingest(self, inputs: Inputs, out: str, progress: OnProgress = silent) -> IngestResult:
        """Turn what is new in the inputs into facts below ``out``.

        :raises ReplayError: there is nothing to read, or something cannot be opened; says what to do
        """
        ...

    def tables(self, out: str, names: Collection[str] | None = None, progress: OnProgress = silent) -> dict[str, Rows]:
        """The tables asked for (None: all) from the facts below ``out``, each in the order of ``Table.sort``.

        Every engine gives equal rows.

        :raises ReplayError: there are no facts below ``out``, or memory or disk did not suffice; says what to do
        """
        ...

    def close(self) -> None:
        """Give memory, files and processes back."""
        ...
