"""Read and write files of kafka-reassign-partitions: version 1, topics, partitions, replicas."""

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from cli.exit_codes import CliError, ExitCode
from cli.output import note

if TYPE_CHECKING:
    from controllerd.status.schema.verbs import Move

VERSION: Final = 1
_ANY: Final = "any"
"""The log directory that Kafka's tool writes for a free choice of the broker."""

Assignment = tuple[str, int, Sequence[int]]


def rollback_of(file: Path) -> Path:
    """Return the file of the rollback of a plan: ``plan.rollback.json`` for ``plan.json``."""
    return file.with_name(f"{file.stem}.rollback{file.suffix or '.json'}")


def write_plan(file: Path, assignments: Iterable[Assignment]) -> None:
    """Write a file for kafka-reassign-partitions, too, one partition on each line.

    :raises CliError: it exists, so that no plan and no rollback is overwritten; or it cannot be written.
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(encode_plan(assignments))
    except FileExistsError:
        message = f"{file} exists and may be the rollback of another plan: name another file, or remove it"
        raise CliError(ExitCode.USAGE, message) from None
    except OSError as error:
        raise CliError(ExitCode.USAGE, f"{file} cannot be written: {error.strerror}") from None


def encode_plan(assignments: Iterable[Assignment]) -> str:
    """Encode version 1, with one partition on each line."""
    import json

    rows = [
        json.dumps({"topic": topic, "partition": partition, "replicas": list(replicas)})
        for topic, partition, replicas in assignments
    ]
    return f'{{"version": {VERSION}, "partitions": [\n  ' + ",\n  ".join(rows) + "\n]}\n"


def read_plan(file: str) -> "list[Move]":
    """Return the moves in a file; ``-`` is standard input.

    :raises CliError: it cannot be read, has an unknown version, or requests an action that no controller has
    """
    import msgspec

    name = "standard input" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CliError(ExitCode.USAGE, f"{name} cannot be read: {error.strerror}") from None
    try:
        content = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CliError(ExitCode.USAGE, f"{name} is not JSON: {error}") from None
    return _moves(name, content)


def _moves(name: str, content: object) -> "list[Move]":
    import msgspec

    from controllerd.status.schema.verbs import Move

    if not isinstance(content, dict) or not isinstance(rows := content.get("partitions"), list) or not rows:
        hint = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        raise CliError(ExitCode.USAGE, f"{name} names no partitions; it must be like {hint}")
    version = content.get("version", VERSION)
    if version != VERSION:
        raise CliError(ExitCode.USAGE, f"{name} has version {version}: only version {VERSION} is known")
    unknown, moves = set(content) - {"version", "partitions"}, []
    for row in rows:
        try:
            moves.append(msgspec.convert(_known(name, row, unknown), Move))
        except msgspec.ValidationError as error:
            raise CliError(ExitCode.USAGE, f"{name}: {_short(row)}: {error}") from None
    if unknown:
        note(f"{name}: ignored, not part of a reassignment: {', '.join(sorted(unknown))}")
    return moves


def _known(name: str, row: object, unknown: set[str]) -> object:
    """Return a row without unknown keys, and add these to ``unknown``. :raises CliError: it names a log directory."""
    if not isinstance(row, dict):
        return row
    folders = row.get("log_dirs") or []
    if not isinstance(folders, list) or any(folder != _ANY for folder in folders):
        message = (
            f"{name}: {_short(row)}: log_dirs names a directory: no controller moves replicas between the disks of a "
            "broker; leave log_dirs out, and let kafka-reassign-partitions do that part"
        )
        raise CliError(ExitCode.USAGE, message)
    unknown |= row.keys() - {"topic", "partition", "replicas", "log_dirs"}
    return {key: value for key, value in row.items() if key in {"topic", "partition", "replicas"}}


def _short(row: object) -> str:
    """Return a short name of a row."""
    if isinstance(row, dict) and "topic" in row:
        return f"{row['topic']}-{row.get('partition', '?')}"
    return str(row)[:60]
