"""Delegation tokens (KIP-48) and the notifications by which brokers notice a changed one."""

from typing import Final

import msgspec

from controllerd.errors import BadZnode
from controllerd.ports.results import DelegationToken
from controllerd.zk import paths
from controllerd.zk.formats.fields import VersionInt, decode_format

_KNOWN: Final = (1, 2, 3)


class _Token(msgspec.Struct, rename="camel"):
    """A delegation token; format 3 added its requester, which may differ from its owner (KIP-373)."""

    version: VersionInt
    owner: str
    renewers: list[str]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int
    token_id: str
    token_requester: str | None = None


_TOKEN: Final = msgspec.json.Decoder(_Token)


def decode_token(token_id: str, data: bytes | None, znode_version: int) -> DelegationToken:
    """Decode a child of ``/delegation_token/tokens`` (``DelegationTokenManagerZk.fromBytes``)."""
    path = paths.delegation_token(token_id)
    found = decode_format(path, data, _TOKEN, _KNOWN)
    if found.version == max(_KNOWN) and found.token_requester is None:
        raise BadZnode(path, "Object missing required field `tokenRequester`")
    if found.token_id != token_id:
        raise BadZnode(path, "is the token of another id")
    return DelegationToken(found.owner, min(found.expiry_timestamp, found.max_timestamp), znode_version)


def encode_token_change(token_id: str) -> bytes:
    """Encode a notification: the bare id (``DelegationTokenChangeNotificationSequenceZNode``)."""
    return token_id.encode()
