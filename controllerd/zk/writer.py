"""The fence: every write of a term goes through here, packed into few transactions that each demand our epoch.

ZooKeeper names only the first operation that failed and undoes the whole transaction. So after a failed one the znodes
of all its operations are read once, what somebody else moved is reported, and the rest is sent again; from the second
failure on in halves, down to single operations, whose result then is final.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable, Sequence
from contextlib import closing
from functools import lru_cache
from typing import Final

import structlog

from controllerd.errors import ControllerMoved
from controllerd.pace import Pace, sliced
from controllerd.ports import AuditLog, Clock
from controllerd.results import Conflict, WriteFailed, WriteResult, Written
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
    ZooKeeper,
    code_name,
)
from controllerd.zk.journal import Journal

log = structlog.get_logger(__name__)

MAX_OPERATIONS: Final = 500
MAX_BYTES: Final = 512 * 1024
IN_FLIGHT: Final = 2
_WEIGHED_AT_ONCE: Final = 5_000
MAX_SINGLE_BYTES: Final = 1_000_000
"""What one request may weigh: a little below ZooKeeper's default ``jute.maxbuffer``, beyond which it hangs up."""
_OVERHEAD: Final = 60
"""Bytes of an operation besides its path and its data: header, lengths, version or ACL."""


Chunk = Sequence[int]
"""Which operations go into one transaction."""


class _Work:
    """The operations of one call and what is known of each. Lists, because there may be 100,000."""

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations
        self._sizes: list[int] = []
        self.results: list[WriteResult | None] = [None] * len(operations)

    async def weigh(self) -> None:
        """Look how large each is, before anything else; what is too large has failed."""
        pace = Pace()
        for part in sliced(self._operations, _WEIGHED_AT_ONCE):
            first = len(self._sizes)
            self._sizes += map(_size, part)
            for index, size in enumerate(self._sizes[first:], first):
                if size > MAX_SINGLE_BYTES:
                    self.results[index] = WriteFailed(f"{size} bytes are more than ZooKeeper takes in one request")
            await pace.breathe()

    def of(self, chunk: Chunk) -> list[Operation]:
        """The operations of a chunk."""
        return [self._operations[index] for index in chunk]

    def pending(self) -> list[int]:
        """Those without a result."""
        return [index for index, result in enumerate(self.results) if result is None]

    def chunks(self, pending: Chunk, size: int) -> Generator[Chunk, None, None]:
        """At most ``size`` operations and about ``MAX_BYTES`` each, in order."""
        chunk: list[int] = []
        room = MAX_BYTES
        for index in pending:
            weight = self._sizes[index]
            if chunk and (len(chunk) >= size or weight > room):
                yield chunk
                chunk, room = [], MAX_BYTES
            chunk.append(index)
            room -= weight
        if chunk:
            yield chunk

    def settle(self, chunk: Chunk, outcome: Outcome) -> None:
        """Note what an answer says of the operations of its transaction."""
        if isinstance(outcome, Committed):
            for index, version in zip(chunk, outcome.versions[1:], strict=True):
                self.results[index] = _written(version)
        elif isinstance(outcome, Aborted):
            self._settle_aborted(chunk, outcome)

    def _settle_aborted(self, chunk: Chunk, outcome: Aborted) -> None:
        if outcome.failed == 0:
            reason = f"{code_name(outcome.code)}, another controller has the role"
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: {reason}")
        if outcome.failed < 0:
            for index in chunk:
                self.results[index] = WriteFailed(code_name(outcome.code))
        elif outcome.code not in CONFLICT_CODES:
            self.results[chunk[outcome.failed - 1]] = WriteFailed(code_name(outcome.code))


@lru_cache
def _written(version: int) -> Written:
    return Written(version)


def _size(operation: Operation) -> int:
    """Bytes in a request, about."""
    path = operation.path
    length = len(path) if path.isascii() else len(path.encode())
    return length + len(getattr(operation, "data", None) or b"") + _OVERHEAD


