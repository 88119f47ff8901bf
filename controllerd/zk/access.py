"""ZooKeeper as the stores and the elector need it: a few batched operations on plain values.

``controllerd.zk.connection`` carries them out over kazoo, ``in_memory`` and the fake of the tests
on a tree in memory. Everything that is a policy (fence, conflicts, lost replies) is built on this
protocol, so that it is tested against all.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from itertools import accumulate
from typing import Final, NamedTuple, Protocol, TypeVar

from controllerd.slicer import sliced

T = TypeVar("T")

OK: Final = 0
RUNTIME_INCONSISTENCY: Final = -2
NO_NODE: Final = -101
BAD_VERSION: Final = -103
NODE_EXISTS: Final = -110

CONFLICT_CODES: Final = frozenset({NO_NODE, BAD_VERSION, NODE_EXISTS, RUNTIME_INCONSISTENCY})
"""Result codes which mean that another client was faster."""

_NAMES: Final = {
    OK: "ok",
    RUNTIME_INCONSISTENCY: "RuntimeInconsistency",
    -4: "ConnectionLoss",
    -6: "Unimplemented",
    -8: "BadArguments",
    NO_NODE: "NoNode",
    -102: "NoAuth",
    BAD_VERSION: "BadVersion",
    -108: "NoChildrenForEphemerals",
    NODE_EXISTS: "NodeExists",
    -111: "NotEmpty",
    -114: "InvalidACL",
    -118: "SessionMoved",
    -125: "QuotaExceeded",
}

ANY_VERSION: Final = -1

IN_FLIGHT: Final = 4
"""Slices of a long read that are under way at the same time."""


def code_name(code: int) -> str:
    """Return ZooKeeper's name of a result code."""
    return _NAMES.get(code, f"code {code}")


class Znode(NamedTuple):
    """The content of a znode as it was read, with the part of its stat that is used."""

    data: bytes | None
    version: int
    czxid: int
    ephemeral_owner: int = 0


class Create(NamedTuple):
    """Create a znode with an open ACL; ``data`` None is null data. ``sequential``: the server appends a number."""

    path: str
    data: bytes | None
    ephemeral: bool = False
    sequential: bool = False


class SetData(NamedTuple):
    """Write a znode on the condition of its version."""

    path: str
    data: bytes
    version: int


class Delete(NamedTuple):
    """Delete a znode, by default at any version."""

    path: str
    version: int = ANY_VERSION


class CheckVersion(NamedTuple):
    """Fail the transaction unless a znode has this version; write nothing."""

    path: str
    version: int


Operation = Create | SetData | Delete | CheckVersion
Transaction = Sequence[Operation]


_OPERATION_NAMES: Final[Mapping[type[Operation], str]] = {
    Create: "create",
    SetData: "setData",
    Delete: "delete",
    CheckVersion: "check",
}


def operation_name(operation: Operation) -> str:
    """Return ZooKeeper's name of an operation."""
    return _OPERATION_NAMES[type(operation)]


class Committed(NamedTuple):
    """All operations took effect; ``versions`` has the data version after each (-1 for Delete and CheckVersion)."""

    zxid: int
    versions: tuple[int, ...]


class Aborted(NamedTuple):
    """No operation took effect. ``failed`` is the index of the first that failed; -1: the whole request was refused."""

    zxid: int
    failed: int
    code: int


class ReplyLost(NamedTuple):
    """The connection broke before the answer came: the transaction may have taken effect."""


TransactionOutcome = Committed | Aborted | ReplyLost


class Fired(Enum):
    """The change by which a watch fired."""

    CREATED = "created"
    DELETED = "deleted"
    CHANGED = "changed"
    CHILD = "child"


class ZooKeeper(Protocol):
    """One session of ZooKeeper. Every method raises ``StoreUnavailable`` once the session is lost.

    Reads are repeated after a lost connection; transactions never are.
    """

    @property
    def session_id(self) -> int:
        """The id of the present session, as ``ephemeralOwner`` has it."""
        ...

    async def read(self, paths: Sequence[str]) -> list[Znode | None]:
        """Read many znodes, None for those that do not exist. Sets no watch."""
        ...

    async def read_and_watch(self, paths: Sequence[str], *, absent_too: bool = False) -> list[Znode | None]:
        """Read many znodes and watch their data; with ``absent_too`` missing ones are watched for creation.

        No change between the read and the arming is lost.
        """
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """Return the names below a znode in no order, None if it does not exist (then nothing is watched)."""
        ...

    async def commit(self, transactions: Sequence[Transaction]) -> list[TransactionOutcome]:
        """Send transactions in order, at most two in flight."""
        ...

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Whether the ACL of each znode gives every client every right; None if it does not exist."""
        ...

    async def sync(self) -> None:
        """Wait until the server has caught up with the leader, so that the next read sees every earlier commit."""
        ...

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Call ``work`` and run its coroutine in the background, such as arming a watch anew.

        The coroutine ends with the session. ``work`` is not called if the session is closed first.
        """
        ...


async def read_in_slices(
    items: Sequence[T],
    size: int,
    read: Callable[[Sequence[T]], Awaitable[list[Znode | None]]],
    take: Callable[[Sequence[T], list[Znode | None]], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """Call ``read`` for slices of ``size`` items, ``in_flight`` at a time, and ``take`` for each slice that was read.

    While one slice is decoded, the next ones are being read. Between two slices other tasks may run, and the raw data
    of a slice is freed. A failed read is raised after the other reads in flight have ended.
    """
    slices = sliced(items, size)

    async def work() -> None:
        for part in slices:
            take(part, await read(part))

    if len(items) <= size:
        await work()
        return
    for outcome in await asyncio.gather(*(work() for _ in range(in_flight)), return_exceptions=True):
        if outcome is not None:
            raise outcome


async def missing_parents(zk: ZooKeeper, path: str) -> list[Create]:
    """Return the operations that create this path and its missing parents, parents first."""
    parents = with_parents(path)
    nodes = await zk.read(parents)
    return [Create(parent, None) for parent, node in zip(parents, nodes, strict=True) if node is None]


def with_parents(path: str) -> list[str]:
    """Return a path with its parents, parents first."""
    return list(accumulate(path.split("/")[1:], lambda above, name: f"{above}/{name}", initial=""))[1:]
