"""The rules of topic creation: the placement of the replicas of a requested topic, or its refusal.

The rules, their order and their error messages are those of Kafka's own controller, with one exception. A manual
assignment without replicas, with a negative broker or partition, or with an id of controllerd is refused, because it
would do harm.

The configs are judged by the releases of all brokers, not by one release. Every broker, whatever it
hosts, reads the configs of all topics at each of its starts (``LogManager.fetchTopicConfigOverrides``),
and it does not start with a config that its release does not understand. Kafka's own controller judges
by the release of the broker that it runs in, so that in a rolling upgrade the winner of the election
decides which configs are accepted. Here each release has to accept the configs, the oldest release
first. A broker whose release is not known may be as old as the protocol version allows. To ask the
oldest release alone would not be enough while releases are mixed: from 3.3 on, brokers refuse
``flush.messages=0``, which 2.8 accepts.

To ask the releases of live brokers alone would not be enough either. A broker that restarts is absent
for a moment, and a topic that is created in that moment could keep it from starting. So the release of
an absent broker has to accept the configs, too, for as long as partitions are assigned to the broker.
Its release is the last known one of this term; if none is known, as after a failover, the protocol
version stands for it. An absent broker without replicas is left out, because it may have been removed
from the cluster for good.
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controllerd.core.kafka_error import KafkaError, Refusal
from controllerd.core.model import OUR_IDS, BrokerId
from controllerd.core.placement import Placement, place_replicas, placement_refusal
from controllerd.core.releases import NEWEST, Release
from controllerd.core.topic_configs import InvalidTopicConfig, check_topic_configs
from controllerd.core.topic_names import TakenNames, name_problem

DEFAULT_COUNT: Final = -1
"""For partitions and replication factor: the default of the cluster (KIP-464)."""
_PROTOCOL: Final = "inter.broker.protocol.version"
Draw = Callable[[int], int]
"""A random number from 0 to below its argument."""


@dataclass(frozen=True, slots=True)
class TopicRequest:
    """One row of CreateTopics. A config may be None: on the wire it can be null."""

    name: str
    partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreationFacts:
    """The facts that a new topic is judged by. ``racks`` has every live broker; the defaults are the cluster's."""

    taken: TakenNames
    racks: Mapping[BrokerId, str | None]
    deleting: AbstractSet[str] = frozenset()
    default_partitions: int | None = 1
    """None while it is not known."""
    default_replication_factor: int | None = 1
    """None while it is not known."""
    tiered_storage: bool = False
    releases: Mapping[BrokerId, Release] = field(default_factory=dict)
    """The releases of the live brokers, as far as they are known."""
    absent: Mapping[BrokerId, Release | None] = field(default_factory=dict)
    """The brokers that hold replicas and are not live, each with its last known release; None: it is not known."""
    protocol_release: Release = NEWEST
    """The release of ``inter.broker.protocol.version``; it stands for each broker whose release is not known."""

    @property
    def judges(self) -> dict[Release, str]:
        """Return the releases that have to accept configs, the oldest first, each with its name in a refusal.

        Of several brokers of one release the name is that of the lowest live one, if any is live.
        """
        absent = sorted(self.absent.items(), reverse=True)
        judges = {release: f"broker {broker} (Kafka {release}, not live)" for broker, release in absent if release}
        live = sorted(self.releases.items(), reverse=True)
        judges |= {release: f"broker {broker} (Kafka {release})" for broker, release in live}
        if reason := self._protocol_reason(is_needed=not judges):
            judges.setdefault(self.protocol_release, f"Kafka {self.protocol_release} ({reason})")
        return dict(sorted(judges.items()))

    def _protocol_reason(self, *, is_needed: bool) -> str | None:
        """Why the release of the protocol version has to accept configs, too; None if all releases are known."""
        if is_needed or self.racks.keys() - self.releases.keys():
            return _PROTOCOL
        unknown = [broker for broker, release in self.absent.items() if release is None]
        return f"{_PROTOCOL}, which stands for broker {min(unknown)}, not live" if unknown else None


_NO_PARTITIONS: Final = "No broker has said its num.partitions yet; name a number of partitions, or try again."
_NO_FACTOR: Final = "No broker has said its default.replication.factor yet; name a replication factor, or try again."


class PlannedTopic(NamedTuple):
    """A topic that may be created, with its replicas and configs."""

    name: str
    assignment: Placement
    configs: dict[str, str]
    release: Release = NEWEST
    """The oldest release that accepted the configs."""

    @property
    def partitions(self) -> int:
        """The number of its partitions."""
        return len(self.assignment)

    @property
    def replication_factor(self) -> int:
        """The number of replicas of each partition."""
        return len(self.assignment[0])


