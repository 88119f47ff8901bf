"""What was asked of a state machine and not done, with a reason for each partition: for the log and the audit log."""

from collections.abc import Iterable

import structlog

from controllerd.core.model import TopicPartition
from controllerd.pace import sliced
from controllerd.ports import AuditLog
from controllerd.record.records import MAX_ROWS, RefusedRecord

log = structlog.get_logger(__name__)


def refuse(audit: AuditLog, what: str, refused: Iterable[tuple[TopicPartition, str]]) -> None:
    """Record refusals, and log how many there were with the first of them; nothing for none."""
    rows = list(refused)
    for part in sliced(rows, MAX_ROWS):
        topics, partitions = [tp.topic for tp, _ in part], [tp.partition for tp, _ in part]
        audit.record(RefusedRecord(what, topics, partitions, [reason for _, reason in part]))
    if rows:
        log.warning("refused", what=what, partitions=len(rows), first=str(rows[0][0]), reason=rows[0][1])
