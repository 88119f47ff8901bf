"""ZooKeeper for clients that must not change anything: it refuses every transaction and sets no watch.

A watch changes no data, but the server keeps it. An observer must leave nothing in ZooKeeper but its session.
"""

from collections.abc import Callable, Coroutine, Sequence

from controllerd.errors import InvariantBroken
from controllerd.zk import codecs, paths
from controllerd.zk.access import Transaction, TransactionOutcome, Znode, ZooKeeper

RULE = "observe"
"""The rule that a transaction breaks, as ``InvariantBroken.rule``."""


class ReadOnly(ZooKeeper):
    """A session of which only the reads can be used."""

    def __init__(self, zk: ZooKeeper) -> None:
        self._zk = zk

    @property
    def session_id(self) -> int:
        """The id of the session."""
        return self._zk.session_id

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read many znodes."""
        return await self._zk.read(paths)

    async def read_and_watch(
        self,
        paths: Sequence[str],
        *,
        absent_too: bool = False,  # noqa: ARG002  # nothing is watched, so there is nothing to choose
    ) -> list[Znode | None]:
        """Read many znodes without a watch; ``absent_too`` has no effect."""
        return await self._zk.read(paths)

    async def children(
        self,
        path: str,
        *,
        watch: bool = False,  # noqa: ARG002  # as above
    ) -> list[str] | None:
        """Return the names below a znode without a watch; ``watch`` has no effect."""
        return await self._zk.children(path)

    async def commit(self, transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        """Send nothing. :raises InvariantBroken: always."""
        operations = sum(map(len, transactions))
        raise InvariantBroken(RULE, f"observe writes nothing, but {operations} operations were about to be written")

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Whether the ACL of each znode gives every client every right."""
        return await self._zk.have_open_acl(paths)

    async def sync(self) -> None:
        """Wait until the server has caught up with the leader of ZooKeeper; this changes nothing."""
        await self._zk.sync()

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run a small task in the background."""
        self._zk.spawn(work)


async def read_cluster_id(zk: ZooKeeper) -> str | None:
    """Return the id of the cluster; None before its first broker. :raises BadZnode: it cannot be decoded."""
    (node,) = await zk.read([paths.CLUSTER_ID])
    return codecs.decode_cluster_id(node.data) if node is not None else None
