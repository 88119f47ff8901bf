"""The fence: every write of a term goes through here, packed into few transactions that each demand our epoch.

ZooKeeper names only the first operation that failed and undoes the whole transaction. So after a failed one the znodes
of all its operations are read once, what another client moved is reported, and the rest is sent again; from the second
failure on in halves, down to single operations, whose result then is final.
"""

import asyncio
from collections.abc import Coroutine, Generator, Iterable, Sequence
from contextlib import closing
from typing import Final

import structlog

from controllerd.errors import ControllerMoved
from controllerd.ports.audit import AuditLog
from controllerd.ports.clock import Clock
from controllerd.ports.results import WriteFailed, WriteResult
from controllerd.zk import paths
from controllerd.zk.access import Aborted, Check, Operation, Outcome, ReplyLost, ZooKeeper
from controllerd.zk.journal import Journal
from controllerd.zk.packing import MAX_OPERATIONS, Chunk, Work, as_wholes, each_alone

log = structlog.get_logger(__name__)

IN_FLIGHT: Final = 2


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

    async def check_epoch(self, epoch: int) -> None:
        """Look whether this instance was deposed, if a znode names this controller epoch and it is later than ours.

        :raises ControllerMoved: it was.
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
        work = each_alone(operations)
        await work.weigh()
        size = MAX_OPERATIONS
        failures = 0
        while pending := work.pending():
            failures += await self._round(work, pending, size)
            size = max(1, size // 2) if failures > 1 else size
        return [result or WriteFailed("not written") for result in work.results]

    async def write_groups(self, groups: Sequence[Sequence[Operation]]) -> list[WriteResult]:
        """Do groups of operations, each as a whole or not at all; one result each, that of its last operation.

        Nothing counts as done because it is there already, but for what we find to be our own after a lost answer. A
        group that was refused together with others is sent once more by itself.

        :raises ControllerMoved: the fence refused, or there is no term. Nothing of that transaction was written.
        :raises StoreUnavailable: the session is gone; what was in flight may or may not have been written.
        """
        work = as_wholes(groups)
        await work.weigh()
        size = MAX_OPERATIONS
        while pending := work.pending():
            await self._round(work, pending, size)
            size = 1
        return [result or WriteFailed("not written") for result in work.results]

    async def _round(self, work: Work, pending: Sequence[int], size: int) -> bool:
        """Send what is pending once, and settle what can be settled; whether any transaction failed."""
        lost: list[Chunk] = []
        aborted: list[Chunk] = []
        chunks: Generator[Chunk, None, None] = work.chunks(pending, size)

        async def send() -> None:
            with closing(chunks):  # when one transaction fails for good, no sender sends another
                for chunk in chunks:
                    outcome = await self._commit(work.of(chunk))
                    work.settle(chunk, outcome)
                    if isinstance(outcome, ReplyLost):
                        lost.append(chunk)
                    elif isinstance(outcome, Aborted):
                        aborted.append(chunk)

        fence = self._fence().version
        await _all_of(send() for _ in range(IN_FLIGHT if len(pending) > size else 1))
        await self._read_back_lost(work, lost, fence)
        left = [index for chunk in aborted for index in chunk if work.results[index] is None]
        nodes = await self._zk.read([operation.path for operation in work.of(left)])
        work.settle_read(left, nodes, final=size == 1 or len(pending) == 1)
        return bool(aborted or lost)

    async def _commit(self, operations: Sequence[Operation]) -> Outcome:
        fence = self._fence()
        (outcome,) = await self._journal.commit([[fence, *operations]], fence=fence.version)
        return outcome

    def _fence(self) -> Check:
        if self._term is None:
            raise ControllerMoved("no term of ours: nothing is written")
        return Check(paths.CONTROLLER_EPOCH, self._term)

    async def _read_back_lost(self, work: Work, chunks: Sequence[Chunk], fence: int) -> None:
        """Find out which of the transactions whose answer was lost took effect; the others are sent again."""
        if not chunks:
            return
        transactions = [work.of(chunk) for chunk in chunks]
        with self._journal.settling(transactions, fence=fence):
            await self._zk.sync()
            seen = [await self._zk.read([operation.path for operation in each]) for each in transactions]
            await self._still_ours(fence)
        for chunk, operations, nodes in zip(chunks, transactions, seen, strict=True):
            self._journal.read_back(operations, work.settle_lost(chunk, nodes), fence)

    async def _still_ours(self, fence: int) -> None:
        """A znode that looks like our write may be an equal write of the next controller, once there is one.

        :raises ControllerMoved: there is one.
        """
        (node,) = await self._zk.read([paths.CONTROLLER_EPOCH])
        if node is None or node.version != fence:
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: another controller has the role since an answer was lost")


async def _all_of(senders: Iterable[Coroutine[None, None, None]]) -> None:
    """Run senders side by side; when all have ended, raise one of their failures, ``ControllerMoved`` before others."""
    first, *others = senders
    if not others:
        await first
        return
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    failures = [outcome for outcome in outcomes if outcome is not None]
    for failure in sorted(failures, key=lambda failure: not isinstance(failure, ControllerMoved)):
        raise failure
