"""What operators want beyond the state of the cluster, and what we set for it: pauses and the throttle.

PURE. Part of the context, read from our own znodes when a term begins, so that a failover forgets none of it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from controllerd.core.model import TopicPartition
from controllerd.core.pauses import NO_PAUSES, Pauses


class ThrottleView(NamedTuple):
    """The throttle that we set for reassignments. ``set_ms``: wall clock; ``rate``: bytes per second and broker."""

    rate: int
    by: str
    set_ms: int
    partitions: frozenset[TopicPartition]
    """The reassignments that it is for; when all of them are over, it is taken away."""


@dataclass(slots=True)
class Intents:
    """The book of one term. Replaced piecewise by its handlers, after ZooKeeper has it."""

    pauses: Pauses = field(default_factory=lambda: NO_PAUSES)
    throttle: ThrottleView | None = None
    awaited: set[TopicPartition] = field(default_factory=set)
    """Partitions of the throttle whose reassignment was not seen to begin yet."""
    lift_not_before: float = 0.0
    """Monotonic seconds: after a failure to take the throttle away."""
