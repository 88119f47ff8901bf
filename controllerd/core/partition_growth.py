"""The rules by which partitions are added to a topic (KIP-195): the replicas of the new ones, or a refusal.

The rules, their order and their error messages are those of Kafka's own controller, with one exception. A topic whose
partitions are not numbered from 0 without a gap is refused, because a new partition could replace an existing one, as
it does with Kafka's controller.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import BrokerId, ReplicaAssignment
from controllerd.core.placement import Placement, expansion_start, place_replicas, placement_refusal, without_rack

Replicas = tuple[BrokerId, ...]


class GrowthRequest(NamedTuple):
    """One row of CreatePartitions: the new total, and perhaps the replicas of each new partition."""

    topic: str
    total: int
    assignments: tuple[Replicas, ...] | None = None


class PlannedGrowth(NamedTuple):
    """Partitions that may be added, with their replicas."""

    topic: str
    added: Placement
    total: int


def refused_repeats(topics: Sequence[str]) -> dict[str, Refusal]:
    """Return the topics that one request names twice; they are refused before authorization, as in Kafka."""
    refusal = Refusal(KafkaError.INVALID_REQUEST, "Duplicate topic in request.")
    return {topic: refusal for topic, times in Counter(topics).items() if times > 1}


def plan_growth(
    wanted: GrowthRequest,
    current: Mapping[int, ReplicaAssignment],
    racks: Mapping[BrokerId, str | None],
    *,
    queued_for_deletion: bool = False,
) -> PlannedGrowth | Refusal:
    """Return the replicas of the new partitions, or the refusal of the first rule that is broken. Changes nothing.

    ``current`` has the partitions of the topic, none if there is no such topic; ``racks`` has every live broker.
    The caller has dealt with repeated topics (``refused_repeats``), authorization and quotas.
    """
    refusal = (
        _topic_refusal(wanted.topic, current, racks, queued_for_deletion=queued_for_deletion)
        or _count_refusal(wanted.total, len(current))
        or _given_refusal(wanted, len(current), racks)
        or _numbering_refusal(wanted.topic, current)
        or _placing_refusal(wanted, current, racks)
    )
    return refusal or PlannedGrowth(wanted.topic, _added(wanted, current, racks), wanted.total)


def _topic_refusal(
    topic: str,
    current: Mapping[int, ReplicaAssignment],
    racks: Mapping[BrokerId, str | None],
    *,
    queued_for_deletion: bool,
) -> Refusal | None:
    if queued_for_deletion:
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, "The topic is queued for deletion.")
    if without_rack(racks):
        return Refusal(KafkaError.UNKNOWN_SERVER_ERROR)
    if any(assignment.is_being_reassigned for assignment in current.values()):
        text = f"A partition reassignment is in progress for the topic '{topic}'."
        return Refusal(KafkaError.REASSIGNMENT_IN_PROGRESS, text)
    if not current:
        return Refusal(KafkaError.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{topic}' does not exist.")
    return None


def _count_refusal(total: int, old: int) -> Refusal | None:
    if total < old:
        text = f"Topic currently has {old} partitions, which is higher than the requested {total}."
        return Refusal(KafkaError.INVALID_PARTITIONS, text)
    if total == old:
        return Refusal(KafkaError.INVALID_PARTITIONS, f"Topic already has {old} partitions.")
    return None


def _given_refusal(wanted: GrowthRequest, old: int, racks: Mapping[BrokerId, str | None]) -> Refusal | None:
    """Return why the given assignments are refused: they must be one per new partition, and of live brokers."""
    if wanted.assignments is None:
        return None
    unknown = [b for b in dict.fromkeys(b for given in wanted.assignments for b in given) if b not in racks]
    if unknown:
        return _bad(f"Unknown broker(s) in replica assignment: {_listed(unknown)}.")
    increase, given = wanted.total - old, len(wanted.assignments)
    if given != increase:
        return _bad(f"Increasing the number of partitions by {increase} but {given} assignments provided.")
    return None


def _numbering_refusal(topic: str, current: Mapping[int, ReplicaAssignment]) -> Refusal | None:
    if current.keys() == set(range(len(current))):
        return None
    text = f"The partitions of the topic '{topic}' are not numbered from 0 without a gap."
    return Refusal(KafkaError.UNKNOWN_SERVER_ERROR, text)


def _placing_refusal(
    wanted: GrowthRequest, current: Mapping[int, ReplicaAssignment], racks: Mapping[BrokerId, str | None]
) -> Refusal | None:
    old, replication_factor = len(current), len(current[0].replicas)
    if wanted.assignments is None:
        # The bound on the number of partitions is for the whole topic, so that it cannot be passed in steps.
        return placement_refusal(wanted.total, replication_factor, racks)
    given = dict(enumerate(wanted.assignments, start=old))
    return _list_refusal(given) or _factor_refusal(given, replication_factor)


def _list_refusal(given: Mapping[int, Replicas]) -> Refusal | None:
    for index, replicas in given.items():
        if not replicas:
            return _bad(f"Cannot have replication factor of 0 for partition id {index}.")
        if len(set(replicas)) < len(replicas):
            text = f"Duplicate brokers not allowed in replica assignment: {_listed(replicas)} for partition id {index}."
            return _bad(text)
    return None


def _factor_refusal(given: Mapping[int, Replicas], expected: int) -> Refusal | None:
    bad = {index: len(replicas) for index, replicas in given.items() if len(replicas) != expected}
    if not bad:
        return None
    return _bad(
        f"Inconsistent replication factor between partitions, partition 0 has {expected} while partitions "
        f"[{_listed(bad)}] have replication factors [{_listed(bad.values())}], respectively."
    )


def _added(
    wanted: GrowthRequest, current: Mapping[int, ReplicaAssignment], racks: Mapping[BrokerId, str | None]
) -> Placement:
    old, first = len(current), current[0].replicas
    if wanted.assignments is not None:
        return dict(enumerate(wanted.assignments, start=old))
    by_id = dict(sorted(racks.items()))
    start = expansion_start(list(by_id), first[0])
    return place_replicas(by_id, range(old, wanted.total), len(first), start=start, shift=start)


def _bad(text: str) -> Refusal:
    return Refusal(KafkaError.INVALID_REPLICA_ASSIGNMENT, text)


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))