def plan_topic(wanted: TopicRequest, facts: CreationFacts, draw: Draw) -> PlannedTopic | Refusal:
    """Return the replicas and configs of the topic, or the refusal of the first rule that it breaks. Changes nothing.

    The caller has dealt with repeated names (``refused_names``), authorization and quotas.
    """
    configs = {name: value for name, value in wanted.configs.items() if value is not None}
    refusal = (
        _refused_at_sight(wanted, facts)
        or _counts_refusal(wanted, facts)
        or _name_refusal(wanted.name, facts)
        or _assignment_refusal(wanted.assignments)
        or _config_refusal(configs, facts)
    )
    return refusal or PlannedTopic(wanted.name, _assignment(wanted, facts, draw), configs, min(facts.judges))


def _refused_at_sight(wanted: TopicRequest, facts: CreationFacts) -> Refusal | None:
    if wanted.name in facts.taken and wanted.name not in facts.deleting:
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


def _counts(wanted: TopicRequest, facts: CreationFacts) -> tuple[int, int]:
    partitions, replication_factor = _counts_if_known(wanted, facts)
    assert partitions is not None, "refused before"
    assert replication_factor is not None, "refused before"
    return partitions, replication_factor


def _counts_if_known(wanted: TopicRequest, facts: CreationFacts) -> tuple[int | None, int | None]:
    factor = wanted.replication_factor
    return (
        facts.default_partitions if wanted.partitions == DEFAULT_COUNT else wanted.partitions,
        facts.default_replication_factor if factor == DEFAULT_COUNT else factor,
    )


def _counts_refusal(wanted: TopicRequest, facts: CreationFacts) -> Refusal | None:
    if wanted.assignments:
        return None
    partitions, replication_factor = _counts_if_known(wanted, facts)
    if partitions is None:
        return Refusal(KafkaError.INVALID_PARTITIONS, _NO_PARTITIONS)
    if replication_factor is None:
        return Refusal(KafkaError.INVALID_REPLICATION_FACTOR, _NO_FACTOR)
    return placement_refusal(partitions, replication_factor, facts.racks)


def _name_refusal(name: str, facts: CreationFacts) -> Refusal | None:
    if problem := name_problem(name):
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, problem)
    if name in facts.deleting:
        return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' is marked for deletion.")
    if colliding := facts.taken.colliding(name):
        text = f"Topic '{name}' collides with existing topics: {', '.join(colliding)}"
        return Refusal(KafkaError.INVALID_TOPIC_EXCEPTION, text)
    return None


def _assignment_refusal(assignments: Mapping[int, tuple[BrokerId, ...]]) -> Refusal | None:
    problem = _assignment_problem(assignments) if assignments else None
    return Refusal(KafkaError.INVALID_REPLICA_ASSIGNMENT, problem) if problem else None


def _assignment_problem(assignments: Mapping[int, tuple[BrokerId, ...]]) -> str | None:
    """Why the assignments are malformed, or None; as in Kafka, a broker in them need not be known."""
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
    """The assignments as Scala prints a map of them in Kafka's message of 3.9."""
    entries = (f"{index} -> ArrayBuffer({', '.join(map(str, assignments[index]))})" for index in sorted(assignments))
    return f"HashMap({', '.join(entries)})"


def _config_refusal(configs: Mapping[str, str], facts: CreationFacts) -> Refusal | None:
    judges = facts.judges
    for release, name in judges.items():
        problem = _config_problem(configs, release, facts)
        if problem is not None:
            is_common = release == min(judges) and _is_refused_by_newest(problem, configs, facts)
            blamed = f"{problem.config}={configs[problem.config]} is not understood by {name}"
            text = str(problem) if is_common else f"{blamed}: {problem}"
            return Refusal(KafkaError.INVALID_CONFIG, text)
    return None


def _config_problem(configs: Mapping[str, str], release: Release, facts: CreationFacts) -> InvalidTopicConfig | None:
    try:
        check_topic_configs(configs, release, tiered_storage=facts.tiered_storage)
    except InvalidTopicConfig as problem:
        return problem
    return None


def _is_refused_by_newest(problem: InvalidTopicConfig, configs: Mapping[str, str], facts: CreationFacts) -> bool:
    """Whether the configs are wrong for 3.9, too, so that no broker's release is to blame."""
    newest = _config_problem(configs, NEWEST, facts)
    return newest is not None and newest.config == problem.config


def _assignment(wanted: TopicRequest, facts: CreationFacts, draw: Draw) -> Placement:
    if wanted.assignments:
        return {index: wanted.assignments[index] for index in range(len(wanted.assignments))}
    partitions, replication_factor = _counts(wanted, facts)
    racks, brokers = dict(sorted(facts.racks.items())), len(facts.racks)
    return place_replicas(racks, range(partitions), replication_factor, start=draw(brokers), shift=draw(brokers))


def _exists(name: str) -> Refusal:
    return Refusal(KafkaError.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
