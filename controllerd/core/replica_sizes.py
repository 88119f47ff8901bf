"""The sizes of replicas and their growth, from answers of brokers, for the progress of reassignments.

PURE. A view is immutable; ``SizeBook`` takes the answer of one broker at a time.
"""

from collections.abc import Mapping
from math import exp
from types import MappingProxyType
from typing import Final, NamedTuple

from controllerd.core.model import BrokerId, TopicPartition

SMOOTHED_OVER_S: Final = 30.0
"""The time constant of smoothed rates, in seconds."""

SizesAnswer = Mapping[TopicPartition, tuple[int, int]]
"""A broker's answer: for each replica its bytes, and its offset lag as far as the broker knows."""


class ReplicaSize(NamedTuple):
    """One replica. ``answered_s``: monotonic seconds of the answer."""

    bytes: int
    lag: int
    """Offsets that the replica lacks, as far as its broker knows. A follower that is far behind does not know of later
    offsets, so that 0 does not mean that it has caught up. Only the ISR shows that.
    """
    answered_s: float
    bytes_per_s: float | None = None
    """Smoothed growth; None after the first answer, and after an answer with fewer bytes than before."""


Sizes = Mapping[TopicPartition, Mapping[BrokerId, ReplicaSize]]


class SizesView(NamedTuple):
    """The known sizes of replicas; empty while no reader asks for them."""

    replicas: Sizes = MappingProxyType({})
    failures: Mapping[BrokerId, str] = MappingProxyType({})
    """The brokers that did not answer the last time, and why."""

    def size(self, tp: TopicPartition, broker: BrokerId) -> ReplicaSize | None:
        """One replica; None while its broker has not answered about it."""
        return self.replicas.get(tp, {}).get(broker)

    def bytes_left(self, tp: TopicPartition, leader: BrokerId, broker: BrokerId) -> int | None:
        """The bytes that the leader has beyond the replica, at least 0; None unless both brokers answered."""
        ahead, behind = self.size(tp, leader), self.size(tp, broker)
        if ahead is None or behind is None:
            return None
        return max(0, ahead.bytes - behind.bytes)

    def eta_s(self, tp: TopicPartition, leader: BrokerId, broker: BrokerId) -> float | None:
        """Return the seconds until the replica has caught up; None while they cannot be computed.

        The leader may grow meanwhile, so the time is computed from the rate at which the distance shrinks.
        """
        left = self.bytes_left(tp, leader, broker)
        ahead, behind = self.size(tp, leader), self.size(tp, broker)
        if left is None or ahead is None or behind is None or behind.bytes_per_s is None:
            return None
        closing = behind.bytes_per_s - (ahead.bytes_per_s or 0.0)
        if left == 0:
            return 0.0
        return left / closing if closing > 0 else None


NO_SIZES: Final = SizesView()


class SizeBook:
    """Collects the answers of brokers about the replicas that are asked for."""

    def __init__(self) -> None:
        self._replicas: dict[TopicPartition, dict[BrokerId, ReplicaSize]] = {}
        self._failures: dict[BrokerId, str] = {}

    def take(self, broker: BrokerId, answer: SizesAnswer, now_s: float) -> None:
        """Take the answer of a broker, given at this time."""
        self._failures.pop(broker, None)
        for tp, (size, lag) in answer.items():
            known = self._replicas.setdefault(tp, {})
            known[broker] = ReplicaSize(size, lag, now_s, _rate(known.get(broker), size, now_s))

    def fail(self, broker: BrokerId, reason: str) -> None:
        """Note that a broker did not answer; its earlier answer stays, with its age."""
        self._failures[broker] = reason

    def keep(self, wanted: Mapping[BrokerId, frozenset[TopicPartition]]) -> None:
        """Forget all other replicas and brokers."""
        for tp in list(self._replicas):
            kept = {b: size for b, size in self._replicas[tp].items() if tp in wanted.get(b, ())}
            if kept:
                self._replicas[tp] = kept
            else:
                del self._replicas[tp]
        self._failures = {broker: why for broker, why in self._failures.items() if broker in wanted}

    def view(self) -> SizesView:
        """Return the present sizes."""
        replicas = {tp: MappingProxyType(dict(known)) for tp, known in self._replicas.items()}
        return SizesView(MappingProxyType(replicas), MappingProxyType(dict(self._failures)))


def _rate(before: ReplicaSize | None, size: int, now_s: float) -> float | None:
    """Return the exponentially smoothed growth in bytes per second; None if it cannot be computed."""
    if before is None or now_s <= before.answered_s or size < before.bytes:
        return None
    passed = now_s - before.answered_s
    latest = (size - before.bytes) / passed
    if before.bytes_per_s is None:
        return latest
    fresh = 1 - exp(-passed / SMOOTHED_OVER_S)
    return fresh * latest + (1 - fresh) * before.bytes_per_s
