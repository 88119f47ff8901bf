"""Sessions of brokers, testers and other controllers on the real ZooKeeper, so that their ephemerals end with them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from controllerd.zk.access import Committed, Operation, Znode
from controllerd.zk.connection import KazooZooKeeper
from controllerd.zk.session import ZooKeeperSession
from tests.fakes.audit import RecordingAudit
from tests.zk.world import Events

_SESSION_MS = 20_000


@dataclass(frozen=True)
class Outsider:
    """One session."""

    session: ZooKeeperSession
    zk: KazooZooKeeper

    async def close(self) -> None:
        """End the session: its ephemeral znodes are deleted."""
        self.zk.close()
        await self.session.close()


class Outsiders:
    """The sessions by name; a name has two while a broker bounces."""

    def __init__(self, connect: str) -> None:
        self._connect = connect
        self._open: defaultdict[str, list[Outsider]] = defaultdict(list)

    async def act(self, name: str, operations: Sequence[Operation], *, anew: bool = False) -> int:
        """Write in one transaction, with ``anew`` in a session of its own; must succeed. Returns its zxid."""
        if anew:
            self._open[name].append(await self._connected())
        (outcome,) = await (await self._latest(name)).zk.commit([operations])
        assert isinstance(outcome, Committed), f"{operations}: {outcome}"
        return outcome.zxid

    async def read_all(self) -> dict[str, Znode]:
        """Read every znode."""
        zk, found, folders = (await self._latest("test")).zk, dict[str, Znode](), ["/"]
        while folders:
            folder = folders.pop().rstrip("/")
            paths = [f"{folder}/{name}" for name in await zk.children(folder or "/") or []]
            nodes = zip(paths, await zk.read(paths), strict=True)
            found.update((path, node) for path, node in nodes if node is not None)
            folders += paths
        return found

    async def _latest(self, name: str) -> Outsider:
        if not self._open[name]:
            self._open[name].append(await self._connected())
        return self._open[name][-1]

    async def end_oldest(self, name: str) -> None:
        """Close the oldest session of this name."""
        await self._open[name].pop(0).close()

    async def close(self) -> None:
        """Close all sessions."""
        for sessions in self._open.values():
            while sessions:
                await sessions.pop().close()

    async def _connected(self) -> Outsider:
        session = ZooKeeperSession(self._connect, _SESSION_MS, Events(), RecordingAudit())
        outsider = Outsider(session, KazooZooKeeper(session))
        await session.open(20)
        return outsider
