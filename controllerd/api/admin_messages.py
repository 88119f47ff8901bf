"""The messages of refused admin requests, in the words of Kafka's own controller, which scripts parse.

With None the client prints its own sentence for the error.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Final

from controllerd.core.finalized import WantedLevel, refusal
from controllerd.core.kafka_error import KafkaError
from controllerd.core.model import Broker, BrokerId, ReplicaAssignment, TopicPartition
from controllerd.core.reassignment import as_scala_prints, not_live, reassign_to, target_problem
from events.admin import FeatureUpdate
from events.elections import ElectionType

NO_TEXT: Final = ""
"""The message without an error, which Kafka sends where the default of the schema is an empty text."""
_STRATEGIES: Final = {
    ElectionType.PREFERRED: "PreferredReplicaPartitionLeaderElectionStrategy",
    ElectionType.UNCLEAN: "OfflinePartitionLeaderElectionStrategy(true)",
}
"""Kafka's names, as its tools print them."""
_NO_PARTITION: Final = "The partition does not exist."
_NOT_NEEDED: Final = "Leader election not needed for topic partition."
_NOT_REASSIGNED: Final = "No partition reassignment is in progress."
_NOT_CONTROLLER: Final = "This is not the correct controller for this cluster."
_LOSS: Final = "the replicas that would remain could not lead the partition"
_NO_FEATURES: Final = "Feature versioning system is disabled."
_IMPOSSIBLE: Final = (KafkaError.PREFERRED_LEADER_NOT_AVAILABLE, KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE)


def election_text(tp: TopicPartition, error: KafkaError, kind: ElectionType) -> str | None:
    """Return the message about the election of one partition."""
    if error in _IMPOSSIBLE:
        return f"Failed to elect leader for partition {tp} under strategy {_STRATEGIES[kind]}"
    if error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
        return _NO_PARTITION
    if error is KafkaError.ELECTION_NOT_NEEDED:
        return _NOT_NEEDED
    return "The topic is being deleted" if error is KafkaError.INVALID_TOPIC_EXCEPTION else None


def reassignment_text(
    error: KafkaError, target: tuple[BrokerId, ...] | None, current: ReplicaAssignment, live: AbstractSet[BrokerId]
) -> str | None:
    """Return the message about the reassignment of one partition; ``target`` is None for a cancellation."""
    if error is KafkaError.UNKNOWN_TOPIC_OR_PARTITION:
        return _NO_PARTITION
    if error is KafkaError.NO_REASSIGNMENT_IN_PROGRESS:
        return _NOT_REASSIGNED
    if error is not KafkaError.INVALID_REPLICA_ASSIGNMENT:
        return None
    if target is None:
        return _LOSS
    if (problem := target_problem(target)) is not None:
        return problem
    if not not_live(current, target, live):
        return _LOSS
    return (
        "Replica assignment has brokers that are not alive. Replica list: "
        f"{as_scala_prints(reassign_to(current, target).adding)}, live broker list: "
        f"Set({', '.join(map(str, sorted(live)))})"
    )


def feature_text(
    error: KafkaError, name: str, update: FeatureUpdate | None, live: Iterable[Broker], *, is_repeated: bool = False
) -> str | None:
    """Return the message about one feature; ``update`` is None for an invalid row."""
    if error is not KafkaError.INVALID_REQUEST:
        return None
    if is_repeated:
        return "The feature is named twice."
    if not name:
        return "Feature name can not be empty."
    if update is None:
        return "Received unknown upgrade type."
    wanted = WantedLevel(update.max_version_level, update.allow_downgrade)
    return refusal(name, wanted, {}, live) or "The level that is finalized now does not allow it."


def top_level_text(error: KafkaError) -> str | None:
    """Return the message for a request about reassignments or features that is refused as a whole."""
    if error is KafkaError.NOT_CONTROLLER:
        return _NOT_CONTROLLER
    return _NO_FEATURES if error is KafkaError.INVALID_REQUEST else None
