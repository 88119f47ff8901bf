"""Records changed settings of the cluster in the audit log, and alarms disagreements of brokers."""

from collections.abc import Mapping

import structlog

from controllerd.controller import Controller
from controllerd.core.model import BrokerId
from controllerd.core.resolved_settings import Resolution
from controllerd.ports.audit import AuditLog
from controllerd.record.families.operators import SettingsRecord
from controllerd.record.records import AlarmRecord

log = structlog.get_logger(__name__)


def record_settings_changes(before: Resolution, now: Resolution, audit: AuditLog) -> None:
    """Write one record of all changes, and an alarm for every new disagreement."""
    changed = [
        name
        for name, resolved in now.settings.items()
        if (resolved.value, resolved.source, resolved.problem)
        != (before.settings[name].value, before.settings[name].source, before.settings[name].problem)
    ]
    if changed:
        values = {name: f"{now.values[name]} ({now.settings[name].source.value})" for name in changed}
        log.info("settings of the cluster changed", settings=values)
        audit.record(
            SettingsRecord(
                changed,
                [before.settings[name].value for name in changed],
                [now.settings[name].value for name in changed],
                [now.settings[name].source.value for name in changed],
                [now.settings[name].problem for name in changed],
            )
        )
    for name, problem in now.problems.items():
        if before.problems.get(name) != problem:
            log.warning("settings of brokers differ", setting=name, reason=problem)
            audit.record(AlarmRecord("settings of brokers differ", problem))


def expect_answers(registered: Mapping[BrokerId, int], c: Controller) -> None:
    """Keep unclean elections off until these brokers have answered; call it before any of them can be elected."""
    before = c.settings.current
    c.settings.expect(registered)
    record_settings_changes(before, c.settings.current, c.audit)
