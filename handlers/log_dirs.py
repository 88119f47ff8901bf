"""Log directories that failed (KIP-112)."""

from controllerd.controller import Controller
from events.replicas import LogDirEventNotification


async def on_log_dir_event(_event: LogDirEventNotification, _c: Controller) -> None:
    """Brokers lost log directories: ask them which of their replicas are still well."""
