"""The audit log as an instance opens, fills and shows it, whether it leads or only watches."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from channel_manager.observer import Exchange
from controllerd.audit.exporting import ExportSettings, HeadExporter
from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.config.model import Config
from controllerd.core.model import BrokerId
from controllerd.core.requests import ControlRequest
from controllerd.ports.audit import AuditLog
from controllerd.record.records import ResponseRecord
from controllerd.status.sources import AuditView


def audit_settings(config: Config) -> AuditSettings:
    """The section ``audit`` of the configuration, as the writer takes it."""
    audit = config.audit
    return AuditSettings(
        directory=audit.dir,
        fsync=audit.fsync,
        fsync_interval_s=audit.fsync_interval_ms / 1000,
        level=audit.level,
        on_failure=audit.on_failure,
        segment_bytes=audit.segment_bytes,
        segment_age_s=float(audit.segment_age_s),
    )


def export_settings(config: Config) -> ExportSettings:
    """Where heads of the log go."""
    audit = config.audit
    return ExportSettings(float(audit.head_interval_s), audit.head_file, audit.head_key_file, audit.head_journal)


@asynccontextmanager
async def exporting(heads: HeadExporter) -> AsyncIterator[None]:
    """Heads are exported while the block runs. :raises BadHead: the key is too short. :raises OSError: it, or the file
    of heads, cannot be read.
    """
    await heads.open()
    task = asyncio.create_task(heads.run(), name="audit heads")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def audit_view(audit: AuditWriter, heads: HeadExporter) -> AuditView:
    """The log, as the status endpoint shows it."""
    trouble = audit.trouble or heads.trouble
    return AuditView(audit.records_written, audit.records_lost, trouble, audit.bytes_written, audit.syncs, audit.sync_s)


class RecordedExchanges:
    """Writes every answer of a broker into the audit log."""

    def __init__(self, audit: AuditLog, *, in_full: bool = False) -> None:
        """``in_full``: with the code of every partition, and not only of those with an error."""
        self._audit = audit
        self._in_full = in_full

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Nothing to record: the answer tells enough."""

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """Requests are recorded when they are queued; the attempts are counted in the answer."""

    def on_response(self, exchange: Exchange) -> None:
        """Record an answer with everything that makes it findable."""
        errors = exchange.response.partition_errors
        self._audit.record(
            ResponseRecord(
                broker=exchange.broker,
                broker_epoch=exchange.request.broker_epoch,
                api=exchange.response.api,
                version=exchange.version,
                correlation_id=exchange.correlation_id,
                bytes_sent=exchange.bytes_sent,
                attempts=exchange.attempts,
                took_ms=round(exchange.took_s * 1000, 3),
                error=exchange.response.error,
                errors={str(tp): int(error) for tp, error in errors.items() if error or self._in_full},
            )
        )
