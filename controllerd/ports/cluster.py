"""Znodes of the cluster as a whole: its id, its features, its producer ids, its delegation tokens."""

from collections.abc import Mapping
from typing import Protocol

from controllerd.ports.results import AllocatedProducerIds, DelegationToken, FeaturesRead, TokensRead, WriteResult


class ClusterStore(Protocol):
    """The znodes that every cluster has, and the features that it has finalized (KIP-584)."""

    async def ensure_paths(self) -> None:
        """Create the persistent parents that are missing, so that child watches can be armed."""
        ...

    async def cluster_id(self) -> str:
        """Return the id of the cluster; create it if it is missing, as the first broker does."""
        ...

    async def read_features(self) -> FeaturesRead:
        """Read the finalized features; version -1 when the znode is missing. :raises BadZnode: it cannot be decoded."""
        ...

    async def write_features(self, levels: Mapping[str, int], version: int) -> WriteResult:
        """Finalize exactly these levels on the condition of the version; unknown fields are kept. Fenced."""
        ...

    async def ensure_feature_znode(self, *, enabled: bool, format_version: int = 2) -> None:
        """Create or correct ``/feature``: enabled with its present levels, or disabled and empty. Fenced."""
        ...


class ProducerIdStore(Protocol):
    """The blocks of producer ids that the controller allocates to brokers."""

    async def read_producer_ids(self) -> AllocatedProducerIds:
        """Read the last allocated block. :raises BadZnode: it cannot be decoded."""
        ...

    async def write_producer_ids(self, block: AllocatedProducerIds) -> WriteResult:
        """Allocate a block on the condition of ``block.version``. Fenced."""
        ...


class TokenStore(Protocol):
    """Delegation tokens (KIP-48), which the controller deletes when they expire."""

    async def has_delegation_tokens(self) -> bool:
        """Whether there are delegation tokens."""
        ...

    async def read_delegation_tokens(self) -> TokensRead:
        """Read all delegation tokens."""
        ...

    async def delete_delegation_tokens(self, tokens: Mapping[str, DelegationToken]) -> Mapping[str, WriteResult]:
        """Delete tokens at the version that was read, and notify brokers; ``Conflict``: a token changed meanwhile."""
        ...
