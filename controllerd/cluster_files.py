"""Files in the data directory with the settings and versions of brokers, for a start at which no broker answers.

A data directory may be copied from an instance of another cluster, or ``zookeeper.connect`` may be changed. Settings
and versions do not show to which cluster they belong, so each file names its cluster. A file of another cluster, or an
unusable file, is ignored: the brokers will answer again, and the next write replaces the file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import structlog

log = structlog.get_logger(__name__)


class StoredFile(msgspec.Struct):
    """The fields that every such file has; subclasses add their content."""

    cluster_id: str
    version: Literal[1]
    """The version of the file's format."""


K = TypeVar("K", bound=StoredFile)
T = TypeVar("T")


def read_stored(file: Path, kind: type[K], cluster_id: str, convert: Callable[[K], T]) -> T | None:
    """Read a file and return the result of ``convert``; None if there is no usable file of this cluster.

    ``convert`` raises ValueError for invalid content. Blocks on the disk.
    """
    try:
        raw = file.read_bytes()
        owner = msgspec.json.decode(raw, type=StoredFile).cluster_id
        if owner == cluster_id:
            return convert(msgspec.json.decode(raw, type=kind))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        log.warning("failed to read stored file", file=str(file), reason=str(error))
        return None
    log.info("ignored stored file of another cluster", file=str(file), cluster=owner)
    return None


def write_stored(file: Path, kept: StoredFile) -> None:
    """Replace the file. Blocks on the disk. :raises OSError: it cannot be written."""
    write_durably(file, msgspec.json.encode(kept))


def write_durably(file: Path, content: bytes) -> None:
    """Replace a file atomically and durably: write a new file, sync it, and rename it.

    :raises OSError: it cannot be written.
    """
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
