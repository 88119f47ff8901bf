"""Replaces ids of controllerd in assignments by live brokers.

Brokers that auto-create a topic choose among all brokers in their metadata, which in visible mode include this
controller. Before the first election such an id is replaced by a live broker: no replica exists yet, so no data moves.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controllerd.core.model import OUR_IDS, Broker, BrokerId, ReplicaAssignment


class WaitsForBrokers(NamedTuple):
    """There are too few live brokers to replace our ids. The topic waits: its replication factor is never lowered."""

    needed: int
    """Replicas that need a broker."""
    available: int
    """Live brokers without a replica."""


class SanitizedTopic(NamedTuple):
    """The corrections for the partitions of one topic; a partition in neither map is clean."""

    changed: Mapping[int, ReplicaAssignment]
    waiting: Mapping[int, WaitsForBrokers]


def names_us(assignment: ReplicaAssignment) -> bool:
    """Whether a replica that is not being removed has an id of our range.

    A replica that is being removed is left to its reassignment, which drops it at the end.
    """
    if max(assignment.replicas, default=0) < OUR_IDS.start:
        return False
    return any(broker in OUR_IDS for broker in assignment.target)


def sanitize(
    assignment: ReplicaAssignment, load: Mapping[BrokerId, int], *, racks: Mapping[BrokerId, str] | None = None
) -> ReplicaAssignment | WaitsForBrokers | None:
    """Return the assignment with live brokers in place of our ids; None if it has none of our ids.

    ``load`` maps every live broker to its number of replicas. A broker in a rack without a replica of the partition is
    preferred, then the broker with the fewest replicas, then the one with the lowest id.
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
    """Call ``sanitize`` for each partition in order; each replica that is placed counts as load of its broker."""
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
    """Return the rack of this controller's entry in UpdateMetadata: None unless every broker has a rack.

    If only some entries have a rack, a broker refuses to create topics. If our entry had a rack of its own, brokers
    would choose it for every partition. So it gets the rack of most brokers, where it is chosen least often. Of several
    such racks it gets the first by name.
    """
    racks = [broker.rack for broker in brokers if broker.id not in OUR_IDS]
    labels = Counter(rack for rack in racks if rack is not None)
    if not labels or labels.total() < len(racks):
        return None
    return min(labels, key=lambda rack: (-labels[rack], rack))
