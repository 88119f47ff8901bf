"""Audit logs in folders, as the daemon leaves them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from controllerd.audit.lines import GENESIS, digest, encode_line
from controllerd.record.records import Record
from tests.record.logs import NODE, Log, log_of


def lines_of(
    records: Sequence[Record], *, node: int = NODE, boot: str = "boot", epoch: int = 7, first: int = 1
) -> list[bytes]:
    """The lines of one boot with their newlines, chained, from the record of number ``first`` on."""
    return chained(log_of(records, node=node, boot=boot, epoch=epoch))[first - 1 :]


def chained(log: Log) -> list[bytes]:
    """The lines of a log with their newlines, each with the hash of the one before."""
    head, lines = GENESIS, []
    for envelope, record in log:
        line = encode_line(replace(envelope, prev=head), record)
        head = digest(line)
        lines.append(line + b"\n")
    return lines


def write_segment(folder: Path, lines: Sequence[bytes], *, boot: str = "boot", number: int = 1) -> Path:
    """One segment with these lines."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{boot}-{number:08d}.jsonl"
    path.write_bytes(b"".join(lines))
    return path
