"""``GET /v1/observations``: what an instance that only watches has found."""

import msgspec

from controllerd.status.schema.common import Answer


class ObservedState(msgspec.Struct, frozen=True, kw_only=True):
    """What a state znode says, or would say."""

    leader: int
    leader_epoch: int
    isr: list[int]


class ObservedPartition(msgspec.Struct, frozen=True, kw_only=True):
    """One partition beside what this instance would have done; a state that is null does not exist."""

    cause: str
    topic: str
    partition: int
    before: ObservedState | None
    would: ObservedState | None
    after: ObservedState | None
    verdict: str


class ObservedTotal(msgspec.Struct, frozen=True, kw_only=True):
    """How many partitions compared like this; ``ruling`` is equal, different, unclear, deliberate or not judged."""

    cause: str
    ruling: str
    partitions: int


class Observations(msgspec.Struct, frozen=True, kw_only=True):
    """What an instance that only watches has found since it started."""

    looks: int
    torn: int
    """Looks that could not be used: the cluster changed during each."""
    unsettled: int
    """Causes whose end is waited for."""
    would_refuse: str | None
    """Why this instance would refuse to lead; null when it would not."""
    totals: list[ObservedTotal]
    latest: list[ObservedPartition]
    """The newest partitions, at most 200, oldest first; the audit log has all of them."""
    not_judged: list[str]
    """What is counted and has no cause that shows in ZooKeeper."""
    cannot_be_seen: list[str]
    """What ZooKeeper does not show at all."""


class ObservationsResponse(Answer, frozen=True, kw_only=True):
    """``GET /v1/observations``."""

    kind: str = "Observations"
    observations: Observations
