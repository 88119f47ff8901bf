"""Deletes expired delegation tokens, as the built-in controller does (``TokenManager.expireTokens``).

No broker can be asked whether tokens are enabled, because none shows its secret key. So the znodes
decide: where no broker ever created a token there is no znode, and no check. A token is deleted only
under two conditions. Its expiry, or the end of its longest life, has passed, so that no broker accepts
or renews it. And its znode still has the version that was read: a broker that renews the token in that
moment wins, and no client loses a valid token.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from controllerd.controller import Controller
from controllerd.errors import BadZnode
from controllerd.ports.results import Conflict, DelegationToken, WriteFailed
from controllerd.record.records import AlarmRecord
from controllerd.services.quarantine import quarantine, take_out_of_quarantine
from events.cluster import DelegationTokenExpiryCheck


async def schedule_token_check(c: Controller, delay_s: float = 0.0) -> None:
    """Check delegation tokens after ``delay_s`` seconds, and then periodically, if there are any."""
    if await c.store.tokens.has_delegation_tokens():
        c.timers.put_later(delay_s, DelegationTokenExpiryCheck())


log = structlog.get_logger(__name__)

_TOKENS: Final = "/delegation_token/tokens/"


async def delete_expired_tokens(c: Controller) -> None:
    """Delete the tokens that have expired; while there are tokens, check again after the broker's interval."""
    read = await c.store.tokens.read_delegation_tokens()
    await _update_quarantine(read.broken, c)
    if read.tokens or read.broken:
        c.timers.put_later(c.policy.delegation_token_expiry_check_interval_s, DelegationTokenExpiryCheck())
    now_ms = c.clock.now_ms()
    expired = {token_id: token for token_id, token in read.tokens.items() if token.expires_ms < now_ms}
    if expired:
        await _delete(expired, c)


async def _delete(expired: Mapping[str, DelegationToken], c: Controller) -> None:
    results = await c.store.tokens.delete_delegation_tokens(expired)
    for token_id, result in results.items():
        owner = expired[token_id].owner
        if isinstance(result, WriteFailed):
            log.error("delegation token was not deleted", token_id=token_id, owner=owner, reason=result.reason)
            c.audit.record(AlarmRecord("delegation token was not deleted", f"{_TOKENS}{token_id}: {result.reason}"))
        elif isinstance(result, Conflict):
            log.info("kept delegation token that changed", token_id=token_id, owner=owner)
        else:
            log.info("deleted expired delegation token", token_id=token_id, owner=owner)


async def _update_quarantine(broken: Iterable[BadZnode], c: Controller) -> None:
    """Put tokens that cannot be parsed, and so are never deleted, in quarantine for as long as that is so."""
    found = {bad.path: bad for bad in broken}
    for path in [path for path in c.context.quarantine if path.startswith(_TOKENS) and path not in found]:
        await take_out_of_quarantine(c, path)
    quarantine(c, found.values())
