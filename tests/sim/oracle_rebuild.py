"""Rebuilds the required state of an instance from ZooKeeper, and compares it with the instance's memory and audit log.

The context and the folded log are read as plain values, no matter how they came about.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from controllerd.core.context import ControllerContext
from controllerd.core.model import BrokerId, Replica, TopicPartition
from controllerd.record.state import ClusterState
from tests.sim.oracle_history import History, assignments_of
from tests.sim.oracle_seen import OUR_IDS, Key, state_path

_ONLINE: Final = "OnlinePartition"
_OFFLINE: Final = "OfflinePartition"
_NEW: Final = "NewPartition"


def context_differences(history: History, context: ControllerContext, epoch: int) -> list[str]:
    """Where the context of the active instance differs from one rebuilt from ZooKeeper, as sentences.

    Unreadable topics, partitions in quarantine, and states that another program wrote are left out.
    """
    image = _Image(history)
    partitions = {(tp.topic, tp.partition): tp for tp in context.partitions()}
    known = {
        key: context.leadership(tp)
        for key, tp in partitions.items()
        if state_path(key) not in context.quarantine and not history.partition(*key).is_foreign
    }
    return [
        *_compare("the controller epoch", {"": epoch}, {"": context.epoch}),
        *_compare("broker epoch", image.brokers(), {int(b.id): b.epoch for b in context.brokers.values()}),
        *_compare("topic id", image.topic_ids(), {name: topic.topic_id for name, topic in context.topics.items()}),
        *_compare(
            "topic znode version",
            image.topic_versions(),
            {name: (topic.znode_version, topic.czxid) for name, topic in context.topics.items()},
        ),
        *_compare(
            "assignment",
            image.assignments(),
            {key: tuple(map(int, context.assignment(tp).replicas)) for key, tp in partitions.items()},
        ),
        *_compare("reassignment", image.reassignments(), _reassignments(context, partitions)),
        *_compare("deletion", image.deletions(), dict.fromkeys(context.deletions.queued, "asked for")),
        *_compare("owed deletions", image.pending_deletions(), _pending_deletions(context)),
        *_compare(
            "leadership", image.leaderships(known), {key: _plain(state) for key, state in known.items() if state}
        ),
        *_partition_states(image, context, partitions),
        *_replica_states(image, context, partitions),
    ]


def log_differences(history: History, folded: ClusterState) -> list[str]:
    """Where the folded audit log of the active instance differs from ZooKeeper, as sentences."""
    image = _Image(history)
    states = {(tp.topic, tp.partition): _plain(state) for tp, state in folded.leaderships().items()}
    states = {key: state for key, state in states.items() if not history.partition(*key).is_foreign}
    assignments = {
        (tp.topic, tp.partition): tuple(map(int, found.replicas)) for tp, found in folded.assignments().items()
    }
    return [
        *_compare("the controller epoch", {"": history.epoch}, {"": folded.controller_epoch}),
        *_compare("broker epoch", image.brokers(), {int(row.id): row.epoch for row in folded.brokers.values()}),
        *_compare("topic id", image.topic_ids(), folded.topic_ids()),
        *_compare("assignment", image.assignments(), assignments),
        *_compare(
            "leadership",
            image.leaderships(key for key in assignments if key in states or not history.partition(*key).is_foreign),
            states,
        ),
    ]


class _Image:
    """The image of ZooKeeper that a controller must have."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._topics = {name: document for name, document in history.documents.items() if document is not None}
        self._live = history.live()

    def brokers(self) -> dict[int, int]:
        return {broker: self._history.brokers[broker].czxid for broker in self._live}

    def topic_ids(self) -> dict[str, str | None]:
        return {name: document.get("topic_id") for name, document in self._topics.items()}

    def topic_versions(self) -> dict[str, tuple[int, int]]:
        nodes = {name: self._history.nodes[f"/brokers/topics/{name}"] for name in self._topics}
        return {name: (node.version, node.czxid) for name, node in nodes.items()}

    def assignments(self) -> dict[Key, tuple[int, ...]]:
        return {
            (name, number): replicas
            for name, document in self._topics.items()
            for number, replicas in assignments_of(document).items()
            if len(set(replicas)) == len(replicas)
        }

    def reassignments(self) -> dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]:
        return {
            key: (partition.adding, partition.removing)
            for key, partition in self._history.partitions.items()
            if partition.is_being_reassigned and key[0] in self._topics
        }

    def deletions(self) -> dict[str, str]:
        return {topic: "asked for" for topic in self._history.asked.markers if topic in self._topics}

    def pending_deletions(self) -> dict[int, set[Key]]:
        return {broker: set(replicas) for broker, replicas in self._history.asked.pending_deletions.items() if replicas}

    def is_deleting(self, topic: str) -> bool:
        return topic in self._history.asked.markers

    def leaderships(self, wanted: Iterable[Key]) -> dict[Key, tuple[Any, ...]]:
        found: dict[Key, tuple[Any, ...]] = {}
        for key in wanted:
            state = self._history.partition(*key).state
            if state is not None:
                leader = (state.leader, state.leader_epoch, state.isr)
                found[key] = (*leader, state.controller_epoch, state.version, state.recovery_state)
        return found

    def partition_state(self, key: Key) -> str:
        state = self._history.partition(*key).state
        if state is None:
            return _NEW
        return _ONLINE if state.leader in self._live else _OFFLINE

    def is_plain_broker(self, broker: int) -> bool:
        """Whether it neither leaves nor has failed log directories: then the states of its replicas are determined."""
        history = self._history.brokers.get(broker)
        return broker not in OUR_IDS and (history is None or not (history.is_leaving or history.has_bad_dirs))

    def came_too_late(self, key: Key, broker: int) -> bool:
        """Whether a broker was dead before the partition was created: its replica counts as online at first."""
        partition, history = self._history.partition(*key), self._history.brokers.get(broker)
        state, gone_at = partition.state, history.gone_at if history is not None else 0
        is_later = history is None or partition.moved_at > history.changed_at
        return broker not in self._live and (is_later or (state is not None and state.life > gone_at))

    def is_being_added(self, key: Key, broker: int) -> bool:
        """Whether its replica is new until the reassignment is complete."""
        return broker in self._history.partition(*key).adding

    def is_live(self, broker: int) -> bool:
        return broker in self._live


