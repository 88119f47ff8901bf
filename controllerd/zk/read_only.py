"""ZooKeeper for clients that must not change anything: nothing that is built on it can write or leave a watch.

A watch is no change of data, but the server keeps it; an observer is to leave no trace but its session.
"""

from collections.abc import Callable, Coroutine, Sequence

from controllerd.errors import InvariantBroken
from controllerd.zk import codecs, paths
from controllerd.zk.access import Node, Outcome, Transaction, ZooKeeper

RULE = "observe"
"""The rule that a transaction would break, as ``InvariantBroken.rule``."""


class ReadOnly(ZooKeeper):
    """A session of which only the reads can be used."""

    def __init__(self, zk: ZooKeeper) -> None:
        self._zk = zk

    @property
    def session_id(self) -> int:
        """The id of the session below."""
        return self._zk.session_id

    async def read(self, paths: Sequence[str]) -> list[Node | None]:
        """Read many znodes."""
        return await self._zk.read(paths)

    async def read_and_watch(
        self,
        paths: Sequence[str],
        *,
        absent_too: bool = False,  # noqa: ARG002  # nothing is watched, so there is nothing to choose
    ) -> list[Node | None]:
        """Read many znodes; nothing is watched, whatever ``absent_too`` says."""
        return await self._zk.read(paths)

    async def children(
        self,
        path: str,
        *,
        watch: bool = False,  # noqa: ARG002  # as above
    ) -> list[str] | None:
        """Return the names below a znode; nothing is watched, whatever ``watch`` says."""
        return await self._zk.children(path)

    async def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Nothing is sent. :raises InvariantBroken: always."""
        operations = sum(map(len, transactions))
        raise InvariantBroken(RULE, f"observe writes nothing, and {operations} operations were to be written")

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Whether the ACL of each znode gives every client every right."""
        return await self._zk.have_open_acl(paths)

    async def sync(self) -> None:
        """Let the server catch up with its leader: a request that changes nothing."""
        await self._zk.sync()

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Run something small in the background, with no more rights than everything else here."""
        self._zk.spawn(work)


async def read_cluster_id(zk: ZooKeeper) -> str | None:
    """The id of the cluster; None before its first broker came. :raises BadZnode: it cannot be understood."""
    (node,) = await zk.read([paths.CLUSTER_ID])
    return codecs.decode_cluster_id(node.data) if node is not None else None
