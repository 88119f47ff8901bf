"""``/admin/reassign_partitions``: the requests of tools, and the removal of each entry (KAFKA-9478).

An entry is removed when its reassignment is done or refused, or when another request overrules it. The znode is deleted
with its last entry. Tools do not write to the znode while it exists. If a tool does, the next write of ours fails,
because it demands the version that was read, and the watch announces the new entries.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final

import structlog

from controllerd.core.model import BrokerId, TopicPartition
from controllerd.errors import BadZnode
from controllerd.machines.reassignment.dependencies import Dependencies
from controllerd.ports.results import Conflict, ReassignmentsRead, WriteFailed
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)

PATH: Final = "/admin/reassign_partitions"
Brokers = tuple[BrokerId, ...]
Targets = Mapping[TopicPartition, Brokers]


class ReassignmentRequests:
    """Reads the requests, and removes entries."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self._over = deps.unfinished.entries
        """Entries that are over, but that ZooKeeper refused to remove."""

    async def read(self) -> ReassignmentsRead | None:
        """Read the requests; None if there is no znode, or if it cannot be parsed, which puts it in quarantine.

        An entry that is over, but that ZooKeeper refused to remove, counts as removed.
        """
        read = await self._read()
        if read is None or not self._over:
            return read
        entries = self._deps.slicer.each(read.targets.items())
        return read._replace(targets={tp: target async for tp, target in entries if self._over.get(tp) != target})

    async def _read(self) -> ReassignmentsRead | None:
        try:
            read = await self._deps.store.admin.read_reassignments()
        except BadZnode as bad:
            if self._deps.context.quarantine.get(bad.path) != bad.reason:
                log.error("put reassignment request in quarantine", reason=bad.reason)
                self._deps.audit.record(AlarmRecord("znode in quarantine", str(bad)))
                self._deps.context.put_in_quarantine(bad.path, bad.reason)
            return None
        self._deps.context.take_out_of_quarantine(PATH)
        return read

    async def finish(self, done: Targets) -> None:
        """Remove the entries of these partitions that ask for these targets; any other entry is still to be served.

        A znode without entries is deleted in any case.
        """
        await self._remove(lambda tp, target: done.get(tp) == target)

    async def overrule(self, partitions: Collection[TopicPartition]) -> None:
        """Remove every entry for these partitions."""
        if partitions:
            await self._remove(lambda tp, _target: tp in partitions)

    async def retry(self) -> None:
        """Remove the entries that ZooKeeper refused to remove earlier."""
        if self._over:
            await self._remove(lambda _tp, _target: False)  # no entry besides the ones of ``self._over``

    async def _remove(self, is_over: Callable[[TopicPartition, Brokers], bool]) -> None:
        """Remove the entries that are over by now, and the entries that ZooKeeper refused to remove earlier."""
        while (read := await self._read()) is not None:
            entries = self._deps.slicer.each(read.targets.items())
            over = {tp: to async for tp, to in entries if is_over(tp, to) or self._over.get(tp) == to}
            if read.targets and not over:
                break
            left = {tp: target for tp, target in read.targets.items() if tp not in over}
            result = await self._deps.store.admin.write_reassignments(left, read.version)
            if isinstance(result, WriteFailed):
                self._note(over, result.reason)
                return
            if not isinstance(result, Conflict):
                break
        self._over.clear()

    def _note(self, over: Targets, reason: str) -> None:
        log.error("reassignment request was not rewritten", reason=reason)
        self._deps.audit.record(AlarmRecord("reassignment request was not rewritten", reason))
        self._over.clear()
        self._over.update(over)
