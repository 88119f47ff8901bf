"""The parts of the audit log that a controller and an observer share: settings, exports, view, responses."""

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
    """Convert the section ``audit`` of the configuration into the settings of the writer."""
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
    """Convert the configuration into the settings of the export of heads."""
    audit = config.audit
    return ExportSettings(float(audit.head_interval_s), audit.head_file, audit.head_key_file, audit.head_journal)


@asynccontextmanager
async def exporting(heads: HeadExporter) -> AsyncIterator[None]:
    """Export heads while the block runs.

    :raises BadHead: the key is too short. :raises OSError: the key or the file of heads cannot be read.
    """
    await heads.open()
    task = asyncio.create_task(heads.run(), name="audit heads")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def audit_view(audit: AuditWriter, heads: HeadExporter) -> AuditView:
    """The state of the audit log for the status endpoint."""
    trouble = audit.trouble or heads.trouble
    return AuditView(audit.records_written, audit.records_lost, trouble, audit.bytes_written, audit.syncs, audit.sync_s)


class RecordedExchanges:
    """Records every response of a broker."""

    def __init__(self, audit: AuditLog, *, in_full: bool = False) -> None:
        """``in_full``: record the error code of every partition, and not only those of failed ones."""
        self._audit = audit
        self._in_full = in_full

    def on_taken(self, broker: BrokerId, waited_s: float) -> None:
        """Record nothing: the response has all values."""

    def on_request(
        self, broker: BrokerId, request: ControlRequest, version: int, correlation_id: int, bytes_sent: int
    ) -> None:
        """Record nothing: requests are recorded when they are queued, and the response has the attempts."""

    def on_response(self, exchange: Exchange) -> None:
        """Record the response, with the values that identify its request."""
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
