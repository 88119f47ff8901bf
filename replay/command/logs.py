"""Read the records of one or several audit logs, from the last snapshot that the answer needs."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from controllerd.audit.chain import RawLine
from controllerd.audit.lines import AuditEntry, BadLine, decode_record
from controllerd.audit.reader import Unreadable, read_segment
from controllerd.audit.segments import Segment, list_segments
from controllerd.errors import ControllerdError
from controllerd.record.envelope import Envelope
from controllerd.record.kinds import KINDS
from controllerd.record.moments import duration, moment
from controllerd.record.records import SCHEMA_VERSION, GapRecord, Record, SnapshotBegin
from controllerd.record.travel import SKEW_MS, Logged, merged

_ELSEWHERE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""A path with a scheme; `pathlib` has shortened ``//`` to ``/``."""

_MOST_STEPS: Final = 3


class NoLog(ControllerdError):
    """A path has no audit log; the message says what to give instead."""


@dataclass(slots=True)
class Problems:
    """The problems of the logs, and the time of their end, for the readers of the answer."""

    damaged_lines: int = 0
    missing: int = 0
    """Numbers that no record has and no gap record explains, damaged lines included."""
    newer: int = 0
    """Records of a newer schema, or of kinds that this version does not know."""
    files: dict[str, str] = field(default_factory=dict)
    """Files that could not be read to their end, with the reason."""
    steps: list[str] = field(default_factory=list)
    """Steps of a wall clock against the monotonic one, as text."""
    newest_ms: int = 0
    """The latest time of a record."""

    @property
    def is_incomplete(self) -> bool:
        """Return whether the log is incomplete."""
        return bool(self.damaged_lines or self.missing > 0 or self.files)

    def sentences(self) -> Iterator[str]:
        """Yield the problems as sentences, with the next command."""
        if self.damaged_lines:
            yield f"damaged lines left out: {self.damaged_lines}; controllerctl audit verify says which are lost"
        missing = self.missing - self.damaged_lines
        if missing > 0:
            yield f"records missing: {missing}; this answer lacks their content (controllerctl audit verify)"
        if self.newer:
            are = "1 record is" if self.newer == 1 else f"{self.newer} records are"
            yield f"{are} of a newer schema than this version knows: ask the version that wrote them"
        for step in self.steps[:_MOST_STEPS]:
            yield f"{step}: moments near it may be wrong, the order of records is not; ask by --seq"
        for name, reason in self.files.items():
            yield f"{name} could not be read to its end: {reason}"


def find_logs(paths: Sequence[Path]) -> list[Path]:
    """Return the directories of audit logs at these paths or below them.

    :raises NoLog: a path does not exist or cannot be read, there is no log at it, or the logs are of several clusters
    """
    found: dict[Path, None] = {}
    for path in paths:
        if _ELSEWHERE.match(str(path)):
            raise NoLog(f"{path} is not on this host: copy it here; only run, ingest and report read it where it is")
        if not path.exists():
            raise NoLog(f"{path} does not exist: give the directory of an audit log, or one above it")
        below = _below(path)
        if not below:
            raise NoLog(
                f"{path} has no audit log: segments are named <boot>-<number>.jsonl or .jsonl.zst"
                " (Kafka's own logs are read by `controllerctl replay run`)"
            )
        found.update(dict.fromkeys(below))
    _refuse_several_clusters(list(found))
    return list(found)


def _below(path: Path) -> list[Path]:
    try:
        logs = [path] if _is_log(path) else sorted(folder for folder in _folders(path) if _is_log(folder))
        locked = [one.path for log in logs for one in list_segments(log) if _is_locked(one.path)]
    except OSError as problem:
        raise NoLog(f"cannot read {problem.filename}: {problem.strerror}") from None
    if locked:
        raise NoLog(
            f"cannot read {locked[0]}: permission denied; run the command as the owner of the log, or on a copy"
        )
    return logs


def _is_locked(path: Path) -> bool:
    """Return whether a file cannot be read. A missing file counts as readable: the writer has compressed it since."""
    return path.exists() and not os.access(path, os.R_OK)


def _folders(path: Path) -> Iterator[Path]:
    """Yield all folders below, links followed, each once."""
    seen = set[str]()
    for current, folders, _ in os.walk(path, onerror=_refuse, followlinks=True):
        real = os.path.realpath(current)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        yield Path(current)


