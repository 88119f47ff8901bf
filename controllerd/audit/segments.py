"""The directory of an audit log: segment names and their order, the lock, the files, and where the chain continues.

Segments are ``<boot>-<number>.jsonl``; the number goes on across boots, so it alone orders the segments of a directory.
A closed segment has ``.zst`` appended. Bytes after the last newline are no line: they are what a crash cut off.
"""

import fcntl
import os
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, BinaryIO, Final, NamedTuple, Protocol
from urllib.parse import quote

import zstandard

from controllerd.audit.lines import GENESIS, digest
from controllerd.errors import ControllerdError

LOCK_NAME: Final = "lock"
PLAIN: Final = ".jsonl"
COMPRESSED: Final = ".jsonl.zst"
TEMPORARY: Final = ".tmp"
_CHUNK: Final = 1024 * 1024
_FRAME_HEADER_MAX: Final = 18
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


def read_lines(segment: Segment) -> Iterator[bytes]:
    """The lines with their newlines; the last may lack it.

    :raises OSError: it cannot be read. :raises zstandard.ZstdError: the compressed bytes are damaged from here on.
    """
    path = segment.path
    if not segment.is_compressed and not path.exists():
        path = path.with_name(path.name + ".zst")  # a running writer has compressed it since it was listed
    with path.open("rb") as file:
        yield from _split(_decompressed(file)) if path.name.endswith(COMPRESSED) else file


def _decompressed(file: BinaryIO) -> Iterator[bytes]:
    expected = zstandard.get_frame_parameters(file.read(_FRAME_HEADER_MAX)).content_size
    file.seek(0)
    total = 0
    with zstandard.ZstdDecompressor().stream_reader(file) as stream:
        while chunk := stream.read(_CHUNK):
            total += len(chunk)
            yield chunk
    if total != expected:  # a frame that was cut off ends like a complete one
        raise zstandard.ZstdError(f"{total} bytes instead of {expected}")


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    carry = b""
    for chunk in chunks:
        *lines, carry = (carry + chunk).split(b"\n")
        for line in lines:
            yield line + b"\n"
    if carry:
        yield carry


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
        for line in read_lines(segment):
            if line.endswith(b"\n"):
                last = line[:-1]
    except zstandard.ZstdError:
        return last
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
            holder = self._file.read().strip()
            self._file.close()
            raise AuditInUse(
                f"audit directory {directory} is being written by {holder or 'another process'}: "
                "two controllerd with the same node id and cluster must not run"
            ) from None
        self._file.truncate(0)
        self._file.write(f"{owner}, process {os.getpid()}\n")
        self._file.flush()

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
    """Replace a closed segment by its compressed copy, so that at every moment one complete copy has its final name."""
    target = path.with_name(path.name + ".zst")
    temporary = path.with_name(target.name + TEMPORARY)
    compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
    with path.open("rb") as source, temporary.open("wb") as copy:
        compressor.copy_stream(source, copy, size=path.stat().st_size)
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
