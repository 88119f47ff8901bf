"""The fence: every write of a term goes through here, packed into few transactions that each demand our epoch.

ZooKeeper names only the first operation that failed and undoes the whole transaction. So after a failed one the znodes
of all its operations are read once, what somebody else moved is reported, and the rest is sent again; from the second
failure on in halves, down to single operations, whose result then is final.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controllerd.errors import ControllerMoved
from controllerd.ports import AuditLog, Clock, Conflict, WriteFailed, WriteResult, Written
from controllerd.zk import paths
from controllerd.zk.access import (
    ANY_VERSION,
    CONFLICT_CODES,
    Aborted,
    Check,
    Committed,
    Create,
    Delete,
    Node,
    Operation,
    Outcome,
    ReplyLost,
    SetData,
    Transaction,
    ZooKeeper,
    code_name,
)
from controllerd.zk.journal import Journal

MAX_OPERATIONS: Final = 500
MAX_BYTES: Final = 512 * 1024
MAX_SINGLE_BYTES: Final = 1_000_000
"""What one request may weigh: a little below ZooKeeper's default ``jute.maxbuffer``, beyond which it hangs up."""
_OVERHEAD: Final = 60
"""Bytes of an operation besides its path and its data: header, lengths, version or ACL."""


@dataclass(slots=True)
class _Item:
    """One operation, its place in the answer, and what is known of it."""

    operation: Operation
    size: int
    """Bytes in a request, about."""
    result: WriteResult | None = None