def _partition_states(
    image: _Image, context: ControllerContext, partitions: Mapping[Key, TopicPartition]
) -> Iterator[str]:
    for key, tp in sorted(partitions.items()):
        state = context.leadership(tp)
        if image.is_deleting(tp.topic):
            continue
        if state_path(key) in context.quarantine or (state is not None and not image.is_plain_broker(state.leader)):
            continue
        yield from _compare(
            f"state of partition {tp}", {"": image.partition_state(key)}, {"": context.partition_state(tp).value}
        )


def _replica_states(
    image: _Image, context: ControllerContext, partitions: Mapping[Key, TopicPartition]
) -> Iterator[str]:
    for key, tp in sorted(partitions.items()):
        if state_path(key) in context.quarantine or context.leadership(tp) is None or image.is_deleting(tp.topic):
            continue
        for broker in context.assignment(tp).replicas:
            is_doubtful = image.came_too_late(key, broker) or image.is_being_added(key, broker)
            if image.is_plain_broker(broker) and not is_doubtful:
                wanted = "OnlineReplica" if image.is_live(broker) else "OfflineReplica"
                actual = context.replica_state(Replica(tp, BrokerId(broker))).value
                yield from _compare(f"state of replica {broker} of {tp}", {"": wanted}, {"": actual})


def _reassignments(
    context: ControllerContext, partitions: Mapping[Key, TopicPartition]
) -> dict[Key, tuple[tuple[int, ...], tuple[int, ...]]]:
    found = {key: context.assignment(tp) for key, tp in partitions.items()}
    return {
        key: (tuple(map(int, each.adding)), tuple(map(int, each.removing)))
        for key, each in found.items()
        if each.is_being_reassigned
    }


def _pending_deletions(context: ControllerContext) -> dict[int, set[Key]]:
    return {
        int(broker): {(tp.topic, tp.partition) for tp in context.pending_deletions.of(broker)}
        for broker in context.pending_deletions.brokers()
    }


def _plain(state: Any) -> tuple[Any, ...]:
    isr = tuple(map(int, state.isr))
    return (
        int(state.leader),
        state.leader_epoch,
        isr,
        state.controller_epoch,
        state.partition_epoch,
        int(state.recovery_state),
    )


def _compare(what: str, wanted: Mapping[Any, Any], actual: Mapping[Any, Any]) -> Iterator[str]:
    for key in sorted(wanted.keys() | actual.keys(), key=str):
        if wanted.get(key) != actual.get(key):
            name = f"{what} {key}".strip() if key != "" else what
            yield f"{name} is {actual.get(key)}, ZooKeeper has {wanted.get(key)}"
