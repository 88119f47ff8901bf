"""Delegation tokens (KIP-48): brokers create and renew them, the controller deletes expired ones."""

from collections.abc import Mapping, Sequence
from typing import Final

from controllerd.errors import BadZnode
from controllerd.ports.results import DelegationToken, TokensRead, WriteResult
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Delete, Znode, ZooKeeper, missing_parents, read_in_slices
from controllerd.zk.rejections import Rejections
from controllerd.zk.writer import FencedWriter

_SLICE: Final = 1_000


class TokenZnodes:
    """``ports.cluster.TokenStore`` over ZooKeeper."""

    def __init__(self, zk: ZooKeeper, writer: FencedWriter, rejections: Rejections) -> None:
        self._zk = zk
        self._writer = writer
        self._rejections = rejections

    async def has_delegation_tokens(self) -> bool:
        """Whether there are delegation tokens."""
        return bool(await self._zk.children(paths.DELEGATION_TOKENS))

    async def read_delegation_tokens(self) -> TokensRead:
        """Read the children of ``/delegation_token/tokens``."""
        tokens: dict[str, DelegationToken] = {}
        broken: list[BadZnode] = []

        def take(part: Sequence[str], nodes: Sequence[Znode | None]) -> None:
            decoded, bad = self._rejections.decode_all(part, nodes, _token_of)
            tokens.update(decoded)
            broken.extend(bad)

        names = sorted(await self._zk.children(paths.DELEGATION_TOKENS) or [])
        await read_in_slices(names, _SLICE, self._read_token_nodes, take)
        return TokensRead(tokens, tuple(broken))

    async def delete_delegation_tokens(self, tokens: Mapping[str, DelegationToken]) -> Mapping[str, WriteResult]:
        """Delete tokens, each with the notification that makes brokers drop it; return one result for each.

        Each token is deleted at the version that was read, because a broker may renew it meanwhile.
        The token and its notification are one group: if a controller ended between the two, all
        brokers would keep the token in memory until they restart.
        """
        await self._writer.write(await missing_parents(self._zk, paths.DELEGATION_CHANGES))
        groups = [
            (
                Delete(paths.delegation_token(token_id), token.znode_version),
                Create(paths.DELEGATION_CHANGE_PREFIX, codecs.encode_token_change(token_id), sequential=True),
            )
            for token_id, token in tokens.items()
        ]
        return dict(zip(tokens, await self._writer.write_groups(groups), strict=True))

    async def _read_token_nodes(self, token_ids: Sequence[str]) -> list[Znode | None]:
        return await self._zk.read(list(map(paths.delegation_token, token_ids)))


def _token_of(token_id: str, node: Znode) -> DelegationToken:
    return codecs.decode_token(token_id, node.data, node.version)
