"""One topic that an admin client wants, against what there is: where its replicas go, or why it is refused.

The rules, their order and their sentences are those of Kafka's own controller, but for what would do harm: a manual
assignment without replicas, with a negative broker or partition, or with an id of our own range is refused here.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import OUR_IDS, BrokerId
from controllerd.core.placement import Placement, place_replicas, placement_refusal
from controllerd.core.topic_configs import InvalidTopicConfig, check_topic_configs
from controllerd.core.topic_names import TakenNames, name_problem

DEFAULT_COUNT: Final = -1
"""For partitions and replication factor: what the cluster is configured for (KIP-464)."""
Draw = Callable[[int], int]
"""A random number from 0 to below its argument."""


@dataclass(frozen=True, slots=True)
class TopicWish:
    """One row of CreateTopics. A config may be None: on the wire it can be null."""

    name: str
    partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreationPicture:
    """What a new topic is judged by. ``racks`` has every live broker; the defaults are the cluster's."""

    taken: TakenNames
    racks: Mapping[BrokerId, str | None]
    deleting: AbstractSet[str] = frozenset()
    default_partitions: int = 1
    default_replication_factor: int = 1
    tiered_storage: bool = False


class PlannedTopic(NamedTuple):
    """A topic that may be created just so."""

    name: str
    assignment: Placement
    configs: dict[str, str]

    @property
    def partitions(self) -> int:
        """How many partitions it gets."""
        return len(self.assignment)

    @property
    def replication_factor(self) -> int:
        """How many replicas each of them gets."""
        return len(self.assignment[0])


def plan_topic(wanted: TopicWish, picture: CreationPicture, draw: Draw) -> PlannedTopic | Refusal:
    """Where the topic goes and what is stored with it, or the first rule that it breaks. Nothing is changed by asking.

    The caller has dealt with repeated names (``refused_names``), authorization and quotas.
    """
    configs = {name: value for name, value in wanted.configs.items() if value is not None}
    refusal = (
        _refused_at_sight(wanted, picture)
        or _counts_refusal(wanted, picture)
        or _name_refusal(wanted.name, picture)
        or _assignment_refusal(wanted.assignments)
        or _config_refusal(configs, picture)
    )
    return refusal or PlannedTopic(wanted.name, _assignment(wanted, picture, draw), configs)


def _refused_at_sight(wanted: TopicWish, picture: CreationPicture) -> Refusal | None:
    if wanted.name in picture.taken and wanted.name not in picture.deleting:
        return _exists(wanted.name)
    nulls = [name for name, value in wanted.configs.items() if value is None]
    if nulls:
        text = f"Null value not supported for topic configs: {','.join(nulls)}"
        return Refusal(KafkaError.INVALID_CONFIG, text)
    if wanted.assignments and (wanted.partitions, wanted.replication_factor) != (DEFAULT_COUNT, DEFAULT_COUNT):
        text = (
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time."
        )
        return Refusal(KafkaError.INVALID_REQUEST, text)
    return None


def _counts(wanted: TopicWish, picture: CreationPicture) -> tuple[int, int]:
    partitions, replication_factor = wanted.partitions, wanted.replication_factor
    return (
        picture.default_partitions if partitions == DEFAULT_COUNT else partitions,
        picture.default_replication_factor if replication_factor == DEFAULT_COUNT else replication_factor,
    )


def _counts_refusal(wanted: TopicWish, picture: CreationPicture) -> Refusal | None:
    return None if wanted.assignments else placement_refusal(*_counts(wanted, picture), picture.racks)


def _name_refusal(name: str, picture: CreationPicture) -> Refusal | None:
    if problem := name_problem(name):
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, problem)
    if name in picture.deleting:
        return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if colliding := picture.taken.colliding(name):
        text = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, text)
    return None


def _assignment_refusal(assignments: Mapping[int, tuple[BrokerId, ...]]) -> Refusal | None:
    problem = _assignment_problem(assignments) if assignments else None
    return Refusal(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem) if problem else None


def _assignment_problem(assignments: Mapping[int, tuple[BrokerId, ...]]) -> str | None:
    """Why nobody can have asked for this; that a broker is not known does not matter, as in the peer."""
    if len(set(map(len, assignments.values()))) > 1:
        return "All partitions should have the same number of replicas"
    if any(len(set(replicas)) < len(replicas) for replicas in assignments.values()):
        return f"Duplicate replica assignment found: {_as_scala_prints(assignments)}"
    if assignments.keys() != set(range(len(assignments))):
        return "partitions should be a consecutive 0-based integer sequence"
    if not assignments[0]:
        return "Replication factor must be larger than 0."
    return _impossible_broker(broker for replicas in assignments.values() for broker in replicas)


def _impossible_broker(brokers: Iterable[BrokerId]) -> str | None:
    bad = sorted({broker for broker in brokers if broker < 0 or broker in OUR_IDS})
    return f"No broker can have the id {', '.join(map(str, bad))}." if bad else None


def _as_scala_prints(assignments: Mapping[int, tuple[BrokerId, ...]]) -> str:
    """The peer's sentence ends with a map of its own language; it is the same on every controller of 3.9."""
    entries = (f"{index} -> ArrayBuffer({', '.join(map(str, assignments[index]))})" for index in sorted(assignments))
    return f"HashMap({', '.join(entries)})"


def _config_refusal(configs: Mapping[str, str], picture: CreationPicture) -> Refusal | None:
    try:
        check_topic_configs(configs, tiered_storage=picture.tiered_storage)
    except InvalidTopicConfig as problem:
        return Refusal(KafkaError.INVALID_CONFIG, str(problem))
    return None


def _assignment(wanted: TopicWish, picture: CreationPicture, draw: Draw) -> Placement:
    if wanted.assignments:
        return {index: wanted.assignments[index] for index in range(len(wanted.assignments))}
    partitions, replication_factor = _counts(wanted, picture)
    racks, brokers = dict(sorted(picture.racks.items())), len(picture.racks)
    return place_replicas(racks, range(partitions), replication_factor, start=draw(brokers), shift=draw(brokers))


def _exists(name: str) -> Refusal:
    return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
