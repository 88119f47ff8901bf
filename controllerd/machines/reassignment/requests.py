"""``/admin/reassign_partitions``: what tools ask for by it, and the end of each entry (KAFKA-9478).

An entry leaves when it is done, refused or overruled; the znode goes with the last one. Tools do not write to the znode
while it exists, but should somebody, every write of ours compares its version, and the watch announces what they wrote.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.machines.passes import paced
from controllerd.machines.reassignment.unfinished import Unfinished
from controllerd.pace import Pace
from controllerd.ports import AdminStore, AuditLog
from controllerd.record.records import AlarmRecord
from controllerd.results import Conflict, ReassignmentsRead, WriteFailed

log = structlog.get_logger(__name__)

PATH: Final = "/admin/reassign_partitions"
Brokers = tuple[BrokerId, ...]
Targets = Mapping[TopicPartition, Brokers]


class ReassignmentRequests:
    """Reads the requests and strikes entries out."""

    def __init__(
        self, context: ControllerContext, store: AdminStore, audit: AuditLog, pace: Pace, unfinished: Unfinished
    ) -> None:
        self._context = context
        self._store = store
        self._audit = audit
        self._pace = pace
        self._over = unfinished.entries

    async def read(self) -> ReassignmentsRead | None:
        """What is asked for; None for nothing, and for what cannot be understood: that is left alone, visibly.

        Entries that are over, though ZooKeeper refused to have them struck out, ask for nothing.
        """
        read = await self._read()
        if read is None or not self._over:
            return read
        entries = paced(read.targets.items(), self._pace)
        return read._replace(targets={tp: target async for tp, target in entries if self._over.get(tp) != target})

    async def _read(self) -> ReassignmentsRead | None:
        try:
            read = await self._store.read_reassignments()
        except BadZnode as bad:
            if self._context.quarantine.get(bad.path) != bad.reason:
                log.error("reassignment request in quarantine", reason=bad.reason)
                self._audit.record(AlarmRecord("znode in quarantine", str(bad)))
                self._context.put_in_quarantine(bad.path, bad.reason)
            return None
        self._context.release(PATH)
        return read

    async def finish(self, done: Targets) -> None:
        """Strike out the entries that asked for exactly this. An entry that asks for something else was not served.

        A znode without entries goes in any case.
        """
        await self._strike(lambda tp, target: done.get(tp) == target)

    async def overrule(self, partitions: Collection[TopicPartition]) -> None:
        """Strike out every entry for these partitions."""
        if partitions:
            await self._strike(lambda tp, _target: tp in partitions)

    async def strike_again(self) -> None:
        """Strike out what ZooKeeper refused to have struck out."""
        if self._over:
            await self._strike(lambda _tp, _target: False)

    async def _strike(self, is_over: Callable[[TopicPartition, Brokers], bool]) -> None:
        """Strike out the entries that are over by now, and those that were before."""
        while (read := await self._read()) is not None:
            entries = paced(read.targets.items(), self._pace)
            over = {tp: to async for tp, to in entries if is_over(tp, to) or self._over.get(tp) == to}
            if read.targets and not over:
                break
            left = {tp: target for tp, target in read.targets.items() if tp not in over}
            result = await self._store.write_reassignments(left, read.version)
            if isinstance(result, WriteFailed):
                self._note(over, result.reason)
                return
            if not isinstance(result, Conflict):
                break
        self._over.clear()

    def _note(self, over: Targets, reason: str) -> None:
        log.error("reassignment request was not rewritten", reason=reason)
        self._audit.record(AlarmRecord("reassignment request was not rewritten", reason))
        self._over.clear()
        self._over.update(over)
