"""Files in the data directory that keep what one cluster's brokers said, for a start at which none answers.

A data directory may be copied from an instance of another cluster, or ``zookeeper.connect`` changed
under it, and nothing in the settings or versions of brokers shows whose they are. So each of these
files names its cluster. A file of another cluster, or one that cannot be used, counts as none: the
brokers say it all again, and the next write replaces the file.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeVar

import msgspec
import structlog

log = structlog.get_logger(__name__)


class Kept(msgspec.Struct):
    """The beginning of every such file; what is kept of the cluster follows."""

    cluster_id: str
    version: Literal[1]
    """The version of the file's format."""


K = TypeVar("K", bound=Kept)
T = TypeVar("T")


def read_kept(file: Path, kind: type[K], cluster_id: str, understand: Callable[[K], T]) -> T | None:
    """Return what ``understand`` makes of the file; None if there is none, or none of this cluster that is usable.

    ``understand`` raises ValueError where the content makes no sense. Blocks for the disk.
    """
    try:
        raw = file.read_bytes()
        owner = msgspec.json.decode(raw, type=Kept).cluster_id
        if owner == cluster_id:
            return understand(msgspec.json.decode(raw, type=kind))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:  # msgspec's errors are ValueErrors
        log.warning("could not use kept file", file=str(file), reason=str(error))
        return None
    log.info("ignored kept file of another cluster", file=str(file), cluster=owner)
    return None


def write_kept(file: Path, kept: Kept) -> None:
    """Replace the file. Blocks for the disk. :raises OSError: it cannot be written."""
    write_durably(file, msgspec.json.encode(kept))


def write_durably(file: Path, content: bytes) -> None:
    """Write beside the file, force it to the disk, then replace: all of it or nothing, whatever happens meanwhile.

    :raises OSError: it cannot be written.
    """
    fresh = file.with_suffix(".new")
    with fresh.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
    fresh.replace(file)
