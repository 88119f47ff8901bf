"""The interface of the engines that calculate the tables of a replay: the local engine and Spark. Pure."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple, Protocol, Self, overload

import msgspec

from replay.facts.tables import Table

CHUNK: Final = 1_000
"""The number of rows that are encoded together."""


class ReplayError(Exception):
    """A replay cannot continue; the message says why and what to do next."""


Value = str | int | bool | list[int] | None
Row = dict[str, Value]
"""One row of a table of ``replay.facts.tables``, by the names of its columns."""


class Rows(Sequence[Row]):
    """The rows of a table; ``left_out`` is the number of further rows, see ``Table.keeps``.

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
        """Return rows by their values, which are encoded at most ``CHUNK`` at a time."""
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
    """The number of files with new lines."""
    unchanged: int
    """The number of files that an earlier run had read completely."""
    lines: int
    facts: int
    problems: int
    """Unknown lines, damaged ones and torn tails; the table `quality` has them."""


class Engine(Protocol):
    """Convert logs to facts below ``out``, and facts to tables. Only one caller may use an engine at a time."""

    def ingest(self, inputs: Inputs, out: str, progress: OnProgress = silent) -> IngestResult:
        """Convert the new part of the inputs into facts below ``out``.

        :raises ReplayError: there is nothing to read, or a file cannot be opened; the text says what to do
        """
        ...

    def tables(self, out: str, names: Collection[str] | None = None, progress: OnProgress = silent) -> dict[str, Rows]:
        """Return the requested tables (None: all) from the facts below ``out``, each in the order of ``Table.sort``.

        Every engine returns equal rows.

        :raises ReplayError: there are no facts, or memory or disk did not suffice; the text says what to do
        """
        ...

    def close(self) -> None:
        """Release memory, files and processes."""
        ...


def in_order(table: Table, rows: Iterable[Row]) -> list[Row]:
    """Return the rows sorted by ``Table.sort`` and then by the other columns, null first."""
    columns = tuple(dict.fromkeys([*table.sort, *(column.name for column in table.columns)]))
    return sorted(rows, key=lambda row: tuple(_key(row[column]) for column in columns))


def _key(value: Value) -> tuple[bool, Value]:
    return (False, 0) if value is None else (True, value)
