"""``access.ZooKeeper`` over the session: requests in chunks and windows, repeated reads, watches of one generation.

A generation is the time from the opening of one ZooKeeper session to its loss (``session``).
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import structlog
from kazoo.exceptions import NoNodeError, UnimplementedError, ZookeeperError
from kazoo.protocol.serialization import Exists, GetACL, GetChildren, GetData, Sync
from kazoo.protocol.states import EventType, WatchedEvent
from kazoo.security import Permissions

from controllerd.errors import StoreUnavailable
from controllerd.zk.access import Aborted, Fired, ReplyLost, Transaction, TransactionOutcome, Znode
from controllerd.zk.driver import hop
from controllerd.zk.multiread import UNREADABLE_VERSION, Multi, MultiRead, Nodes, SetWatches, node_of
from controllerd.zk.session import ConnectionBroken, ZooKeeperSession

log = structlog.get_logger(__name__)

READ_CHUNK: Final = 500
READS_IN_FLIGHT: Final = 4
SINGLE_READS_IN_FLIGHT: Final = 200
TRANSACTIONS_IN_FLIGHT: Final = 2
_FEW: Final = 16
"""Up to this number, watched reads are single GetData requests: cheaper than a MultiRead and a SetWatches."""

_FIRED: Final = {
    EventType.CREATED: Fired.CREATED,
    EventType.DELETED: Fired.DELETED,
    EventType.CHANGED: Fired.CHANGED,
    EventType.CHILD: Fired.CHILD,
}

T = TypeVar("T")


class OnWatch(Protocol):
    """Takes the watches that fire."""

    def __call__(self, path: str, fired: Fired, /) -> None:
        """Take the path of a watch that fired, and the reason."""
        ...


class KazooZooKeeper:
    """``access.ZooKeeper`` over a ``ZooKeeperSession``."""

    def __init__(self, session: ZooKeeperSession) -> None:
        self._session = session
        self._loop = asyncio.get_running_loop()
        self._on_watch: OnWatch = _ignore
        self._knows_multi_read = True
        self._watchers: dict[int, Callable[[WatchedEvent], None]] = {}
        self._background: set[asyncio.Task[None]] = set()

    @property
    def session_id(self) -> int:
        """The id of the present session."""
        return self._session.session_id

    def listen(self, on_watch: OnWatch) -> None:
        """Call ``on_watch`` for every watch that fires in the generation in which it was armed."""
        self._on_watch = on_watch

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read many znodes in chunks, several chunks in flight. Sets no watch."""
        return await self._in_chunks(paths, self._read_chunk)

    async def read_and_watch(self, paths: Sequence[str], *, absent_too: bool = False) -> list[Znode | None]:
        """Read many znodes and watch their data; with ``absent_too`` missing ones are watched for creation."""
        if len(paths) <= _FEW or not self._knows_multi_read:
            reads = [partial(self._get, path, watch=True, absent_too=absent_too) for path in paths]
            return await self._windowed(reads, SINGLE_READS_IN_FLIGHT)
        return await self._in_chunks(paths, partial(self._read_chunk_and_watch, absent_too=absent_too))

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Return the names below a znode, None if it does not exist."""
        try:
            names: list[str] = await self._ask(GetChildren(self._full(path), self._watcher() if watch else None))
        except NoNodeError:
            return None
        return names

    async def commit(self, transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        """Send transactions in order, two in flight."""
        return await self._windowed([partial(self._commit, t) for t in transactions], TRANSACTIONS_IN_FLIGHT)

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Whether the ACL of each znode gives every client every right; None if it does not exist."""
        return await self._windowed([partial(self._have_open_acl, path) for path in paths], SINGLE_READS_IN_FLIGHT)

    async def sync(self) -> None:
        """Wait until the server has caught up with the leader of ZooKeeper."""
        await self._ask(Sync(self._full("/")))

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a small task in the background; it ends with the session, because the next one reads everything."""
        task = self._loop.create_task(_until_lost(work))
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    def close(self) -> None:
        """Cancel the tasks in the background."""
        for task in self._background:
            task.cancel()

    async def _read_chunk(self, paths: Sequence[str]) -> list[Znode | None]:
        if not self._knows_multi_read:
            reads = [partial(self._get, path) for path in paths]
            return await self._windowed(reads, SINGLE_READS_IN_FLIGHT // READS_IN_FLIGHT)
        try:
            return (await self._multi_read(paths)).nodes
        except UnimplementedError:
            log.info("zookeeper server does not support MultiRead, reading znodes one by one")
            self._knows_multi_read = False
            return await self._read_chunk(paths)

    async def _read_chunk_and_watch(self, paths: Sequence[str], *, absent_too: bool) -> list[Znode | None]:
        try:
            zxid, nodes = await self._multi_read(paths)
        except UnimplementedError:
            self._knows_multi_read = False
            return await self.read_and_watch(paths, absent_too=absent_too)
        found = list(zip(paths, nodes, strict=True))
        await self._ask(
            SetWatches(
                self._session.client,
                self._watcher(),
                zxid,
                existing=[self._full(path) for path, node in found if node is not None],
                missing=[self._full(path) for path, node in found if node is None and absent_too],
            )
        )
        return nodes

    async def _multi_read(self, paths: Sequence[str]) -> Nodes:
        nodes: Nodes = await self._ask(MultiRead([self._full(path) for path in paths]))
        return nodes

    async def _get(self, path: str, *, watch: bool = False, absent_too: bool = False) -> Znode | None:
        watcher = self._watcher() if watch else None
        while True:
            try:
                data, stat = await self._ask(GetData(self._full(path), watcher))
                return node_of(data, stat)
            except NoNodeError:
                if not absent_too or await self._ask(Exists(self._full(path), watcher)) is None:
                    return None
                # The znode was created between the two requests, so it is read again.
            except ZookeeperError as error:
                log.warning("znode cannot be read", path=path, error=type(error).__name__)
                return Znode(None, UNREADABLE_VERSION, 0)

    async def _commit(self, transaction: Transaction) -> TransactionOutcome:
        self._session.timings.on_commit(len(transaction))
        try:
            (outcome,) = await self._session.ask(Multi(transaction, self._session.chroot))
        except ConnectionBroken:
            return ReplyLost()
        except ZookeeperError as error:
            return Aborted(0, -1, error.code)
        committed_or_aborted: TransactionOutcome = outcome
        return committed_or_aborted

    async def _have_open_acl(self, path: str) -> bool | None:
        try:
            acls, _ = await self._ask(GetACL(self._full(path)))
        except NoNodeError:
            return None
        return any(acl.perms == Permissions.ALL and acl.id == ("world", "anyone") for acl in acls)

    async def _ask(self, request: object) -> Any:
        """Send a read until it is answered: a repeated read does no harm."""
        while True:
            try:
                return await self._session.ask(request)
            except ConnectionBroken:
                log.debug("repeating read after a broken connection", request=type(request).__name__)

    async def _in_chunks(
        self, paths: Sequence[str], read: Callable[[Sequence[str]], Coroutine[Any, Any, list[Znode | None]]]
    ) -> list[Znode | None]:
        chunks = [paths[start : start + READ_CHUNK] for start in range(0, len(paths), READ_CHUNK)]
        answers = await self._windowed([partial(read, chunk) for chunk in chunks], READS_IN_FLIGHT)
        return [node for answer in answers for node in answer]

    @staticmethod
    async def _windowed(calls: Sequence[Callable[[], Coroutine[Any, Any, T]]], in_flight: int) -> list[T]:
        """Return the results in order; at most ``in_flight`` calls run at a time. A failure is raised at the end."""
        if len(calls) == 1:
            return [await calls[0]()]
        window = asyncio.Semaphore(in_flight)

        async def one(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
            async with window:
                return await call()

        results = await asyncio.gather(*(one(call) for call in calls), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return [result for result in results if not isinstance(result, BaseException)]

    def _full(self, path: str) -> str:
        return self._session.chroot + path if path != "/" else self._session.chroot or "/"

    def _watcher(self) -> Callable[[WatchedEvent], None]:
        """Return the one callable of the present generation: kazoo keeps watchers in sets."""
        generation = self._session.generation
        if generation not in self._watchers:
            self._watchers = {generation: partial(self._from_kazoo, generation)}
        return self._watchers[generation]

    def _from_kazoo(self, generation: int, event: WatchedEvent) -> None:
        """Hand a fired watch over to the loop's thread. Runs in kazoo's thread.

        Events of type NONE are broken connections, after which ``Resync`` is enqueued.
        """
        fired = _FIRED.get(event.type)
        if fired is not None:
            hop(self._loop, self._fired, generation, event.path, fired)

    def _fired(self, generation: int, path: str, fired: Fired) -> None:
        if generation == self._session.generation:
            self._on_watch(path, fired)


def _ignore(_path: str, _fired: Fired, /) -> None:
    """Ignore a watch that fires before a listener is set."""


async def _until_lost(work: Callable[[], Coroutine[object, object, None]]) -> None:
    try:
        await work()
    except StoreUnavailable as error:
        log.info("background task ended with the session", reason=str(error))