def _refuse(problem: OSError) -> None:
    raise problem


def _refuse_several_clusters(directories: Sequence[Path]) -> None:
    """Refuse logs of several clusters, since equally named partitions would be mixed.

    :raises NoLog: there are several.
    """
    clusters: dict[str, Path] = {}
    for directory in directories:
        first = next(_entries(list_segments(directory)), None)
        if first is not None:
            clusters.setdefault(first.cluster, directory)
    if len(clusters) > 1:
        names = "; ".join(f"{cluster}, as in {path}" for cluster, path in clusters.items())
        raise NoLog(f"these are logs of {len(clusters)} clusters: {names}. Give the logs of one")


def _is_log(path: Path) -> bool:
    return path.is_dir() and bool(list_segments(path))


def read_logs(directories: Sequence[Path], problems: Problems, since_ms: int | None = None) -> Iterator[Logged]:
    """Yield the records of the logs, merged; of each log from the last snapshot at or before ``since_ms`` (None: all).

    :raises OSError: a directory cannot be listed
    """
    return merged([_read_log(directory, problems, since_ms) for directory in directories])


def _read_log(directory: Path, problems: Problems, since_ms: int | None) -> Iterator[Logged]:
    segments = list_segments(directory)
    last: Envelope | None = None
    for segment in segments[_first_needed(segments, since_ms) :]:
        for envelope, record in _records(segment, problems):
            problems.missing += _missing(last, envelope, record)
            problems.newest_ms = max(problems.newest_ms, envelope.ts_ms)
            problems.steps += _step(last, envelope)
            last = envelope
            yield envelope, record


def _missing(last: Envelope | None, envelope: Envelope, record: Record) -> int:
    """Return the number of records missing between two, without the ones that a gap record explains."""
    if last is None or last.boot != envelope.boot:
        return 0
    explained = record.last_seq - record.first_seq + 1 if isinstance(record, GapRecord) else 0
    return max(0, envelope.seq - last.seq - 1 - explained)


def _step(last: Envelope | None, envelope: Envelope) -> Iterator[str]:
    """Yield a text if the wall clock and the monotonic clock disagree between two records."""
    if last is None or last.boot != envelope.boot:
        return
    ahead_ms = envelope.ts_ms - last.ts_ms - (envelope.mono_ns - last.mono_ns) // 1_000_000
    if abs(ahead_ms) > SKEW_MS:
        way = "back" if ahead_ms < 0 else "ahead (or its host slept)"
        yield f"the clock of node {envelope.node} went {duration(abs(ahead_ms) * 1000)} {way} at {moment(last.ts_ms)}"


def _first_needed(segments: Sequence[Segment], since_ms: int | None) -> int:
    """Return the index of the first segment to read: the last one with a snapshot that begins before the moment."""
    if since_ms is None:
        return 0
    for index in range(len(segments) - 1, 0, -1):
        begins = _begins_ms(segments[index])
        if begins is not None and begins <= since_ms and _snapshot_before(segments[index], since_ms):
            return index
    return 0


def _begins_ms(segment: Segment) -> int | None:
    first = next(_entries([segment]), None)
    return first.ts_ms if first is not None else None


def _entries(segments: Sequence[Segment]) -> Iterator[AuditEntry]:
    """Yield the readable entries of segments, undecoded."""
    for segment in segments:
        with suppress(OSError):
            yield from (item.entry for item in read_segment(segment.path) if isinstance(item, RawLine))


def _snapshot_before(segment: Segment, since_ms: int) -> bool:
    for item in read_segment(segment.path):
        if isinstance(item, RawLine):
            if item.entry.ts_ms > since_ms:
                return False
            if item.entry.kind == SnapshotBegin.kind:
                return True
    return False


def _records(segment: Segment, problems: Problems) -> Iterator[Logged]:
    try:
        for item in read_segment(segment.path):
            if isinstance(item, RawLine):
                yield from _record(item, problems)
            elif isinstance(item, Unreadable):
                problems.damaged_lines += 1
    except OSError as problem:
        problems.files[segment.path.name] = str(problem)


def _record(line: RawLine, problems: Problems) -> Iterator[Logged]:
    entry = line.entry
    problems.newer += entry.v > SCHEMA_VERSION or entry.kind not in KINDS
    try:
        yield entry.envelope, decode_record(entry.kind, entry.data)
    except BadLine:
        problems.damaged_lines += 1
