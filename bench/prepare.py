"""Prepared data of a ZooKeeper that holds a cluster of a given size: made once, cached, and copied for each run."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from bench import layout
from controllerd.dev.zookeeper import EmbeddedZooKeeper
from controllerd.record.records import Record
from controllerd.zk.access import CheckVersion, Committed, Create, Delete, Operation, SetData
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession
from events.base import Event

HEAP_MIB: Final = 2_048
SESSION_MS: Final = 60_000
"""A long timeout, so that the harness's own sessions hardly ping during a measurement."""
WAIT_S: Final = 60.0
_FORMAT: Final = 1
"""A version of the layout. Raise it when the layout changes, so that older data is not used."""
_TRANSACTION: Final = 500
_SCRATCH: Final = "/bench-warm-up"
_SCRATCH_DATA: Final = b"x" * 80
_WARMING: Final = 100
"""Rounds of the warm-up, each of five transactions of 500 operations."""


class BenchError(Exception):
    """An operation of the harness was refused, or a measurement is not valid."""


class _IgnoreEvents:
    """Ignore the events of the harness's session."""

    def record(self, *records: Record) -> None:
        """Drop the records."""

    async def accepted(self) -> None:
        """Return at once."""

    def put(self, event: Event) -> None:
        """Drop the event."""

    def clear_and_put(self, event: Event) -> None:
        """Drop the event of a lost session: the next operation fails with that error."""


@asynccontextmanager
async def session(connect: str) -> AsyncIterator[KazooZooKeeper]:
    """Open a ZooKeeper session of the harness for the block."""
    ignored = _IgnoreEvents()
    opened = ZooKeeperSession(connect, SESSION_MS, ignored, ignored)
    zk = KazooZooKeeper(opened)
    await opened.open(WAIT_S)
    try:
        yield zk
    finally:
        zk.close()
        await opened.close()


async def commit(zk: KazooZooKeeper, operations: Sequence[Operation]) -> None:
    """Write without a check of the controller epoch. Up to 500 operations are one transaction, which causes one event.

    :raises BenchError: ZooKeeper refused.
    """
    chunks = [operations[start : start + _TRANSACTION] for start in range(0, len(operations), _TRANSACTION)]
    for outcome in await zk.commit(chunks):
        if not isinstance(outcome, Committed):
            raise BenchError(f"the cluster could not be prepared: {outcome}")


def default_cache() -> Path:
    """Return the folder of the prepared data, in the user's cache folder."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "controllerd" / "bench"


async def template(partitions: int, cache: Path) -> Path:
    """Return the data of a ZooKeeper with a cluster of this size, from the cache or made now."""
    kept = cache / f"zookeeper-{_FORMAT}-{partitions}"
    if not _is_there(kept):
        with tempfile.TemporaryDirectory(prefix="making-", dir=cache) as folder:
            made = await _make(Path(folder), partitions // layout.TOPIC_PARTITIONS)
            if not _is_there(kept):  # another run may have made it meanwhile
                made.rename(kept)
    return kept


def _is_there(kept: Path) -> bool:
    kept.parent.mkdir(parents=True, exist_ok=True)
    return kept.is_dir()


async def _make(folder: Path, topics: int) -> Path:
    async with EmbeddedZooKeeper(folder, heap_mib=HEAP_MIB) as server:
        async with session(server.connect) as zk:
            await commit(zk, layout.roots())
            for number in range(topics):
                await commit(zk, layout.topic_with_states(number))
        await server.restart()  # a server writes a whole snapshot when it starts
    data = folder / "data"
    _keep_only_the_last_snapshot(data / "version-2")
    return data


def _keep_only_the_last_snapshot(folder: Path) -> None:
    last = max(folder.glob("snapshot.*"), key=lambda path: int(path.suffix.removeprefix("."), 16))
    _remove(path for path in folder.iterdir() if path != last)


def _remove(files: Iterable[Path]) -> None:
    for path in files:
        path.unlink()


async def warm_up(zk: KazooZooKeeper) -> None:
    """Run typical transactions on scratch znodes, so that the JVM of a fresh server has compiled their code."""
    scratch = [f"{_SCRATCH}/{number}" for number in range(_TRANSACTION - 1)]
    guard = CheckVersion(_SCRATCH, 0)
    create: tuple[Operation, ...] = (guard, *(Create(path, _SCRATCH_DATA) for path in scratch))
    write: tuple[Operation, ...] = (guard, *(SetData(path, _SCRATCH_DATA, -1) for path in scratch))
    delete: tuple[Operation, ...] = (guard, *(Delete(path, -1) for path in scratch))
    await commit(zk, [Create(_SCRATCH, None)])
    for _ in range(_WARMING):
        await commit(zk, [*create, *write, *write, *write, *delete])
        await zk.read(scratch)
    await commit(zk, [Delete(_SCRATCH, -1)])


def restore(kept: Path, folder: Path) -> None:
    """Copy the prepared data into ``folder`` and flush it, so that no later step waits for the disk."""
    shutil.copytree(kept, folder / "data")
    os.sync()
