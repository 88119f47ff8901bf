"""The ledger of an output folder: the ingested files, so that a later run reads only new ones."""

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from replay.facts.engine import ReplayError
from replay.ingest.inputs import Format, InputFile

LEDGER: Final = "ledger.json"
LOCK: Final = "ledger.lock"
VERSION: Final = 1


class FileRead(msgspec.Struct, frozen=True):
    """The state of one file when it was read."""

    path: str
    size: int
    mtime_ns: int
    format: Format = "audit"


class LedgerEntry(msgspec.Struct):
    """Files that were read together, and the counts of the result."""

    files: list[FileRead]
    lines: int
    facts: int
    problems: int
    read_as: str = ""
    """The options of the operator with which they were read, if any."""


class _Book(msgspec.Struct):
    version: int
    inputs: dict[str, LedgerEntry]


class Ledger:
    """The ledger of one output folder, whose lock is held between ``with`` and its end.

    Entries are kept by a name that stays when a segment is compressed, so that it is not read twice as two files.
    """

    def __init__(self, out: Path) -> None:
        self._path = out / LEDGER
        self._lock_path = out / LOCK
        self._inputs: dict[str, LedgerEntry] = {}
        self._lock = -1

    def __enter__(self) -> Self:
        """:raises ReplayError: another process ingests into this folder, or the ledger cannot be read."""
        try:
            self._lock_path.parent.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._inputs = self._load()
        except BlockingIOError:
            os.close(self._lock)
            folder = self._path.parent
            raise ReplayError(f"another replay is writing {folder}: wait for it, or choose another --out") from None
        except OSError as problem:
            raise ReplayError(f"cannot write {problem.filename}: {problem.strerror}; choose another --out") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    @property
    def segments(self) -> list[Path]:
        """Return the segments of audit logs that were read, by path."""
        files = (one for known in self._inputs.values() for one in known.files if one.format == "audit")
        return sorted(Path(one.path) for one in files)

    @property
    def segment_lines(self) -> int:
        """Return the number of lines of these segments."""
        return sum(known.lines for known in self._inputs.values() if known.files[0].format == "audit")

    def has(self, name: str, files: Sequence[InputFile], read_as: str = "") -> bool:
        """Return whether exactly these files, as they are now, were ingested under this name with the same options."""
        known = self._inputs.get(name)
        return known is not None and known.files == _as_read(files) and known.read_as == read_as

    def note(
        self, name: str, files: Sequence[InputFile], read_as: str = "", *, lines: int, facts: int, problems: int
    ) -> None:
        """Note ingested files; ``save`` makes the note durable."""
        self._inputs[name] = LedgerEntry(_as_read(files), lines, facts, problems, read_as)

    def save(self) -> None:
        """Replace the file. :raises OSError: it cannot be written."""
        temporary = self._path.with_name(f".{LEDGER}.tmp")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(_Book(VERSION, self._inputs)), indent=1))
        temporary.replace(self._path)

    def _load(self) -> dict[str, LedgerEntry]:
        if not self._path.exists():
            return {}
        try:
            book = msgspec.json.decode(self._path.read_bytes(), type=_Book)
        except msgspec.MsgspecError as problem:
            raise ReplayError(f"{self._path} is damaged ({problem}): delete it, and everything is read again") from None
        if book.version > VERSION:
            raise ReplayError(f"{self._path} is of a newer version of this program: use that, or another --out")
        return book.inputs


def _as_read(files: Sequence[InputFile]) -> list[FileRead]:
    return [FileRead(source.name, source.size, source.mtime_ns, source.format) for source in files]
