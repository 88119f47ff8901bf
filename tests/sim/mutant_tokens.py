"""Planted bugs of the deletion of delegation tokens."""

from typing import Final

from tests.sim.mutant import bug

_TOKENS: Final = "controllerd/services/delegation_tokens.py"
_STORE: Final = "controllerd/zk/store_tokens.py"

DELEGATION_TOKENS: Final = (
    bug(
        "valid-tokens-go",
        "delegation tokens are deleted whether they have expired or not",
        "Z-48",
        "controllerd/services/delegation_tokens.py",
        " if token.expires_ms < now_ms}",
        "}",
    ),
    bug(
        "renewed-token-goes",
        "an expired delegation token is deleted at whatever version, though a broker has just renewed it",
        "Z-48",
        _STORE,
        "Delete(paths.delegation_token(token_id), token.znode_version),",
        "Delete(paths.delegation_token(token_id), -1),",
    ),
    bug(
        "tokens-looked-at-once",
        "delegation tokens that expire during a term stay",
        "Q-26",
        _TOKENS,
        "        c.timers.put_later(c.policy.delegation_token_expiry_check_interval_s, DelegationTokenExpiryCheck())\n",
        "        pass\n",
    ),
)
