"""Requests of operators that last: pauses, and the throttle of reassignments.

PURE. Part of the context and of its snapshots. The store keeps them in ZooKeeper, so that a failover does not end them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.model import NO_EPOCH, BrokerId, TopicPartition
from controllerd.core.throttles import ThrottleView

AUTO_REBALANCE: Final = "auto-rebalance"
"""Pauses the periodic preferred elections, but not the requested ones."""
DELETIONS: Final = "deletions"
"""Pauses topic deletions: none begins or goes on, but brokers carry out the requests that they were sent before."""
PAUSABLE: Final = (AUTO_REBALANCE, DELETIONS)
"""The pauses that an operator can name; ``DrainBroker`` adds ``drain_of`` a broker."""
LONGEST_MS: Final = 7 * 24 * 3_600_000
"""Milliseconds. A longer pause would be forgotten, so it must be requested again."""

_DRAIN: Final = re.compile(r"drain-(0|[1-9][0-9]{0,9})")


class PauseView(NamedTuple):
    """One pause. ``until_ms``: wall clock at which it ends by itself. ``by`` and ``reason`` are for operators."""

    until_ms: int
    reason: str
    by: str
    broker_epoch: int = NO_EPOCH
    """Of a drained broker: the pause ends with this life of it."""


Pauses = Mapping[str, PauseView]
NO_PAUSES: Final[Pauses] = MappingProxyType({})


def drain_of(broker: BrokerId) -> str:
    """Return the name of the pause during which the automatic rebalance gives a broker no leaderships."""
    return f"drain-{broker}"


def drained_by(what: str) -> BrokerId | None:
    """Return the broker of the pause of a drain; None for any other pause."""
    match = _DRAIN.fullmatch(what)
    return BrokerId(int(match[1])) if match is not None else None


def is_pausable(what: str) -> bool:
    """Whether this is the name of a pause."""
    return what in PAUSABLE or drained_by(what) is not None


class PausesRead(NamedTuple):
    """The stored pauses. ``begun``: topics whose deletion brokers had been sent when deletions were paused."""

    pauses: Pauses = NO_PAUSES
    begun: frozenset[str] = frozenset()


@dataclass(slots=True)
class Intents:
    """The pauses and the throttle as this term knows them. Handlers replace each after ZooKeeper has it."""

    pauses: Pauses = field(default_factory=lambda: NO_PAUSES)
    throttle: ThrottleView | None = None
    awaited: set[TopicPartition] = field(default_factory=set)
    """The partitions of the throttle whose reassignment has not begun yet."""
    lift_not_before: float = 0.0
    """Monotonic seconds before which the throttle is not removed, after a failure to remove it."""
