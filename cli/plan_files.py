"""Files of reassignments as kafka-reassign-partitions has them: version 1, topics, partitions, replicas."""

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
"""A log directory that the broker chooses, which is what Kafka's tool writes where nobody cares."""

Assignment = tuple[str, int, Sequence[int]]


def rollback_of(file: Path) -> Path:
    """Where the way back of a plan is kept: ``plan.json`` has ``plan.rollback.json``."""
    return file.with_name(f"{file.stem}.rollback{file.suffix or '.json'}")


def write_plan(file: Path, assignments: Iterable[Assignment]) -> None:
    """Write what kafka-reassign-partitions takes as well, one partition on each line.

    :raises CliError: it exists, so that no plan and no way back is overwritten; or it cannot be written.
    """
    try:
        with file.open("x", encoding="utf-8") as out:
            out.write(encode_plan(assignments))
    except FileExistsError:
        message = f"{file} exists and may be the way back of another plan: name another file, or remove it"
        raise CliError(ExitCode.USAGE, message) from None
    except OSError as error:
        raise CliError(ExitCode.USAGE, f"{file} cannot be written: {error.strerror}") from None


def encode_plan(assignments: Iterable[Assignment]) -> str:
    """Version 1, one partition on each line."""
    import json

    rows = [
        json.dumps({"topic": topic, "partition": partition, "replicas": list(replicas)})
        for topic, partition, replicas in assignments
    ]
    return f'{{"version": {VERSION}, "partitions": [\n  ' + ",\n  ".join(rows) + "\n]}\n"


def read_plan(file: str) -> "list[Move]":
    """The moves that a file asks for; ``-`` is standard input.

    :raises CliError: it cannot be read, is of no version that we know, or asks for what no controller does.
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
        raise CliError(ExitCode.USAGE, f"{name} is no JSON: {error}") from None
    return _moves(name, content)


def _moves(name: str, content: object) -> "list[Move]":
    import msgspec

    from controllerd.status.schema.verbs import Move

    if not isinstance(content, dict) or not isinstance(rows := content.get("partitions"), list) or not rows:
        hint = '{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 2]}]}'
        raise CliError(ExitCode.USAGE, f"{name} names no partitions; it must be like {hint}")
    version = content.get("version", VERSION)
    if version != VERSION:
        raise CliError(ExitCode.USAGE, f"{name} is of version {version}: only version {VERSION} is known")
    unknown, moves = set(content) - {"version", "partitions"}, []
    for row in rows:
        try:
            moves.append(msgspec.convert(_known(name, row, unknown), Move))
        except msgspec.ValidationError as error:
            raise CliError(ExitCode.USAGE, f"{name}: {_short(row)}: {error}") from None
    if unknown:
        note(f"{name}: ignored, as nothing of a reassignment: {', '.join(sorted(unknown))}")
    return moves


def _known(name: str, row: object, unknown: set[str]) -> object:
    """A row without what we do not know. :raises CliError: it names a log directory."""
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
    """Which row it is."""
    if isinstance(row, dict) and "topic" in row:
        return f"{row['topic']}-{row.get('partition', '?')}"
    return str(row)[:60]
