"""ZooKeeper as the stores and the elector need it: a few batched operations on plain values.

``controllerd.zk.connection`` does them over kazoo, the fake of the tests on a tree in memory. Everything that has a
policy (fence, conflicts, lost replies) is above this line, so that it is tested against both.
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
"""Refusals that mean no more than that another client was faster."""

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
    """ZooKeeper's own name of a result code."""
    return _NAMES.get(code, f"code {code}")


class Node(NamedTuple):
    """A znode as it was read."""

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


class Check(NamedTuple):
    """Demand a version and write nothing."""

    path: str
    version: int


Operation = Create | SetData | Delete | Check
Transaction = Sequence[Operation]


_OPERATION_NAMES: Final[Mapping[type[Operation], str]] = {
    Create: "create",
    SetData: "setData",
    Delete: "delete",
    Check: "check",
}


def operation_name(operation: Operation) -> str:
    """ZooKeeper's own name of an operation."""
    return _OPERATION_NAMES[type(operation)]


class Committed(NamedTuple):
    """All operations took effect; ``versions`` has the data version after each (-1 for Delete and Check)."""

    zxid: int
    versions: tuple[int, ...]


class Aborted(NamedTuple):
    """None took effect; the operation at ``failed`` failed first (-1: the request as a whole was refused)."""

    zxid: int
    failed: int
    code: int


class ReplyLost(NamedTuple):
    """The connection broke before the answer came: the transaction may have taken effect."""


Outcome = Committed | Aborted | ReplyLost


class Fired(Enum):
    """What a watch saw."""

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
        """The id of the present session, as ``ephemeralOwner`` shows it."""
        ...

    async def read(self, paths: Sequence[str]) -> list[Node | None]:
        """Read many znodes, None for those that do not exist. Sets no watch."""
        ...

    async def read_and_watch(self, paths: Sequence[str], *, absent_too: bool = False) -> list[Node | None]:
        """Read many znodes and watch their data; with ``absent_too`` missing ones are watched for creation.

        No change between the read and the arming is lost.
        """
        ...

    async def children(self, path: str, *, watch: bool = False) -> list[str] | None:
        """The names below a znode in no order, None if it does not exist (then nothing is watched)."""
        ...

    async def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Send transactions in order, at most two in flight."""
        ...

    async def have_open_acl(self, paths: Sequence[str]) -> list[bool | None]:
        """Whether the ACL of each znode gives every client every right; None if it does not exist."""
        ...

    async def sync(self) -> None:
        """Let the server catch up with the leader, so that the next read sees everything committed before."""
        ...

    def spawn(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        """Call ``work`` and run what it returns in the background, such as arming a watch anew.

        It ends with the session, and is never called where the session is closed before its turn comes.
        """
        ...


async def read_in_slices(
    items: Sequence[T],
    size: int,
    read: Callable[[Sequence[T]], Awaitable[list[Node | None]]],
    take: Callable[[Sequence[T], list[Node | None]], None],
    in_flight: int = IN_FLIGHT,
) -> None:
    """``read`` very many items in slices of ``size``, ``in_flight`` at a time, and give each slice to ``take`` at once.

    While one slice is decoded, the next ones are on their way. Decoding slice by slice also lets go of the event loop,
    and of the raw data, between two slices. A failed read ends it, once the others under way have failed or were taken.
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
    """Return what creates this path and everything above it that is missing, from above to below."""
    parents = with_parents(path)
    nodes = await zk.read(parents)
    return [Create(parent, None) for parent, node in zip(parents, nodes, strict=True) if node is None]


def with_parents(path: str) -> list[str]:
    """Return a path after all paths above it."""
    return list(accumulate(path.split("/")[1:], lambda above, name: f"{above}/{name}", initial=""))[1:]