class FencedWriter:
    """Writes on the condition that ``/controller_epoch`` still has the version of our term."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock) -> None:
        self._zk = zk
        self._journal = Journal(zk, audit, clock)
        self._term: int | None = None
        self._epoch: int | None = None

    @property
    def term(self) -> int | None:
        """The version of ``/controller_epoch`` that every write demands; None outside a term."""
        return self._term

    def bind_term(self, epoch_zk_version: int, epoch: int | None = None) -> None:
        """From now on write in the term that this version of ``/controller_epoch`` stands for."""
        self._term, self._epoch = epoch_zk_version, epoch

    def unbind_term(self) -> None:
        """From now on every write raises ``ControllerMoved``."""
        self._term = None

    async def heard_of(self, epoch: int) -> None:
        """Something names this controller epoch: if it is later than ours, look at once whether we were deposed.

        :raises ControllerMoved: we were.
        """
        if self._term is None or self._epoch is None or epoch <= self._epoch:
            return
        fence = self._fence()
        (node,) = await self._zk.read([fence.path])
        if node is None or node.version != fence.version:
            raise ControllerMoved(f"{fence.path}: somebody wrote with controller epoch {epoch}, ours is {self._epoch}")
        log.error("a controller epoch that nobody was elected with", named=epoch, ours=self._epoch)

    async def write(self, operations: Sequence[Operation]) -> list[WriteResult]:
        """Do independent operations, parents before children; one result each, in the same order.

        A Create whose znode exists with the very same data and a Delete whose znode is gone count as done.

        :raises ControllerMoved: the fence refused, or there is no term. Nothing of that transaction was written.
        :raises StoreUnavailable: the session is gone; what was in flight may or may not have been written.
        """
        work = _Work(operations)
        await work.weigh()
        size = MAX_OPERATIONS
        failures = 0
        while pending := work.pending():
            failures += await self._round(work, pending, size)
            size = max(1, size // 2) if failures > 1 else size
        return [result or WriteFailed("not written") for result in work.results]

    async def _round(self, work: _Work, pending: Sequence[int], size: int) -> bool:
        """Send what is pending once, and settle what can be settled; whether any transaction failed."""
        lost: list[Chunk] = []
        aborted: list[Chunk] = []
        chunks = work.chunks(pending, size)

        async def send() -> None:
            with closing(chunks):  # when one transaction fails for good, nobody sends another
                for chunk in chunks:
                    outcome = await self._commit(work, chunk)
                    work.settle(chunk, outcome)
                    if isinstance(outcome, ReplyLost):
                        lost.append(chunk)
                    elif isinstance(outcome, Aborted):
                        aborted.append(chunk)

        fence = self._fence().version
        await _all_of(send() for _ in range(IN_FLIGHT if len(pending) > size else 1))
        await self._read_back_lost(work, lost, fence)
        await self._read_back_aborted(work, aborted, final=size == 1 or len(pending) == 1)
        return bool(aborted or lost)

    async def _commit(self, work: _Work, chunk: Chunk) -> Outcome:
        fence = self._fence()
        (outcome,) = await self._journal.commit([[fence, *work.of(chunk)]], fence=fence.version)
        return outcome

    def _fence(self) -> Check:
        if self._term is None:
            raise ControllerMoved("no term of ours: nothing is written")
        return Check(paths.CONTROLLER_EPOCH, self._term)

    async def _read_back_aborted(self, work: _Work, chunks: Sequence[Chunk], *, final: bool) -> None:
        """Read the znodes of aborted transactions once, and report those that somebody else moved."""
        left = [index for chunk in chunks for index in chunk if work.results[index] is None]
        operations = work.of(left)
        nodes = await self._zk.read([operation.path for operation in operations])
        for index, operation, node in zip(left, operations, nodes, strict=True):
            result = conflict_of(operation, node)
            if final and result is None:
                result = Conflict("refused, though the znode itself has not moved")
            work.results[index] = result

    async def _read_back_lost(self, work: _Work, chunks: Sequence[Chunk], fence: int) -> None:
        """Find out which of the transactions whose answer was lost took effect; those that did not are sent again."""
        if not chunks:
            return
        transactions = [work.of(chunk) for chunk in chunks]
        with self._journal.settling(transactions, fence=fence):
            await self._zk.sync()
            seen = [await self._zk.read([operation.path for operation in each]) for each in transactions]
            await self._still_ours(fence)
        for chunk, operations, nodes in zip(chunks, transactions, seen, strict=True):
            for index, operation, node in zip(chunk, operations, nodes, strict=True):
                work.results[index] = effect_of(operation, node) or conflict_of(operation, node)
            self._journal.read_back(operations, [work.results[index] for index in chunk], fence)

    async def _still_ours(self, fence: int) -> None:
        """What looks like our write may be an equal one of the next controller, once there is one.

        :raises ControllerMoved: there is.
        """
        (node,) = await self._zk.read([paths.CONTROLLER_EPOCH])
        if node is None or node.version != fence:
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: another controller has the role since an answer was lost")


async def _all_of(senders: Iterable[Coroutine[None, None, None]]) -> None:
    """Run them side by side; one of their failures is raised when all have ended, a deposition before others."""
    first, *others = senders
    if not others:
        await first
        return
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    failures = [outcome for outcome in outcomes if outcome is not None]
    for failure in sorted(failures, key=lambda failure: not isinstance(failure, ControllerMoved)):
        raise failure


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
