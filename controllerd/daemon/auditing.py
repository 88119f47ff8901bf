"""The audit log as an instance opens and shows it, whether it leads or only watches."""

from controllerd.audit.settings import AuditSettings
from controllerd.audit.writer import AuditWriter
from controllerd.config.model import Config
from controllerd.status.sources import AuditView


def audit_settings(config: Config) -> AuditSettings:
    """The section ``audit`` of the configuration, as the writer takes it."""
    audit = config.audit
    return AuditSettings(
        directory=audit.dir,
        fsync=audit.fsync,
        fsync_interval_s=audit.fsync_interval_ms / 1000,
        on_failure=audit.on_failure,
        segment_bytes=audit.segment_bytes,
        segment_age_s=float(audit.segment_age_s),
    )


def audit_view(audit: AuditWriter) -> AuditView:
    """The writer, as the status endpoint shows it."""
    trouble = "the audit log cannot be written, see the log" if audit.is_troubled else None
    return AuditView(audit.records_written, audit.records_lost, trouble)
