"""Why an operator's request was refused, in words. None leaves it to the client, which knows a sentence per error."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from controllerd.core.finalized import WantedLevel, refusal
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.reassignment import not_live, target_problem
from events.admin import FeatureUpdate
from events.elections import ElectionType

_STRATEGIES: Final = {
    ElectionType.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    ElectionType.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
}
"""Kafka's names, as its tools have always shown them: scripts look for them."""
_NO_PARTITION: Final = "The partition does not exist."
_LOSS: Final = "the replicas that would remain could not lead the partition"
_NO_FEATURES: Final = "features are finalized from inter.broker.protocol.version 2.7 on, and this cluster is below"
_IMPOSSIBLE: Final = (KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def election_text(tp: TopicPartition, error: KafkaError, kind: ElectionType) -> str | None:
    """What to say about the election of one partition."""
    if error in _IMPOSSIBLE:
        return f"Failed to elect leader for partition {tp} under strategy {_STRATEGIES[kind]}"
    if error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
        return _NO_PARTITION
    return "The topic is being deleted" if error is KafkaError.INVALID_TOPIC_EXCEPTION else None


def reassignment_text(
    error: KafkaError, target: tuple[BrokerId, ...] | None, current: ReplicaAssignment, live: AbstractSet[BrokerId]
) -> str | None:
    """What to say about the reassignment of one partition; ``target`` is None for a cancellation."""
    if error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
        return _NO_PARTITION
    if error is not KafkaError.INVALID_REPLICA_ASSIGNMENT:
        return None
    if target is None:
        return _LOSS
    problem = target_problem(target)
    if problem is None and (absent := not_live(current, target, live)):
        problem = f"brokers {', '.join(map(str, absent))} are not live"
    wanted = ", ".join(map(str, target))
    return _LOSS if problem is None else f"{problem}: {wanted}" if wanted else problem


def feature_text(error: KafkaError, name: str, update: FeatureUpdate | None, live: Iterable[Broker]) -> str | None:
    """What to say about one feature; ``update`` is None for a row that means nothing."""
    if error is not KafkaError.INVALID_REQUEST:
        return None
    if update is None:
        return "the feature is named twice, or the kind of upgrade does not exist"
    wanted = WantedLevel(update.max_version_level, update.allow_downgrade)
    return refusal(name, wanted, {}, live) or "the level that is finalized now does not allow it"


def top_level_feature_text(error: KafkaError) -> str | None:
    """What to say when a request about features is refused as a whole."""
    return _NO_FEATURES if error is KafkaError.INVALID_REQUEST else None
