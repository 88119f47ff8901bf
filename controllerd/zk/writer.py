"""The fence: every write of a term demands that ``/controller_epoch`` has the version that our election gave it.

**Why each transaction checks it.** An instance may believe that it leads long after its successor
was elected: it was frozen, or its requests were delayed on their way. No look at ZooKeeper before a
write helps, because the successor may be elected between the look and the write. So the check is
the first operation of the transaction itself. Each election raises ``/controller_epoch`` in the
transaction that creates ``/controller`` (``elector``). Therefore a transaction either took effect
before the election of a successor, whose reads then see it, or it is refused as a whole. A refused
check is ``ControllerMoved``: the term has ended, nothing is sent again, and no request leaves after
it.

A few writes do not come through here (``store_cluster``). The election and the registration have
checks of their own (``elector``, ``registrar``). The persistent parent znodes, such as
``/brokers/ids``, and ``/cluster/id`` are also created by every broker. The head of the audit log has
a path that no other instance writes.

**A failed transaction.** ZooKeeper undoes the whole transaction and names only the first operation
that failed. So the znodes of all its operations are read once. An operation whose znode was changed
by another client gets its result, a ``Conflict``, and the rest is sent again; from the second
failure on in halves, down to single operations, whose result is final.

**A lost reply.** A transaction whose answer was lost may have taken effect, and it is not simply
sent again. Its znodes are read, after a ``sync``, because a server that lags behind the leader
would show them as before the write. A znode with our data at the next version is our write. But it
may also be the equal write of a successor. So the epoch is read *after* the znodes: if it still has
our version, no other controller wrote them; otherwise it is ``ControllerMoved``. Only operations
without effect are sent again.
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
from controllerd.zk.access import Aborted, CheckVersion, Operation, ReplyLost, TransactionOutcome, ZooKeeper
from controllerd.zk.journal import TransactionJournal
from controllerd.zk.packing import MAX_OPERATIONS, Chunk, Work, as_wholes, each_alone

log = structlog.get_logger(__name__)

IN_FLIGHT: Final = 2


class FencedWriter:
    """Writes znodes on the condition that ``/controller_epoch`` still has the version of our term."""

    def __init__(self, zk: ZooKeeper, audit: AuditLog, clock: Clock) -> None:
        self._zk = zk
        self._journal = TransactionJournal(zk, audit, clock)
        self._epoch_zk_version: int | None = None
        self._epoch: int | None = None

    @property
    def epoch_zk_version(self) -> int | None:
        """The version of ``/controller_epoch`` that every write demands; None outside a term."""
        return self._epoch_zk_version

    def bind_term(self, epoch_zk_version: int, epoch: int | None = None) -> None:
        """Begin a term: from now on every write demands this version of ``/controller_epoch``."""
        self._epoch_zk_version, self._epoch = epoch_zk_version, epoch

    def unbind_term(self) -> None:
        """End the term: from now on every write raises ``ControllerMoved``."""
        self._epoch_zk_version = None

    async def check_epoch(self, epoch: int) -> None:
        """Find out whether another controller was elected, after a znode with controller epoch ``epoch`` was read.

        Reads ``/controller_epoch`` only if that epoch is later than ours.

        :raises ControllerMoved: another controller has the role.
        """
        if self._epoch_zk_version is None or self._epoch is None or epoch <= self._epoch:
            return
        check = self._epoch_check()
        (node,) = await self._zk.read([check.path])
        if node is None or node.version != check.version:
            raise ControllerMoved(
                f"{check.path}: another controller wrote with controller epoch {epoch}, ours is {self._epoch}"
            )
        log.error("found a controller epoch without an election", found=epoch, ours=self._epoch)

    async def write(self, operations: Sequence[Operation]) -> list[WriteResult]:
        """Carry out independent operations, parents before children; return one result each, in the same order.

        A Create whose znode exists with the very same data and a Delete whose znode is gone count as written.

        :raises ControllerMoved: the fence refused, or there is no term. Nothing of that transaction was written.
        :raises StoreUnavailable: the session is lost; transactions in flight may or may not have been written.
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
        """Carry out groups of operations, each as a whole or not at all; return one result each.

        The result of a group is that of its last operation. A znode that exists already is a ``Conflict``, unless it is
        found to be our own write after a lost reply. A group that was refused together with others is sent once more
        by itself.

        :raises ControllerMoved: the fence refused, or there is no term. Nothing of that transaction was written.
        :raises StoreUnavailable: the session is lost; transactions in flight may or may not have been written.
        """
        work = as_wholes(groups)
        await work.weigh()
        size = MAX_OPERATIONS
        while pending := work.pending():
            await self._round(work, pending, size)
            size = 1
        return [result or WriteFailed("not written") for result in work.results]

    async def _round(self, work: Work, pending: Sequence[int], size: int) -> bool:
        """Send the pending groups once and note the results that are known; return whether any transaction failed."""
        lost: list[Chunk] = []
        aborted: list[Chunk] = []
        # Both senders take their chunks from this one generator; if one fails, it closes the generator for the other.
        chunks: Generator[Chunk, None, None] = work.chunks(pending, size)

        async def send() -> None:
            with closing(chunks):  # once a transaction raises, no sender sends another
                for chunk in chunks:
                    outcome = await self._commit(work.of(chunk))
                    work.settle(chunk, outcome)
                    if isinstance(outcome, ReplyLost):
                        lost.append(chunk)
                    elif isinstance(outcome, Aborted):
                        aborted.append(chunk)

        epoch_zk_version = self._epoch_check().version
        await _all_of(send() for _ in range(IN_FLIGHT if len(pending) > size else 1))
        await self._read_back_lost(work, lost, epoch_zk_version)
        left = [index for chunk in aborted for index in chunk if work.results[index] is None]
        nodes = await self._zk.read([operation.path for operation in work.of(left)])
        work.settle_read(left, nodes, final=size == 1 or len(pending) == 1)
        return bool(aborted or lost)

    async def _commit(self, operations: Sequence[Operation]) -> TransactionOutcome:
        check = self._epoch_check()
        (outcome,) = await self._journal.commit([[check, *operations]], fence=check.version)
        return outcome

    def _epoch_check(self) -> CheckVersion:
        if self._epoch_zk_version is None:
            raise ControllerMoved("this instance has no term: nothing is written")
        return CheckVersion(paths.CONTROLLER_EPOCH, self._epoch_zk_version)

    async def _read_back_lost(self, work: Work, chunks: Sequence[Chunk], epoch_zk_version: int) -> None:
        """Find out which of the transactions with a lost reply took effect; the others are sent again."""
        if not chunks:
            return
        transactions = [work.of(chunk) for chunk in chunks]
        with self._journal.settling(transactions, fence=epoch_zk_version):
            await self._zk.sync()
            seen = [await self._zk.read([operation.path for operation in each]) for each in transactions]
            await self._still_ours(epoch_zk_version)
        for chunk, operations, nodes in zip(chunks, transactions, seen, strict=True):
            self._journal.read_back(operations, work.settle_lost(chunk, nodes), epoch_zk_version)

    async def _still_ours(self, epoch_zk_version: int) -> None:
        """Check, after the znodes were read, that no other controller can have written them.

        :raises ControllerMoved: another controller has the role.
        """
        (node,) = await self._zk.read([paths.CONTROLLER_EPOCH])
        if node is None or node.version != epoch_zk_version:
            raise ControllerMoved(f"{paths.CONTROLLER_EPOCH}: another controller took the role after a reply was lost")


async def _all_of(senders: Iterable[Coroutine[None, None, None]]) -> None:
    """Run senders side by side; when all have ended, raise one of their failures, ``ControllerMoved`` before others."""
    first, *others = senders
    if not others:
        await first
        return
    outcomes = await asyncio.gather(first, *others, return_exceptions=True)
    failures = [outcome for outcome in outcomes if outcome is not None]
    if failures:
        raise min(failures, key=lambda failure: not isinstance(failure, ControllerMoved))
