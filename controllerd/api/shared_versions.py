"""The versions of relayed APIs that all brokers serve, kept for the time in which no broker is live.

A client fails for good when the ApiVersions answer of every node that it reaches lacks an API that
it needs: a transactional producer of Java ends with UnsupportedVersionException, where a cluster
that is down only gives it a timeout, after which it may try again. While no broker is live this
node alone answers, so it must continue to list the APIs that it relays. A request that cannot be
relayed at that time ends with a closed connection, after which clients try again.

The list has the versions that all live brokers served last, kept with the cluster's id in the data
directory for the next start. Before any broker has ever answered, it has those of the release whose
protocol the cluster speaks. A list that promises too much costs a client one connection, since the relay compares
versions with the broker's own.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import structlog

from controllerd.cluster_files import StoredFile, read_stored, write_stored
from controllerd.core.releases import NEWEST, Release
from wire.versions import VersionRange

VERSIONS_FILE: Final = "api_versions.json"
"""The file in the data directory with the versions that all live brokers served last."""

NEW_HIGHEST: Final[Mapping[Release, Mapping[int, int]]] = MappingProxyType({
    Release(2, 6): {
        0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 15: 5, 21: 2, 22: 3, 23: 3, 24: 1,
        25: 1, 26: 1, 27: 0, 28: 3, 29: 2, 30: 2, 31: 2, 32: 3, 33: 1, 34: 1, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 44: 1,
        47: 0, 48: 0, 49: 0,
    },
    Release(2, 7): {1: 12, 22: 4, 24: 2, 25: 2, 26: 2, 50: 0},
    Release(2, 8): {
        0: 9, 2: 6, 3: 11, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 32: 4, 33: 2, 34: 2, 48: 1, 49: 1, 61: 0,
    },
    Release(3, 0): {2: 7, 9: 8, 10: 4, 65: 0},
    Release(3, 1): {1: 13, 3: 12},
    Release(3, 2): {11: 9, 13: 5},
    Release(3, 3): {29: 3, 30: 3, 31: 3, 38: 3, 41: 3},
    Release(3, 5): {1: 15, 2: 8},
    Release(3, 6): {24: 4},
    Release(3, 7): {0: 10, 1: 16, 8: 9, 9: 9, 68: 0},
    Release(3, 8): {0: 11, 10: 5, 22: 5, 24: 5, 25: 4, 26: 4, 28: 4, 69: 0},
    Release(3, 9): {1: 17, 2: 9, 10: 6},
})  # fmt: skip
"""The highest version by API key, where it differs from the release before; the lowest is always 0.

It has only APIs that are relayed, at least in part. A test compares them with the answers of real
brokers.
"""

_LOG = structlog.get_logger(__name__)


def ranges_of(release: Release) -> dict[int, VersionRange]:
    """Return the versions of relayed APIs that brokers of this release serve."""
    highest: dict[int, int] = {}
    for each, changed in NEW_HIGHEST.items():
        if each <= release:
            highest |= changed
    return {api_key: VersionRange(0, version) for api_key, version in highest.items()}


def intersection(brokers: Iterable[Mapping[int, VersionRange]]) -> dict[int, VersionRange]:
    """Return the versions that every one of these brokers serves; empty without brokers."""
    first, *others = [*brokers] or [{}]
    shared = dict(first)
    for other in others:
        pairs = {key: overlap(versions, other[key]) for key, versions in shared.items() if key in other}
        shared = {key: both for key, both in pairs.items() if both is not None}
    return shared


def overlap(one: VersionRange, other: VersionRange) -> VersionRange | None:
    """Return the versions in both ranges; None if there are none."""
    both = VersionRange(max(one.lowest, other.lowest), min(one.highest, other.highest))
    return both if both.lowest <= both.highest else None


class _KeptVersions(StoredFile):
    ranges: dict[int, VersionRange]


class SharedVersions:
    """The versions that all live brokers serve, or served last. Used by the event loop's thread only."""

    def __init__(self, release: Callable[[], Release] = lambda: NEWEST, folder: Path | None = None) -> None:
        """``release`` returns the release whose versions are listed until a broker has answered.

        ``folder`` keeps the versions for the next start, from ``recall`` on.
        """
        self._file = folder / VERSIONS_FILE if folder is not None else None
        self._release = release
        self._cluster_id: str | None = None
        self._latest: Mapping[int, VersionRange] = {}
        self._saved: Mapping[int, VersionRange] = {}
        self._saving: asyncio.Task[None] | None = None

    async def recall(self, cluster_id: str) -> None:
        """Begin with the versions that brokers of this cluster served last, and keep later ones as its own."""
        if self._file is not None:
            kept = await asyncio.to_thread(read_stored, self._file, _KeptVersions, cluster_id, _ranges_in)
            self._latest = self._saved = kept or {}
        self._cluster_id = cluster_id

    def of(self, brokers: Iterable[Mapping[int, VersionRange]]) -> Mapping[int, VersionRange]:
        """Return the versions that all of these brokers serve, and keep them.

        Without brokers, return the versions that brokers served last.
        """
        shared = intersection(brokers)
        if shared:
            self._latest = shared
            self._save()
        return self._latest or ranges_of(self._release())

    async def close(self) -> None:
        """Wait until the versions are on disk."""
        if self._saving is not None:
            await self._saving

    def _save(self) -> None:
        if self._file is None or self._cluster_id is None:
            return
        if self._latest != self._saved and self._saving is None:
            saving = self._save_latest(self._file, self._cluster_id)
            self._saving = asyncio.create_task(saving, name="save-api-versions")

    async def _save_latest(self, file: Path, cluster_id: str) -> None:
        """Write until the file has the latest versions; a failed write is logged and changes no answer."""
        try:
            while self._latest != self._saved:
                saved = self._latest
                kept = _KeptVersions(cluster_id, 1, {key: saved[key] for key in sorted(saved)})
                await asyncio.to_thread(write_stored, file, kept)
                self._saved = saved
        except OSError as error:
            self._saved = self._latest  # no further attempt before they change
            _LOG.warning("could not save the API versions of brokers", file=str(file), error=str(error))
        finally:
            self._saving = None


def _ranges_in(kept: _KeptVersions) -> Mapping[int, VersionRange]:
    return kept.ranges