class FencedWriter:
    """Writes on the condition that ``/controller_epoch`` still has the version of our term."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock) -> None:
        self._zk = zk
        self._journal = Journal(zk, audit, clock)
        self._term: int | None = None

    @property
    def term(self) -> int | None:
        """The version of ``/controller_epoch`` that every write demands; None outside a term."""
        return self._term

    def bind_term(self, epoch_zk_version: int) -> None:
        """From now on write in the term that this version of ``/controller_epoch`` stands for."""
        self._term = epoch_zk_version

    def unbind_term(self) -> None:
        """From now on every write raises ``ControllerMoved``."""
        self._term = None

    async def write(self, operations: Sequence[Operation]) -> list[WriteResult]:
        """Do independent operations, parents before children; one result each, in the same order.

        A Create whose znode exists with the very same data and a Delete whose znode is gone count as done.

        :raises ControllerMoved: the fence refused, or there is no term. Nothing of that transaction was written.
        :raises StoreUnavailable: the session is gone; what was in flight may or may not have been written.
        """
        items = [_Item(operation, _size(operation)) for operation in operations]
        size = MAX_OPERATIONS
        failures = 0
        while pending := _sendable(items):
            failures += await self._round(_chunks(pending, size), final=size == 1 or len(pending) == 1)
            size = max(1, size // 2) if failures > 1 else size
        return [item.result or WriteFailed("not written") for item in items]

    async def _round(self, chunks: Sequence[Sequence[_Item]], *, final: bool) -> bool:
        """Send every chunk once, and settle what can be settled; whether any chunk failed."""
        fence = self._fence()
        transactions: list[Transaction] = [[fence, *(item.operation for item in chunk)] for chunk in chunks]
        outcomes = await self._journal.commit(transactions, fence=fence.version)
        for chunk, outcome in zip(chunks, outcomes, strict=True):
            _settle(chunk, outcome)
        aborted = [chunk for chunk, outcome in zip(chunks, outcomes, strict=True) if isinstance(outcome, Aborted)]
        lost = [chunk for chunk, outcome in zip(chunks, outcomes, strict=True) if isinstance(outcome, ReplyLost)]
        await self._read_back_lost(lost, fence.version)
        await self._read_back_aborted(aborted, final=final)
        return bool(aborted or lost)

    def _fence(self) -> Check:
        if self._term is None:
            raise ControllerMoved("no term of ours: nothing is written")
        return Check(paths.CONTROLLER_EPOCH, self._term)

    async def _read_back_aborted(self, chunks: Sequence[Sequence[_Item]], *, final: bool) -> None:
        """Read the znodes of aborted transactions once, and report those that somebody else moved."""
        items = [item for chunk in chunks for item in chunk if item.result is None]
        nodes = await self._zk.read([item.operation.path for item in items])
        for item, node in zip(items, nodes, strict=True):
            item.result = conflict_of(item.operation, node)
            if final and item.result is None:
                item.result = Conflict("refused, though the znode itself has not moved")

    async def _read_back_lost(self, chunks: Sequence[Sequence[_Item]], fence: int) -> None:
        """Find out which of the transactions whose answer was lost took effect; those that did not are sent again."""
        if not chunks:
            return
        transactions = [[item.operation for item in chunk] for chunk in chunks]
        with self._journal.settling(transactions, fence=fence):
            await self._zk.sync()
            seen = [await self._zk.read([operation.path for operation in each]) for each in transactions]
        for chunk, operations, nodes in zip(chunks, transactions, seen, strict=True):
            for item, node in zip(chunk, nodes, strict=True):
                item.result = effect_of(item.operation, node) or conflict_of(item.operation, node)
            self._journal.read_back(operations, [item.result for item in chunk], fence)


def _size(operation: Operation) -> int:
    data = operation.data if isinstance(operation, Create | SetData) else None
    return len(operation.path.encode()) + len(data or b"") + _OVERHEAD


def _sendable(items: Sequence[_Item]) -> list[_Item]:
    for item in items:
        if item.result is None and item.size > MAX_SINGLE_BYTES:
            item.result = WriteFailed(f"{item.size} bytes are more than ZooKeeper takes in one request")
    return [item for item in items if item.result is None]


def _chunks(items: Sequence[_Item], size: int) -> list[list[_Item]]:
    chunks: list[list[_Item]] = []
    room = 0
    for item in items:
        if not chunks or len(chunks[-1]) >= size or item.size > room:
            chunks.append([])
            room = MAX_BYTES
        chunks[-1].append(item)
        room -= item.size
    return chunks


def _settle(chunk: Sequence[_Item], outcome: Outcome) -> None:
    if isinstance(outcome, Committed):
        for item, version in zip(chunk, outcome.versions[1:], strict=True):
            item.result = Written(version)
    elif isinstance(outcome, Aborted):
        _settle_aborted(chunk, outcome)


def _settle_aborted(chunk: Sequence[_Item], outcome: Aborted) -> None:
    if outcome.failed == 0:
        raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: {code_name(outcome.code)}, another controller has the role")
    if outcome.failed < 0:
        for item in chunk:
            item.result = WriteFailed(code_name(outcome.code))
        return
    item = chunk[outcome.failed - 1]
    if outcome.code not in CONFLICT_CODES:
        item.result = WriteFailed(code_name(outcome.code))


def effect_of(operation: Operation, node: Node | None) -> Written | None:
    """Whether the znode looks exactly as our operation leaves it; for operations whose answer was lost."""
    if isinstance(operation, SetData) and node is not None and node.data == operation.data:
        is_next = operation.version in {ANY_VERSION, node.version - 1}
        return Written(node.version) if is_next else None
    return None


def conflict_of(operation: Operation, node: Node | None) -> WriteResult | None:
    """What a znode that was read after a failure means for the operation; None: it may be sent again."""
    match operation:
        case Create():
            return _created_already(operation, node) if node is not None else None
        case Delete():
            return Written(ANY_VERSION) if node is None else _version_conflict(operation.version, node)
        case SetData() | Check():
            return Conflict("the znode is gone") if node is None else _version_conflict(operation.version, node)


def _created_already(operation: Create, node: Node) -> WriteResult:
    if node.data == operation.data and not operation.ephemeral:
        return Written(node.version)
    return Conflict("the znode exists already")


def _version_conflict(expected: int, node: Node) -> Conflict | None:
    if expected in {ANY_VERSION, node.version}:
        return None
    return Conflict(f"version {node.version} instead of {expected}")
