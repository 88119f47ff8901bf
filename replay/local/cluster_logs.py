"""Read the audit logs of a cluster on this host: each node's segments in order, and several nodes as one log."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from controllerd.audit.chain import RawLine
from controllerd.audit.lines import BadLine, decode_record
from controllerd.audit.reader import read_chunks
from controllerd.record.envelope import Envelope, UnknownRecord
from controllerd.record.records import Record
from controllerd.record.travel import merged
from replay.facts.engine import ReplayError
from replay.local.pool import advance

Logged = tuple[Envelope, Record]
_NUMBER: Final = re.compile(r".+-(\d{8,})\.jsonl(?:\.zst)?")


class ClusterLogs(NamedTuple):
    """The segments of every node of one cluster, in order."""

    cluster: str
    nodes: tuple[tuple[Path, ...], ...]


def clusters_of(paths: Iterable[Path]) -> list[ClusterLogs]:
    """Group segments by the cluster in their records; a folder has one node's log.

    :raises ReplayError: a segment does not exist any more
    """
    folders: dict[Path, list[Path]] = {}
    for path in sorted(paths, key=_age):
        folders.setdefault(path.parent, []).append(path)
    found: dict[str, list[tuple[Path, ...]]] = {}
    for _, files in sorted(folders.items()):
        first = next((line.entry for path in files for line in _lines(path)), None)
        if first is not None:
            found.setdefault(first.cluster, []).append(tuple(files))
    return [ClusterLogs(cluster, tuple(nodes)) for cluster, nodes in sorted(found.items())]


def read_cluster(logs: ClusterLogs, kinds: Collection[str] | None = None) -> Iterator[Logged]:
    """Yield the records of a cluster in the order of their effect, in bounded memory. Each line is one step (``pool``).

    :param kinds: the requested kinds, None: all; other records are not decoded
    :raises ReplayError: a segment does not exist any more
    """
    return merged([_node(paths, kinds) for paths in logs.nodes])


def _node(paths: Sequence[Path], kinds: Collection[str] | None) -> Iterator[Logged]:
    for path in paths:
        for line in _lines(path):
            entry = line.entry
            if kinds is None or entry.kind in kinds:
                try:
                    record = decode_record(entry.kind, entry.data)
                except BadLine:
                    record = UnknownRecord(entry.kind)
                yield entry.envelope, record


def _lines(path: Path) -> Iterator[RawLine]:
    try:
        for chunk in read_chunks(path):
            if isinstance(chunk, list):
                yield from chunk
                advance(len(chunk))
    except OSError as problem:
        raise ReplayError(
            f"{path} was ingested and cannot be read any more ({problem.strerror}): the invariants and the last state "
            "need the logs themselves, so restore it, or choose other tables"
        ) from None


def _age(path: Path) -> tuple[Path, int, str]:
    """The key that sorts segments by folder, and within a folder from the oldest to the newest."""
    match = _NUMBER.fullmatch(path.name)
    return path.parent, int(match[1]) if match is not None else 0, path.name
