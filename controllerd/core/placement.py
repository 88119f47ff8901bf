"""The placement of replicas of new partitions: Kafka's algorithm, with its two random numbers as arguments."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, islice, zip_longest
from typing import Final

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId
from controllerd.errors import ControllerdError

MAX_PARTITIONS: Final = 100_000
"""Highest number of partitions of one topic (ours). The znode of a larger topic would exceed ``jute.maxbuffer`` of
ZooKeeper; without the limit, one request could hold up the controller for minutes."""
MAX_AT_ONCE: Final = 200_000
"""Partitions of all topics of one request: once so many are placed, the other topics are refused (ours)."""

Placement = dict[int, tuple[BrokerId, ...]]
"""Partition -> its replicas, preferred replica first."""


TOO_MANY_AT_ONCE: Final = Refusal(
    KafkaError.INVALID_PARTITIONS, f"After {MAX_AT_ONCE} partitions of one request no further topic is looked at."
)


class PlacementError(ControllerdError):
    """The replicas cannot be placed on these brokers: they are too few, or only some of them have a rack."""


def place_replicas(
    racks: Mapping[BrokerId, str | None], partitions: range, replication_factor: int, *, start: int, shift: int
) -> Placement:
    """Spread the replicas of ``partitions`` over the brokers, and over their racks if they have any (KIP-36).

    ``racks`` maps each usable broker to its rack; without racks its order is the order of placement. ``start`` and
    ``shift`` are random numbers below the number of brokers, or both ``expansion_start`` for partitions that are added.
    """
    if not 0 < replication_factor <= len(racks):
        raise PlacementError(f"replication factor {replication_factor} with {len(racks)} live brokers")
    if missing := without_rack(racks):
        raise PlacementError(f"brokers {missing} have no rack, but others have")
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if not known:
        return _place(list(racks), {}, partitions, replication_factor, start=start, shift=shift)
    return _place(alternate_racks(known), known, partitions, replication_factor, start=start, shift=shift)


def without_rack(racks: Mapping[BrokerId, str | None]) -> list[BrokerId]:
    """Return the brokers without a rack, if others have one: no replica can be placed on such a mix (KIP-36)."""
    missing = sorted(broker for broker, rack in racks.items() if rack is None)
    return missing if len(missing) < len(racks) else []


def placement_refusal(partitions: int, replication_factor: int, racks: Mapping[BrokerId, str | None]) -> Refusal | None:
    """Return why a number of new partitions with this replication factor cannot be placed; None if it can.

    For a mix of brokers with and without rack Kafka fails with an unknown error and no text; so does controllerd.
    """
    if partitions <= 0:
        return Refusal(KafkaError.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if partitions > MAX_PARTITIONS:
        return Refusal(KafkaError.INVALID_PARTITIONS, f"Number of partitions must not be larger than {MAX_PARTITIONS}.")
    if replication_factor <= 0:
        return Refusal(KafkaError.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        text = f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}."
        return Refusal(KafkaError.INVALID_REPLICATION_FACTOR, text)
    return Refusal(KafkaError.UNKNOWN_SERVER_ERROR) if without_rack(racks) else None


def expansion_start(brokers: Sequence[BrokerId], first_replica: BrokerId) -> int:
    """Return start and shift for added partitions: the index of partition 0's first replica in the sorted brokers."""
    index = bisect_left(brokers, first_replica)
    return index if index < len(brokers) else 0


def alternate_racks(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return the brokers by turns from each rack: racks by name, brokers of a rack by id."""
    by_rack: defaultdict[str, list[BrokerId]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    rounds = zip_longest(*(by_rack[rack] for rack in sorted(by_rack)))
    return [broker for broker in chain.from_iterable(rounds) if broker is not None]


def _place(
    brokers: list[BrokerId],
    racks: Mapping[BrokerId, str],
    partitions: range,
    replication_factor: int,
    *,
    start: int,
    shift: int,
) -> Placement:
    placed: Placement = {}
    number_of_racks = len(set(racks.values())) or 1
    for partition in partitions:
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader = (partition + start) % len(brokers)
        followers = _followers(brokers, leader, shift * number_of_racks)
        chosen = _spread(brokers[leader], followers, racks, number_of_racks) if racks else followers
        placed[partition] = (brokers[leader], *islice(chosen, replication_factor - 1))
    return placed


def _followers(brokers: list[BrokerId], leader: int, shift: int) -> Iterator[BrokerId]:
    """Yield the other brokers in Kafka's order, without end."""
    others = len(brokers) - 1
    return (brokers[(leader + 1 + (shift + k) % others) % len(brokers)] for k in count())


def _spread(
    leader: BrokerId, followers: Iterator[BrokerId], racks: Mapping[BrokerId, str], number_of_racks: int
) -> Iterator[BrokerId]:
    """Yield followers: each broker once, and no rack twice before every rack has a replica."""
    taken, used = {leader}, {racks[leader]}
    while len(taken) < len(racks):
        broker = next(followers)
        if broker not in taken and (racks[broker] not in used or len(used) == number_of_racks):
            taken.add(broker)
            used.add(racks[broker])
            yield broker
