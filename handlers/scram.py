"""SCRAM credentials of users, as admin clients change them (KIP-554); brokers read them from ZooKeeper themselves."""

from collections.abc import Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.scram import ScramChange, altered_config, scram_refusal
from controllerd.errors import BadZnode
from controllerd.ports.results import ConfigRead, Conflict, WriteResult, Written
from controllerd.record.records import AlarmRecord
from events.admin import AlterScram

log = structlog.get_logger(__name__)

ATTEMPTS: Final = 5
"""Attempts that find the configuration of a user changed, until the client has to ask again."""
_AGAIN: Final = Refusal(KafkaError.UNKNOWN_SERVER_ERROR, "Somebody else changed it meanwhile.")
"""Marks a user until the next attempt; no client gets it as an answer."""


async def on_alter_scram(event: AlterScram, c: Controller) -> Mapping[str, Refusal | None]:
    """Change credentials, by one write for each user that demands the version read and notifies brokers.

    :raises NotController: this instance is not the active controller.
    """
    outcomes: dict[str, Refusal | None] = {}
    async for user, change in c.outbox.slicer.each(event.changes.items()):
        outcomes[user] = scram_refusal(user, change)
    pending = {user: event.changes[user] for user, refusal in outcomes.items() if refusal is None}
    for _ in range(ATTEMPTS):
        outcomes |= await _alter(pending, c)
        pending = {user: change for user, change in pending.items() if outcomes[user] is _AGAIN}
        if not pending:
            break
    outcomes |= {user: _failed(user, "somebody else keeps changing it", c) for user in pending}
    changed = sum(refusal is None for refusal in outcomes.values())
    if changed:
        log.info("credentials changed", users=changed, principal=event.by.principal, client_id=event.by.client_id)
    return outcomes


async def _alter(pending: Mapping[str, ScramChange], c: Controller) -> dict[str, Refusal | None]:
    """Read, check and write once; a user that another client changed meanwhile has the outcome ``_AGAIN``."""
    if not pending:
        return {}
    outcomes: dict[str, Refusal | None] = {}
    read = await c.store.configs.read_user_configs(pending)
    wanted: dict[str, ConfigRead] = {}
    async for user, change in c.outbox.slicer.each(pending.items()):
        found = read[user]
        if isinstance(found, BadZnode):
            outcomes[user] = _failed(user, found.reason, c)
            continue
        config = altered_config(found.config, change)
        if isinstance(config, Refusal):
            outcomes[user] = config
        else:
            wanted[user] = found._replace(config=config)
    for user, result in (await c.store.configs.write_user_configs(wanted)).items():
        outcomes[user] = _outcome(user, result, c)
    return outcomes


def _outcome(user: str, result: WriteResult, c: Controller) -> Refusal | None:
    if isinstance(result, Written):
        return None
    return _AGAIN if isinstance(result, Conflict) else _failed(user, result.reason, c)


def _failed(user: str, reason: str, c: Controller) -> Refusal:
    c.audit.record(AlarmRecord("credentials were not written", f"user {user}: {reason}"))
    return Refusal(KafkaError.UNKNOWN_SERVER_ERROR)
