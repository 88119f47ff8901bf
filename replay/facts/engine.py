"""What computes the tables of an analysis: the plain engine or Spark, one behind the same few calls. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self, overload

import msgspec

CHUNK: Final = 1_000
"""Rows that are encoded together."""


class ReplayError(Exception):
    """A replay cannot go on; the message says why and what to do next."""


Value = str | int | bool | list[int] | None
Row = dict[str, Value]
"""One row of a table of ``replay.facts.tables``, by the names of its columns."""


class Rows(Sequence[Row]):
    """The rows of a table; so many more were left out, see ``Table.keeps``.

    They are kept encoded, and made when they are looked at: a table of 50,000 rows would take 70 MB as dicts.
    """

    __hash__ = None  # type: ignore[assignment]  # equal to a list of such rows

    def __init__(self, rows: Iterable[Row] = (), left_out: int = 0) -> None:
        """All ``rows`` have the same columns, in the same order."""
        self.left_out = left_out
        self._names: tuple[str, ...] = ()
        self.encoded: Final[list[bytes]] = []
        self._count = 0
        rows = iter(rows)
        while chunk := list(islice(rows, CHUNK)):
            self._names = tuple(chunk[0])
            self._add([tuple(row.values()) for row in chunk])

    @classmethod
    def of(cls, names: Sequence[str], chunks: Iterable[Sequence[tuple[Value, ...]]]) -> Self:
        """Rows by their values, at most ``CHUNK`` at a time."""
        rows = cls()
        rows._names = tuple(names)
        for chunk in chunks:
            rows._add(chunk)
        return rows

    def _add(self, chunk: Sequence[tuple[Value, ...]]) -> None:
        self.encoded.append(msgspec.msgpack.encode(chunk))
        self._count += len(chunk)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        for chunk in self.encoded:
            for values in msgspec.msgpack.decode(chunk):
                yield dict(zip(self._names, values, strict=True))

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return list(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __repr__(self) -> str:
        return f"Rows({list(self)!r}, left_out={self.left_out})"


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
