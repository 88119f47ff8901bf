"""Invariants of deletions: of replicas with their data, and of topics with their znodes. Pure."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, ReplicaState, TopicPartition
from controllerd.record.records import DeletionRecord, EventBegin, RequestRecord, ZkWriteRecord
from controllerd.record.rules.base import CheckedRecord, Evidence, Rule

_GONE: Final = frozenset({ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT})
_TOPICS: Final = "/brokers/topics/"
_MARKERS: Final = "/admin/delete_topics/"


class _DeletionOrderRule(Rule):
    """Base of the rules about StopReplica requests that delete replicas of topics which are not being deleted."""

    kinds = frozenset({RequestRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if not isinstance(record, RequestRecord) or record.api != "StopReplica":
            return
        for topic, number, delete in zip(record.topics, record.partitions, record.delete, strict=True):
            deletion = checked.state.deletions.get(topic)
            if delete and (deletion is None or not deletion.is_started):
                for broker in record.brokers:
                    yield from self.evidence(TopicPartition(topic, number), BrokerId(broker), checked)

    @abstractmethod
    def evidence(self, tp: TopicPartition, broker: BrokerId, checked: CheckedRecord, /) -> Iterator[str | Evidence]:
        """The evidence against the deletion of one replica."""


class DeletedReplicasAreOutOfSync(_DeletionOrderRule):
    """The members of the ISR may be the only replicas with all the data."""

    id = "I-20"
    title = "a broker is sent the deletion of a replica only with its topic, or after the replica has left the ISR"
    severity = "critical"
    question = "Does another replica have all the data of the replica that was to be deleted?"

    def evidence(self, tp: TopicPartition, broker: BrokerId, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Compares with the ISR that was written last."""
        known = checked.state.partition(tp)
        if known is not None and known.leadership is not None and broker in known.leadership.isr:
            yield f"broker {broker} was sent the deletion of {tp} while it was in the ISR {list(known.leadership.isr)}"


class AssignedReplicasAreKept(_DeletionOrderRule):
    """Guards against data loss."""

    id = "I-21"
    title = "no broker is sent the deletion of a replica that is assigned and not being removed"
    severity = "critical"
    question = "Is the data of this replica gone, and which replica can it be copied from?"

    def evidence(self, tp: TopicPartition, broker: BrokerId, checked: CheckedRecord) -> Iterator[str | Evidence]:
        """Compares with the known assignment. A pending deletion may be of an earlier topic with the same name."""
        known, topic = checked.state.partition(tp), checked.state.topics.get(tp.topic)
        pending = checked.state.pending_deletions.get(broker, {}).get(tp)
        present = None if topic is None else topic.topic_id
        is_earlier = pending is not None and present is not None and pending != present
        if known is not None and broker in known.assignment.target and not is_earlier:
            yield f"broker {broker} was sent the deletion of {tp}, which is assigned to it"


class TopicsAreDeletedLast(Rule):
    """KAFKA-1757, KAFKA-6650: after a crash the request must still exist, so that the next controller continues."""

    id = "I-22"
    title = "a topic's znodes are deleted after all its replicas, then its configuration, then the request"
    severity = "error"
    question = "Is data of the topic left on disks, or a deletion request that no controller will complete?"
    kinds = frozenset({EventBegin, ZkWriteRecord})

    def __init__(self) -> None:
        self._deleted: set[str] = set()
        self._begun: set[str] = set()

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if isinstance(record, EventBegin):
            self._deleted.clear()
            self._begun.clear()
        if not isinstance(record, ZkWriteRecord):
            return
        for operation, path, result in zip(record.operations, record.paths, record.results, strict=True):
            if operation != "delete" or result != "ok":
                continue
            name = path.removeprefix(_TOPICS)
            if name != path:
                yield from self._judge_topic(name.partition("/")[0], checked)
                self._deleted.add(name)
            elif path.startswith(_MARKERS):
                yield from self._judge_marker(path.removeprefix(_MARKERS), checked)

    def _judge_topic(self, name: str, checked: CheckedRecord) -> Iterator[str | Evidence]:
        topic = None if name in self._begun else checked.state.topics.get(name)
        self._begun.add(name)
        for number, partition in topic.partitions.items() if topic is not None else ():
            for broker in partition.assignment.replicas:  # a replica that is assigned to controllerd exists on no disk
                has_none = broker in OUR_IDS or TopicPartition(name, number) in checked.state.pending_deletions.get(
                    broker, {}
                )
                if partition.replica_states.get(broker, ReplicaState.NON_EXISTENT) not in _GONE and not has_none:
                    yield f"a znode of {name} was deleted before replica {broker} of {name}-{number}"
                    return

    def _judge_marker(self, name: str, checked: CheckedRecord) -> Iterator[str | Evidence]:
        deletion = checked.state.deletions.get(name)
        if deletion is not None and deletion.is_started and name not in self._deleted:
            yield f"the request to delete {name} was removed before the topic"


class DeletionsAreCounted(Rule):
    """KAFKA-13572: the numbers of pending and of halted deletions follow from the log."""

    id = "I-31"
    title = "a deletion begins, halts and resumes only while it is requested, so that no count is wrong"
    severity = "warning"
    question = "Which of the deletions shown as pending is real?"
    kinds = frozenset({DeletionRecord})

    def check(self, checked: CheckedRecord) -> Iterator[str | Evidence]:
        record = checked.record
        if not isinstance(record, DeletionRecord):
            return
        is_halted = {name: deletion.halted is not None for name, deletion in checked.state.deletions.items()}
        for name, change in zip(record.topics, record.changes, strict=True):
            if change == "queued":
                if name in is_halted:
                    yield f"the deletion of {name} was queued twice"
                is_halted[name] = False
            elif name not in is_halted:
                yield f"the deletion of {name} was {change} and never queued"
            elif change == "resumed" and not is_halted[name]:
                yield f"the deletion of {name} was resumed and was not halted"
            # A deletion that starts while it is halted stays halted.
            is_halted[name] = change == "halted" or (change == "started" and is_halted.get(name, False))
