"""Finalized features (KIP-584): the levels that all brokers of the cluster agree to keep to."""

from collections.abc import Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core import finalized
from controllerd.core.finalized import WantedLevel
from controllerd.core.kafka_error import KafkaError
from controllerd.errors import BadZnode
from controllerd.ports.results import Conflict, FeaturesRead, WriteResult, Written
from controllerd.record.records import AlarmRecord
from controllerd.services.brokers import compare_brokers
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from events.admin import UpdateFeatures

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 20
"""Attempts that find ``/feature`` changed, until the client gets an error. While we lead, nothing else writes it."""


async def on_update_features(event: UpdateFeatures, c: Controller) -> Mapping[str, KafkaError] | KafkaError:
    """Finalize the levels that are allowed, in one write that demands the version read; returns the error of each.

    INVALID_REQUEST: the update is not allowed; as the answer to the whole request: below 2.7 no feature is finalized.
    FEATURE_UPDATE_FAILED: the update is allowed, but nothing was written.
    """
    if not c.context.features.feature_versioning:
        return KafkaError.INVALID_REQUEST
    try:
        errors, result = await _finalize(event, c)
    except BadZnode as bad:
        quarantine(c, [bad])
        return dict.fromkeys(event.updates, KafkaError.FEATURE_UPDATE_FAILED)
    if isinstance(result, Written):
        await compare_brokers(c)  # brokers that were incompatible with the former levels may be served now
        return errors
    c.audit.record(AlarmRecord("features were not written", result.reason))
    return {name: error or KafkaError.FEATURE_UPDATE_FAILED for name, error in errors.items()}


async def _finalize(event: UpdateFeatures, c: Controller) -> tuple[dict[str, KafkaError], WriteResult]:
    """Decide and write, and do both again while another writer changes the znode in between.

    :raises BadZnode: the znode cannot be understood.
    """
    errors: dict[str, KafkaError] = {}
    result: WriteResult = Conflict("not tried yet")
    for _ in range(ATTEMPTS):
        found = await c.store.cluster.read_features()
        await take_out_of_quarantine(c, "/feature")
        errors, levels = _judge(event, found, c)
        result = await _write(event, found, levels, c)
        if not isinstance(result, Conflict):
            break
    return errors, result


def _judge(event: UpdateFeatures, found: FeaturesRead, c: Controller) -> tuple[dict[str, KafkaError], dict[str, int]]:
    """The outcome of each update, and the levels after the permitted ones."""
    errors: dict[str, KafkaError] = {}
    levels = dict(found.levels)
    for name, update in event.updates.items():
        wanted = WantedLevel(update.max_version_level, update.allow_downgrade)
        reason = finalized.refusal(name, wanted, found.levels, c.context.brokers.values())
        if reason is None:
            errors[name] = KafkaError.NONE
            levels = finalized.updated(levels, name, wanted)
        else:
            log.info("feature update refused", feature=name, reason=reason)
            errors[name] = KafkaError.INVALID_REQUEST
    return errors, levels


async def _write(event: UpdateFeatures, found: FeaturesRead, levels: Mapping[str, int], c: Controller) -> WriteResult:
    if event.validate_only or levels == found.levels:
        return Written(found.version)
    result = await c.store.cluster.write_features(levels, found.version)
    if isinstance(result, Written):
        log.info("features finalized", levels=dict(levels))
    return result
