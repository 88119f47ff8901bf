"""The directory of an audit log: segment names and their order, the lock, the files, and where the chain continues.

Segments are ``<boot>-<number>.jsonl``; the number goes on across boots, so it alone orders the segments of a directory.
A closed segment has ``.zst`` appended. Bytes after the last newline are no line: they are what a crash cut off.
"""

import fcntl
import os
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, NamedTuple, Protocol
from urllib.parse import quote

import structlog
import zstandard

from controllerd.audit.lines import GENESIS, digest
from controllerd.errors import ControllerdError

log = structlog.get_logger(__name__)

LOCK_NAME: Final = "lock"
PLAIN: Final = ".jsonl"
COMPRESSED: Final = ".jsonl.zst"
TEMPORARY: Final = ".tmp"
_CHUNK: Final = 1024 * 1024
_PIECE: Final = 128 * 1024
"""Compressed bytes that are taken at once, which bounds the memory for what they become."""
_FRAME_BYTES: Final = 4 * 1024 * 1024
"""Content of one frame of a compressed segment: no more than this is lost where a byte goes bad."""
_NAME: Final = re.compile(r"(?P<boot>.+)-(?P<number>\d{8,})\.jsonl(?:\.zst)?")


class AuditInUse(ControllerdError):
    """Another process writes this directory."""


class Segment(NamedTuple):
    """One segment file."""

    number: int
    boot: str
    path: Path

    @property
    def is_compressed(self) -> bool:
        """Whether the file is closed and compressed."""
        return self.path.name.endswith(COMPRESSED)


def log_directory(root: Path, cluster: str, node: int) -> Path:
    """The folder of one cluster and node; a cluster id comes from outside and must not lead out of ``root``."""
    name = quote(cluster, safe="").replace(".", "%2E")
    return root / (name or "%") / str(node)


def segment_path(directory: Path, boot: str, number: int) -> Path:
    """The path of a segment that is being written."""
    return directory / f"{boot}-{number:08d}{PLAIN}"


