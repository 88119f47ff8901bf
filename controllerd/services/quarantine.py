"""Znodes that cannot be understood are left alone, visibly, while the rest of the cluster is served."""

from collections.abc import Iterable

import structlog

from controllerd.controller import Controller
from controllerd.errors import BadZnode
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)


def quarantine(c: Controller, broken: Iterable[BadZnode]) -> None:
    """Leave these znodes alone, visibly; the rest of the cluster goes on."""
    for bad in broken:
        c.context.put_in_quarantine(bad.path, bad.reason)
        c.audit.record(AlarmRecord("znode in quarantine", str(bad)))
        log.error("znode in quarantine", path=bad.path, reason=bad.reason)


async def take_out_of_quarantine(c: Controller, path: str) -> None:
    """The znode was understood. Written down at once, lest what is written next look as if it were in quarantine."""
    if path in c.context.quarantine:
        c.context.release(path)
        await c.outbox.write_down_slowly()
