"""The directory of an audit log: segment names and their order, the lock, the files, and the end of the chain.

Segments are named ``<boot>-<number>.jsonl``. The number continues across boots, so it alone orders the segments of a
directory. A closed segment is compressed and has ``.zst`` appended. Bytes after the last newline are an unfinished
line, left by a crash.
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
"""Compressed bytes that are decompressed at once, which bounds the memory."""
_FRAME_BYTES: Final = 4 * 1024 * 1024
"""The uncompressed size of one frame of a compressed segment: the most that one damaged byte can cost."""
_NAME: Final = re.compile(r"(?P<boot>.+)-(?P<number>\d{8,})\.jsonl(?:\.zst)?")


class AuditInUse(ControllerdError):
    """Raised when another process writes the directory."""


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
    """The folder of one cluster and node. The cluster id is escaped, so that the path cannot leave ``root``."""
    name = quote(cluster, safe="").replace(".", "%2E")
    return root / (name or "%") / str(node)


def segment_path(directory: Path, boot: str, number: int) -> Path:
    """The path of a segment that is not closed."""
    return directory / f"{boot}-{number:08d}{PLAIN}"


def list_segments(directory: Path) -> list[Segment]:
    """The segments in order. A plain file wins over its compressed copy, which may be unfinished."""
    found: dict[str, Segment] = {}
    for path in sorted(directory.iterdir()):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            segment = Segment(int(match["number"]), match["boot"], path)
            found.setdefault(path.name.removesuffix(".zst"), segment)
    return sorted(found.values())


class LostBytes(NamedTuple):
    """A range of bytes of a segment that could not be read; the number of its lines is unknown."""

    reason: str


class TailBytes(NamedTuple):
    """The bytes after the last newline."""

    data: bytes


def read_batches(path: Path) -> Iterator[list[bytes] | LostBytes | TailBytes]:
    """Complete lines without their newlines, many at a time; an unreadable range is reported in its place.

    :raises OSError: it cannot be opened.
    """
    carry: list[bytes] = []
    for block in _blocks(path):
        if isinstance(block, LostBytes):
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
        yield TailBytes(rest)


def read_lines(segment: Segment) -> Iterator[bytes]:
    """The readable lines with their newlines; the last may lack its newline.

    :raises OSError: it cannot be opened.
    """
    for batch in read_batches(segment.path):
        if isinstance(batch, TailBytes):
            yield batch.data
        elif not isinstance(batch, LostBytes):
            yield from (line + b"\n" for line in batch)


def _blocks(path: Path) -> Iterator[bytes | LostBytes]:
    with opened(path) as file:
        try:
            if str(file.name).endswith(".zst"):
                yield from _decompressed(file.read())
            else:
                while block := file.read(_CHUNK):
                    yield block
        except OSError as problem:
            yield LostBytes(str(problem))


def opened(path: Path) -> IO[bytes]:
    """The file of a listed segment, or its compressed copy. :raises OSError: it cannot be opened."""
    try:
        return path.open("rb")
    except FileNotFoundError:
        if not path.name.endswith(PLAIN):
            raise
    # The writer has compressed the segment since it was listed.
    return path.with_name(path.name + ".zst").open("rb")


def _decompressed(data: bytes) -> Iterator[bytes | LostBytes]:
    """The content of all frames; a damaged frame is reported, and the next one is read."""
    if not data:
        yield LostBytes("an empty file where compressed lines should be")
    at = 0
    while 0 <= at < len(data):
        try:
            at = yield from _frame(data, at)
        except zstandard.ZstdError as problem:
            yield LostBytes(f"damaged compression: {problem}")
            at = data.find(zstandard.FRAME_HEADER, at + 1)


def _frame(data: bytes, start: int) -> Generator[bytes, None, int]:
    """The content of one frame; returns the offset of the next one."""
    frame = zstandard.ZstdDecompressor().decompressobj()
    for at in range(start, len(data), _PIECE):
        if block := frame.decompress(data[at : at + _PIECE]):
            yield block
        if frame.eof:
            return min(at + _PIECE, len(data)) - len(frame.unused_data)
    raise zstandard.ZstdError("the end is missing")


class ChainEnd(NamedTuple):
    """The end of a directory's chain: the hash for the next line and the number for the next segment."""

    head: str
    next_number: int


def chain_end(directory: Path) -> ChainEnd:
    """Find the newest complete line, even if the newest segments are empty, torn or unreadable."""
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
        # An unreadable old file must not keep the controller from starting. ``audit verify`` reports it.
        log.warning("failed to open audit segment", segment=segment.path.name, error=problem.strerror)
    return last


class DirectoryLock:
    """An exclusive lock on a directory, held until the process ends."""

    def __init__(self, directory: Path, owner: str) -> None:
        """Take the lock. :raises AuditInUse: another process holds it; the message names that process."""
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
        with suppress(OSError):  # on a full disk the owner's name is missing, but the lock holds
            self._file.truncate(0)
            os.write(self._file.fileno(), f"{owner}, process {os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the lock; the file stays."""
        self._file.close()


# -- files -------------------------------------------------------------------------------------------------------------


class SegmentFile(Protocol):
    """A segment file that is open for writing."""

    def write(self, data: bytes | memoryview) -> int:
        """Append; returns how many bytes were written. :raises OSError:"""
        ...

    def truncate(self, size: int) -> None:
        """Cut off the rest of a failed write. :raises OSError:"""
        ...

    def sync(self) -> None:
        """Make all written bytes durable. :raises OSError:"""
        ...

    def close(self) -> None:
        """Close without a sync."""
        ...


FileOpener = Callable[[Path], SegmentFile]


class DiskFile:
    """A new, unbuffered file. Its directory entry is durable before the first byte."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("xb", buffering=0)
        sync_directory(path.parent)

    def write(self, data: bytes | memoryview) -> int:
        """Append as many bytes as the kernel takes."""
        return self._file.write(data)

    def truncate(self, size: int) -> None:
        """Cut off all bytes beyond ``size``; the next write appends there."""
        self._file.seek(size)
        self._file.truncate(size)

    def sync(self) -> None:
        """Call ``fsync``."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def sync_directory(directory: Path) -> None:
    """Make creations, renames and deletions in a directory durable."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def compress(path: Path) -> Path:
    """Replace a closed segment by its compressed copy. At every moment, one complete copy has its final name.

    The copy has many frames of complete lines, so that a damaged frame leaves the others readable.
    """
    target = path.with_name(path.name + ".zst")
    temporary = path.with_name(target.name + TEMPORARY)
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with path.open("rb") as source, temporary.open("wb") as copy:
        content = source.read(_FRAME_BYTES)
        # An empty segment gets a frame too, because an empty file counts as damaged.
        copy.write(compressor.compress(content + source.readline()))
        while content := source.read(_FRAME_BYTES):
            copy.write(compressor.compress(content + source.readline()))
        copy.flush()
        os.fsync(copy.fileno())
    temporary.replace(target)
    sync_directory(path.parent)
    path.unlink()
    return target


def remove_temporaries(directory: Path) -> None:
    """Remove the files of compressions that a crash interrupted."""
    for path in directory.glob(f"*{TEMPORARY}"):
        path.unlink()
