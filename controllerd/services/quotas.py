"""Quotas of partitions that clients may create and delete (KIP-599): loads the rates, and finds the quota of a request.

Only brokers are notified of the configurations of users and client ids. So controllerd reads all of them at the start
of a term, and each one that changes after that.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.mutation_quota import (
    RATE_CONFIG,
    Mutation,
    MutationQuota,
    QuotaEntity,
    entity_of,
    parse_rate,
)
from controllerd.errors import BadZnode
from controllerd.record.records import AlarmRecord
from events.admin import Requester

log = structlog.get_logger(__name__)

THROTTLED: Final = Refusal(KafkaError.THROTTLING_QUOTA_EXCEEDED)
"""Without a sentence, as in Kafka: the client has its own."""


async def load_quotas(c: Controller) -> None:
    """Replace all quotas at the start of a term. Partitions that clients created or deleted before still count."""
    rates = _understood(await c.store.configs.read_mutation_rates(), c)
    c.configs.quotas.replace_rates({entity: rate for entity, rate in rates.items() if rate is not None})


async def follow_quotas(changed: Iterable[str], c: Controller) -> None:
    """Read the quotas of these entities, whose configurations changed; one that cannot be parsed stays as it was."""
    concerned = sorted(path for path in changed if entity_of(path) is not None)
    if not concerned:
        return
    for entity, rate in _understood(await c.store.configs.read_mutation_rates(concerned), c).items():
        log.info("set quota of partition mutations", user=entity.user, client=entity.client, rate=rate)
        c.configs.quotas.set_rate(entity, rate)


def _understood(found: Mapping[str, str | BadZnode | None], c: Controller) -> dict[QuotaEntity, float | None]:
    """The rates by entity, None where there is no quota; a text that is no rate is left out after an alarm."""
    rates: dict[QuotaEntity, float | None] = {}
    for path, text in found.items():
        entity = entity_of(path)
        if entity is None:
            continue
        if isinstance(text, BadZnode):
            c.audit.record(AlarmRecord("quota cannot be read", str(text)))
            continue
        try:
            rates[entity] = None if text is None else parse_rate(text)
        except ValueError as problem:
            log.error("ignored invalid quota", path=f"/config/{path}", reason=str(problem))
            c.audit.record(AlarmRecord("invalid configuration", f"{path}: {RATE_CONFIG}: {problem}"))
    return rates


def quota_of(by: Requester, mutation: Mutation, c: Controller) -> MutationQuota:
    """Return the quota that limits this one request of the client."""
    return c.configs.quotas.quota_for(by.user, by.client_id, mutation, by.version, c.clock.monotonic())
