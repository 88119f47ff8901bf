"""The input files at given paths: segments of the audit log, and Kafka's own logs."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import has_magic
from pathlib import Path
from typing import Final, Literal, NamedTuple, get_args

import zstandard

from controllerd.audit.lines import BadLine, decode_line
from controllerd.audit.segments import COMPRESSED
from replay.facts.engine import ReplayError
from replay.ingest.kafka.reader import is_kafka_log

Format = Literal["audit", "kafka"]
FORMATS: Final[tuple[Format, ...]] = get_args(Format)
EXPECTED: Final = (
    "segments of the audit log (<boot>-<number>.jsonl, also .zst) and Kafka's state-change.log, controller.log and "
    "server.log with their older files (also .gz)"
)
_SEGMENT: Final = re.compile(r".+-\d{8,}\.jsonl(?:\.zst)?")
_FILE_SCHEME: Final = re.compile(r"file:(?://)?(?=/)")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a zstd frame."""
_SNIFFED: Final = 1024 * 1024
_SHOWN: Final = 3
_CLUSTER_ID: Final = re.compile(r"_[A-Za-z0-9_-]{21}")
"""Cluster ids are 128 random bits in base64, so one of 64 begins with an underscore."""


class InputFile(NamedTuple):
    """One file to read; ordered by path."""

    path: Path
    format: Format
    size: int
    """The bytes of the file as stored."""
    mtime_ns: int

    @property
    def name(self) -> str:
        """Return the name of the file in facts: the whole path."""
        return str(self.path)


def find_sources(places: Sequence[str], log_format: str | None = None) -> list[InputFile]:
    """Return every file at these places, once each, sorted by path.

    :param places: files, folders (with all folders below them, so also ``cluster=/date=`` trees) and globs
    :param log_format: one of ``FORMATS`` for all files, whatever their names are; None: by their names
    :raises ReplayError: a place has nothing that can be read; the text says what was found, and what to do
    """
    if log_format is not None and log_format not in FORMATS:
        raise ReplayError(f"there is no format {log_format!r}: choose one of {', '.join(FORMATS)}")
    if not places:
        raise ReplayError("there is nothing to read: name a folder of the audit log, or logs of Kafka")
    found: dict[Path, InputFile] = {}
    for place in places:
        found.update((source.path, source) for source in _at(place, _known(log_format)))
    return [found[path] for path in sorted(found)]


def _known(name: str | None) -> Format | None:
    return next((one for one in FORMATS if one == name), None)


def _at(place: str, log_format: Format | None) -> list[InputFile]:
    local = on_disk(place)
    if place == "-":
        raise ReplayError("standard input is not read: save it as a file, and name that")
    if _SCHEME.match(local):
        raise ReplayError(f"{place} is not on this host: read it with --engine spark, or copy it here")
    paths = _matches(local) if has_magic(local) and not os.path.lexists(local) else [Path(local).absolute()]
    if not paths:
        raise ReplayError(f"nothing matches {place}: check the pattern, and quote it so that the shell leaves it alone")
    try:
        return [source for path in paths for source in _in(path, log_format, is_alone=len(paths) == 1)]
    except OSError as problem:
        raise ReplayError(f"cannot read {problem.filename or place}: {problem.strerror}") from None


def on_disk(place: str) -> str:
    """Return a path without ``file:`` or ``file://`` before it."""
    return _FILE_SCHEME.sub("", place, count=1) if _FILE_SCHEME.match(place) else place


def _matches(pattern: str) -> list[Path]:
    path = Path(pattern).absolute()
    return sorted(Path(path.anchor).glob(str(path.relative_to(path.anchor))))


def _in(path: Path, log_format: Format | None, *, is_alone: bool) -> list[InputFile]:
    """Return the files at a path. In a folder, or among many, files of other kinds are skipped."""
    if path.is_dir():
        files = sorted(_walk(path))
        found = list(_sources(without_twins(files), log_format))
        if not found:
            raise ReplayError(f"{path} has nothing to replay: {_listed(files)}. Expected: {EXPECTED}. {_HINT}")
        return found
    found = list(_sources([path], log_format))
    if found or not is_alone:
        return found
    if _is_audit(path):
        return [_source(path, "audit")]
    raise ReplayError(f"{path} is not the name of a log. Expected: {EXPECTED}. {_HINT}")


_HINT: Final = f"Name the folder of the log, or say what the files are with --format {'|'.join(FORMATS)}"


def _sources(paths: Iterable[Path], log_format: Format | None) -> Iterator[InputFile]:
    for path in paths:
        kind = log_format or format_of(path.name)
        if kind is not None:
            yield _source(path, kind)


def _source(path: Path, kind: Format) -> InputFile:
    status = path.stat()
    return InputFile(path, kind, status.st_size, status.st_mtime_ns)


def format_of(name: str) -> Format | None:
    """Return the format of a file by its name; None: no known format."""
    if _SEGMENT.fullmatch(name):
        return "audit"
    return "kafka" if is_kafka_log(name) else None


def _walk(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, without names that begin with a dot or an underscore, except cluster ids."""
    seen = set[str]()
    for current, folders, files in os.walk(folder, onerror=_refuse, followlinks=True):
        real = os.path.realpath(current)
        if real in seen:  # a link to a folder that was visited already
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not _is_hidden(name) or _CLUSTER_ID.fullmatch(name))
        yield from (Path(current, name) for name in files if not _is_hidden(name))


def _is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def _refuse(problem: OSError) -> None:
    raise problem


def without_twins(files: Sequence[Path]) -> Iterator[Path]:
    """Leave out the compressed copy of a segment that exists uncompressed too: the compression was not finished."""
    present = set(files)
    for path in files:
        if not (path.name.endswith(COMPRESSED) and path.with_name(path.name.removesuffix(".zst")) in present):
            yield path


def _listed(files: Sequence[Path]) -> str:
    if not files:
        return "it is empty"
    names = ", ".join([*(path.name for path in files[:_SHOWN]), *(["..."] if len(files) > _SHOWN else [])])
    return f"found {len(files)} file(s) of other kinds ({names})"


def _is_audit(path: Path) -> bool:
    """Return whether the first line is one of the audit log."""
    with path.open("rb") as file:
        begin = file.read(_SNIFFED)
    if begin.startswith(_MAGIC):
        try:
            begin = zstandard.ZstdDecompressor().decompressobj().decompress(begin)
        except zstandard.ZstdError:
            return False
    try:
        decode_line(begin.partition(b"\n")[0])
    except BadLine:
        return False
    return True
