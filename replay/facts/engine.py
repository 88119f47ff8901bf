"""The interface of the engines that compute the tables of an analysis: the plain one and Spark. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self, overload

import msgspec

from replay.facts.tables import Table

CHUNK: Final = 1_000
"""Rows that are encoded together."""


class ReplayError(Exception):
    """A replay cannot continue; the message says why and what to do next."""


Value = str | int | bool | list[int] | None
Row = dict[str, Value]
"""One row of a table of ``replay.facts.tables``, by the names of its columns."""


class Rows(Sequence[Row]):
    """The rows of a table; so many more were left out, see ``Table.keeps``.

    The rows are kept encoded, and decoded when they are read: a table of 50,000 rows would take 70 MB as dicts.
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
    """The inputs. Paths are files, folders or globs; an engine refuses schemes that it cannot open."""

    paths: tuple[str, ...]
    cluster: str | None = None
    """Name of the cluster for Kafka's own logs, which do not have it."""
    log_pattern: str | None = None
    """log4j layout of Kafka's logs; None: the known one that fits."""
    log_timezone: str = "UTC"
    """Time zone of the timestamps in Kafka's logs."""
    log_format: str | None = None
    """Format of all files, one of ``replay.ingest.inputs.FORMATS``; None: by their names."""


class ReplayProgress(NamedTuple):
    """The progress of one stage of the work; ``total`` is 0 while it is not known."""

    stage: str
    done: int
    total: int
    unit: str


OnProgress = Callable[[ReplayProgress], None]


def silent(progress: ReplayProgress) -> None:
    """Ignore progress."""


class IngestResult(NamedTuple):
    """The result of one ingest."""

    files: int
    """Files from which something new was read."""
    unchanged: int
    """Files that an earlier run had read whole."""
    lines: int
    facts: int
    problems: int
    """Unknown lines, damaged ones and torn tails; the table `quality` has them."""


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


def in_order(table: Table, rows: Iterable[Row]) -> list[Row]:
    """The rows sorted by ``Table.sort`` and then by the other columns, null first."""
    columns = tuple(dict.fromkeys([*table.sort, *(column.name for column in table.columns)]))
    return sorted(rows, key=lambda row: tuple(_key(row[column]) for column in columns))


def _key(value: Value) -> tuple[bool, Value]:
    return (False, 0) if value is None else (True, value)
