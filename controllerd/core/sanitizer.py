"""Keeps our own node ids out of assignments.

Brokers that auto-create a topic choose among everyone in their metadata, and in visible mode that is us too. Before the
first election such an id is replaced by a live broker: no replica exists yet, so nothing moves.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controllerd.core.model import OUR_IDS, Broker, BrokerId, ReplicaAssignment


class WaitsForBrokers(NamedTuple):
    """Too few live brokers to replace our ids; the replication factor is never lowered, so the topic waits."""

    needed: int
    """Replicas that want a broker."""
    available: int
    """Live brokers that do not hold a replica yet."""


class SanitizedTopic(NamedTuple):
    """The corrections for the partitions of one topic; a partition in neither map is clean."""

    changed: Mapping[int, ReplicaAssignment]
    waiting: Mapping[int, WaitsForBrokers]


def names_us(assignment: ReplicaAssignment) -> bool:
    """Whether a replica that is meant to stay has an id of our range.

    One that is being removed is left to its reassignment, which ends by dropping it.
    """
    if max(assignment.replicas, default=0) < OUR_IDS.start:
        return False
    return any(broker in OUR_IDS for broker in assignment.target)


def sanitize(
    assignment: ReplicaAssignment, load: Mapping[BrokerId, int], *, racks: Mapping[BrokerId, str] | None = None
) -> ReplicaAssignment | WaitsForBrokers | None:
    """The assignment with live brokers in place of our ids; None if it is clean already.

    ``WaitsForBrokers`` if there are too few live brokers.

    ``load`` maps every live broker to its number of replicas: the least used one is taken, by preference from a rack
    that has no replica of the partition yet, and of equals the one with the lowest id.
    """
    if not names_us(assignment):
        return None
    needed = [broker for broker in assignment.target if broker in OUR_IDS]
    free = [broker for broker in load if broker not in assignment.replicas and broker not in OUR_IDS]
    if len(free) < len(needed):
        return WaitsForBrokers(len(needed), len(free))
    return _replaced(assignment, _choose(assignment, needed, free, load, racks or {}))


def _choose(
    assignment: ReplicaAssignment,
    needed: list[BrokerId],
    free: list[BrokerId],
    load: Mapping[BrokerId, int],
    racks: Mapping[BrokerId, str],
) -> dict[BrokerId, BrokerId]:
    chosen: dict[BrokerId, BrokerId] = {}
    used = {racks.get(broker) for broker in assignment.target if broker not in OUR_IDS}
    for ours in needed:
        best = min(free, key=lambda broker: (racks.get(broker) in used, load[broker], broker))
        free.remove(best)
        used.add(racks.get(best))
        chosen[ours] = best
    return chosen


def _replaced(assignment: ReplicaAssignment, chosen: Mapping[BrokerId, BrokerId]) -> ReplicaAssignment:
    def swap(brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        return tuple(chosen.get(broker, broker) for broker in brokers)

    return ReplicaAssignment(swap(assignment.replicas), swap(assignment.adding), assignment.removing)


def sanitize_topic(
    assignments: Mapping[int, ReplicaAssignment],
    load: Mapping[BrokerId, int],
    *,
    racks: Mapping[BrokerId, str] | None = None,
) -> SanitizedTopic:
    """``sanitize`` for each partition in order, counting every replica it gives away, so that a topic spreads."""
    counted = Counter(load)
    changed: dict[int, ReplicaAssignment] = {}
    waiting: dict[int, WaitsForBrokers] = {}
    for partition, assignment in sorted(assignments.items()):
        outcome = sanitize(assignment, counted, racks=racks)
        if isinstance(outcome, WaitsForBrokers):
            waiting[partition] = outcome
        elif outcome is not None:
            changed[partition] = outcome
            counted.update(broker for broker in outcome.replicas if broker not in assignment.replicas)
    return SanitizedTopic(changed, waiting)


def our_rack(brokers: Iterable[Broker]) -> str | None:
    """The rack of our own entry in UpdateMetadata: one of theirs if every broker has one, else none.

    With racks on some entries only, a broker refuses to create topics; with a rack of our own we would be chosen for
    every partition. So it is the rack of most brokers, where one more entry weighs least; of equals the first by name.
    """
    racks = [broker.rack for broker in brokers if broker.id not in OUR_IDS]
    labels = Counter(rack for rack in racks if rack is not None)
    if not labels or labels.total() < len(racks):
        return None
    return min(labels, key=lambda rack: (-labels[rack], rack))