def list_segments(directory: Path) -> list[Segment]:
    """The segments in order. A plain file beside its compressed copy wins: compression was not finished."""
    found: dict[str, Segment] = {}
    for path in sorted(directory.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            segment = Segment(int(match["number"]), match["boot"], path)
            found.setdefault(path.name.removesuffix(".zst"), segment)
    return sorted(found.values())


class Lost(NamedTuple):
    """Bytes of a segment that could not be read stand here; it is not known how many lines they were."""

    reason: str


class Tail(NamedTuple):
    """The bytes after the last newline."""

    data: bytes


def read_batches(path: Path) -> Iterator[list[bytes] | Lost | Tail]:
    """Whole lines without their newlines, many at a time; what is damaged is passed over and said.

    :raises OSError: it cannot be opened.
    """
    carry: list[bytes] = []
    for block in _blocks(path):
        if isinstance(block, Lost):
            carry = []
            yield block
            continue
        lines, newline, rest = block.rpartition(b"\n")
        if newline:
            yield b"".join((*carry, lines)).split(b"\n")
            carry = [rest]
        else:
            carry.append(rest)
    if rest := b"".join(carry):
        yield Tail(rest)


def read_lines(segment: Segment) -> Iterator[bytes]:
    """The lines with their newlines, without those that are damaged; the last may lack its newline.

    :raises OSError: it cannot be opened.
    """
    for batch in read_batches(segment.path):
        if isinstance(batch, Tail):
            yield batch.data
        elif not isinstance(batch, Lost):
            yield from (line + b"\n" for line in batch)


def _blocks(path: Path) -> Iterator[bytes | Lost]:
    with opened(path) as file:
        try:
            if str(file.name).endswith(".zst"):
                yield from _decompressed(file.read())
            else:
                while block := file.read(_CHUNK):
                    yield block
        except OSError as problem:
            yield Lost(str(problem))


def opened(path: Path) -> IO[bytes]:
    """The file of a listed segment, or its compressed copy. :raises OSError: it cannot be opened."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        if not path.name.endswith(PLAIN):
            raise
    # A running writer has compressed it since it was listed.
    return path.with_name(path.name + ".zst").open("rb")


def _decompressed(data: bytes) -> Iterator[bytes | Lost]:
    """The content of all frames; after a damaged one it goes on with the next."""
    if not data:
        yield Lost("an empty file where compressed lines should be")
    at = 0
    while 0 <= at < len(data):
        try:
            at = yield from _frame(data, at)
        except zstandard.ZstdError as problem:
            yield Lost(f"damaged compression: {problem}")
            at = data.find(zstandard.FRAME_HEADER, at + 1)


def _frame(data: bytes, start: int) -> Generator[bytes, None, int]:
    """The content of one frame; returns where the next one begins."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    for at in range(start, len(data), _PIECE):
        if block := frame.decompress(data[at : at + _PIECE]):
            yield block
        if frame.eof:
            return min(at + _PIECE, len(data)) - len(frame.unused_data)
    raise zstandard.ZstdError("the end is missing")


class ChainEnd(NamedTuple):
    """Where a directory's chain ends: the hash for the next line and the number for the next segment."""

    head: str
    next_number: int


def chain_end(directory: Path) -> ChainEnd:
    """The hash of the newest complete line, also when the newest segments are empty, torn or unreadable."""
    segments = list_segments(directory)
    number = segments[-1].number + 1 if segments else 1
    for segment in reversed(segments):
        last = _last_line(segment)
        if last is not None:
            return ChainEnd(digest(last), number)
    return ChainEnd(GENESIS, number)


def _last_line(segment: Segment) -> bytes | None:
    last = None
    try:
        for batch in read_batches(segment.path):
            if isinstance(batch, list):
                last = batch[-1]
    except OSError as problem:
        # An old file must not keep the controller away; a verification of the log reports it.
        log.warning("audit segment cannot be opened", segment=segment.path.name, error=problem.strerror)
    return last


class DirectoryLock:
    """The right to write a directory, held for the life of the process."""

    def __init__(self, directory: Path, owner: str) -> None:
        """:raises AuditInUse: another process holds it; the message says which."""
        self._file: IO[str] = (directory / LOCK_NAME).open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            holder = self._file.read(200).strip("\0 \n")
            self._file.close()
            raise AuditInUse(
                f"audit directory {directory} is being written by {holder or 'another process'}: "
                "two controllerd with the same node id and cluster must not run"
            ) from None
        with suppress(OSError):  # on a full disk our name is not written, but the lock is ours
            self._file.truncate(0)
            os.write(self._file.fileno(), f"{owner}, process {os.getpid()}\n".encode())

    def release(self) -> None:
        """Let another process write; the file stays."""
        self._file.close()


# -- files -------------------------------------------------------------------------------------------------------------


class SegmentFile(Protocol):
    """A segment as it is written."""

    def write(self, data: bytes | memoryview) -> int:
        """Append; returns how many bytes were taken. :raises OSError:"""
        ...

    def truncate(self, size: int) -> None:
        """Cut off what a failed write left behind. :raises OSError:"""
        ...

    def sync(self) -> None:
        """Make everything durable. :raises OSError:"""
        ...

    def close(self) -> None:
        """Close without making durable."""
        ...


FileOpener = Callable[[Path], SegmentFile]


class DiskFile:
    """A new, unbuffered file; its name is durable before the first byte is."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        sync_directory(path.parent)

    def write(self, data: bytes | memoryview) -> int:
        """Append what the kernel takes."""
        return self._file.write(data)

    def truncate(self, size: int) -> None:
        """Cut off everything beyond ``size`` and go on from there."""
        self._file.seek(size)
        self._file.truncate(size)

    def sync(self) -> None:
        """``fsync``."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close."""
        self._file.close()


def sync_directory(directory: Path) -> None:
    """Make creations, renames and deletions in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def compress(path: Path) -> Path:
    """Replace a closed segment by its compressed copy, so that at every moment one complete copy has its final name.

    The copy is many frames of whole lines: damage to one leaves the others readable.
    """
    target = path.with_name(path.name + ".zst")
    temporary = path.with_name(target.name + TEMPORARY)
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with path.open("rb") as source, temporary.open("wb") as copy:
        content = source.read(_FRAME_BYTES)
        copy.write(compressor.compress(content + source.readline()))  # also of nothing: no file is damage
        while content := source.read(_FRAME_BYTES):
            copy.write(compressor.compress(content + source.readline()))
        copy.flush()
        os.fsync(copy.fileno())
    temporary.replace(target)
    sync_directory(path.parent)
    path.unlink()
    return target


def remove_temporaries(directory: Path) -> None:
    """Remove what a crash left of an unfinished compression."""
    for path in directory.glob(f"*{TEMPORARY}"):
        path.unlink()
