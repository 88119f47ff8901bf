"""The cluster before a workload: the replicas of every partition, and the znodes that hold them.

Every broker leads the same number of partitions and follows twice as many, and the partitions that one broker leads
have their other replicas on all the others, as Kafka's own placement leaves them.
"""

import base64
import uuid
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicImage, TopicPartition
from controllerd.zk import codecs, paths
from controllerd.zk.access import Create, Operation

BROKERS: Final = 5
REPLICATION: Final = 3
TOPIC_PARTITIONS: Final = 100
VICTIM: Final = BrokerId(1)
"""The broker that dies, returns and shuts down."""
OLD: Final = "old"
NEW: Final = "new"
BIG: Final = "big"
"""The one topic of W8S."""
_FORMER_EPOCH: Final = 1


def replicas(partition: int) -> tuple[BrokerId, ...]:
    """Return the replicas of a partition of any topic, the leader first."""
    leader, shift = partition % BROKERS, partition // BROKERS % (BROKERS - 1)
    steps = (0, *(1 + (shift + k) % (BROKERS - 1) for k in range(REPLICATION - 1)))
    return tuple(BrokerId((leader + step) % BROKERS + 1) for step in steps)


def name(prefix: str, number: int) -> str:
    """Return the name of a topic."""
    return f"{prefix}-{number:05}"


def partitions(prefix: str, topics: int) -> Iterator[TopicPartition]:
    """Return every partition of this many topics."""
    return (TopicPartition(name(prefix, t), p) for t in range(topics) for p in range(TOPIC_PARTITIONS))


def moved(partition: int) -> tuple[BrokerId, ...]:
    """Return the target of W8 for a partition: every replica on the next broker."""
    return tuple(BrokerId(broker % BROKERS + 1) for broker in replicas(partition))


def topic(prefix: str, number: int, size: int = TOPIC_PARTITIONS) -> Operation:
    """Return the operation that creates a topic as Kafka's tools do, by its znode."""
    called = name(prefix, number)
    assignments = {p: ReplicaAssignment(replicas(p)) for p in range(size)}
    return Create(paths.topic(called), codecs.encode_topic(TopicImage(called, assignments, topic_id(called), 0)))


def roots() -> list[Operation]:
    """Return the persistent znodes that brokers ensure, the cluster id, and the epoch of an earlier controller."""
    wanted = {*paths.PERSISTENT_PATHS, paths.LATEST_PRODUCER_ID_BLOCK, paths.CLUSTER_ID}
    parents = {path[:end] for path in wanted for end in range(1, len(path)) if path[end] == "/"}
    contents = {
        paths.CLUSTER_ID: codecs.encode_cluster_id(topic_id("the cluster")),
        paths.CONTROLLER_EPOCH: codecs.encode_controller_epoch(_FORMER_EPOCH),
    }
    every = sorted(parents | wanted | contents.keys(), key=lambda path: (path.count("/"), path))
    return [Create(path, contents.get(path)) for path in every]


def topic_with_states(number: int) -> list[Operation]:
    """Return the operations that create a topic with its partition states, led by the preferred replicas."""
    called = name(OLD, number)
    operations: list[Operation] = [topic(OLD, number), Create(paths.topic_partitions(called), None)]
    for p in range(TOPIC_PARTITIONS):
        tp, ids = TopicPartition(called, p), replicas(p)
        state = codecs.encode_state(LeaderAndIsr(ids[0], 0, ids, _FORMER_EPOCH, 0))
        operations += [Create(paths.partition(tp), None), Create(paths.partition_state(tp), state)]
    return operations


def topic_id(called: str) -> str:
    """Return the id of a topic, the same in every run."""
    return base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_OID, called).bytes).decode().rstrip("=")
