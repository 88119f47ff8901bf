"""Invariants of what is deleted: replicas with their data, and topics with their znodes. Pure."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Final

from controllerd.core.model import OUR_IDS, BrokerId, ReplicaState, TopicPartition
from controllerd.record.records import DeletionRecord, EventBegin, RequestRecord, ZkWriteRecord
from controllerd.record.rules.base import Entry, Evidence, Rule

_GONE: Final = frozenset({ReplicaState.DELETION_SUCCESSFUL, ReplicaState.NON_EXISTENT})
_TOPICS: Final = "/brokers/topics/"
_MARKERS: Final = "/admin/delete_topics/"


class _OrdersToDelete(Rule):
    """Base of rules about StopReplica with deletion, of topics whose own deletion has not begun."""

    kinds = frozenset({RequestRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if not isinstance(record, RequestRecord) or record.api != "StopReplica":
            return
        for topic, number, delete in zip(record.topics, record.partitions, record.delete, strict=True):
            deletion = entry.state.deletions.get(topic)
            if delete and (deletion is None or not deletion.is_started):
                for broker in record.brokers:
                    yield from self.judge(TopicPartition(topic, number), BrokerId(broker), entry)

    @abstractmethod
    def judge(self, tp: TopicPartition, broker: BrokerId, entry: Entry, /) -> Iterator[str | Evidence]:
        """Evidence against one order."""


class DeletedReplicasAreOutOfSync(_OrdersToDelete):
    """The ISR may be all that has the data."""

    id = "I-20"
    title = "a replica is told to delete itself with its topic, or when it has left the ISR"
    severity = "critical"
    question = "Does another replica have all the data of the one that was told to delete itself?"

    def judge(self, tp: TopicPartition, broker: BrokerId, entry: Entry) -> Iterator[str | Evidence]:
        """The ISR as it was written last."""
        known = entry.state.partition(tp)
        if known is not None and known.leadership is not None and broker in known.leadership.isr:
            yield f"broker {broker} was told to delete {tp} while it was in the ISR {list(known.leadership.isr)}"


class AssignedReplicasAreKept(_OrdersToDelete):
    """The data-loss guard."""

    id = "I-21"
    title = "no replica that is assigned, and not being removed, is told to delete itself"
    severity = "critical"
    question = "Is the data of this replica gone, and which replica can it be copied from?"

    def judge(self, tp: TopicPartition, broker: BrokerId, entry: Entry) -> Iterator[str | Evidence]:
        """The assignment as it is known; what a broker owes of an earlier topic of that name is none of it."""
        known, topic = entry.state.partition(tp), entry.state.topics.get(tp.topic)
        owed, present = entry.state.pending_deletions.get(broker, {}).get(tp), None if topic is None else topic.topic_id
        is_earlier = owed is not None and present is not None and owed != present
        if known is not None and broker in known.assignment.target and not is_earlier:
            yield f"broker {broker} was told to delete {tp}, which is assigned to it"


class TopicsGoLast(Rule):
    """KAFKA-1757, KAFKA-6650: a crash in between must leave the request, so that the next controller finishes."""

    id = "I-22"
    title = "a topic's znodes go when all its replicas are gone, then its configuration, then the request"
    severity = "error"
    question = "Are data of the topic left on disks, or a request for a deletion that nobody will carry out?"
    kinds = frozenset({EventBegin, ZkWriteRecord})

    def __init__(self) -> None:
        self._deleted: set[str] = set()
        self._begun: set[str] = set()

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
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
                yield from self._judge_topic(name.partition("/")[0], entry)
                self._deleted.add(name)
            elif path.startswith(_MARKERS):
                yield from self._judge_marker(path.removeprefix(_MARKERS), entry)

    def _judge_topic(self, name: str, entry: Entry) -> Iterator[str | Evidence]:
        topic = None if name in self._begun else entry.state.topics.get(name)
        self._begun.add(name)
        for number, partition in topic.partitions.items() if topic is not None else ():
            for broker in partition.assignment.replicas:  # controllerd has no disk, whoever assigns it a replica
                has_none = broker in OUR_IDS or TopicPartition(name, number) in entry.state.pending_deletions.get(
                    broker, {}
                )
                if partition.replica_states.get(broker, ReplicaState.NON_EXISTENT) not in _GONE and not has_none:
                    yield f"a znode of {name} was deleted before replica {broker} of {name}-{number}"
                    return

    def _judge_marker(self, name: str, entry: Entry) -> Iterator[str | Evidence]:
        deletion = entry.state.deletions.get(name)
        if deletion is not None and deletion.is_started and name not in self._deleted:
            yield f"the request to delete {name} went before the topic"


class DeletionsAreCounted(Rule):
    """KAFKA-13572: the numbers of topics to delete and of those that wait are what the log adds up to."""

    id = "I-31"
    title = "a deletion begins, waits and goes on only while it is asked for, so that no count is ever wrong"
    severity = "warning"
    question = "Which of the deletions shown as pending is real?"
    kinds = frozenset({DeletionRecord})

    def see(self, entry: Entry) -> Iterator[str | Evidence]:
        record = entry.record
        if not isinstance(record, DeletionRecord):
            return
        known = {name: deletion.halted is not None for name, deletion in entry.state.deletions.items()}
        for name, change in zip(record.topics, record.changes, strict=True):
            if change == "queued":
                if name in known:
                    yield f"the deletion of {name} was asked for twice"
                known[name] = False
            elif name not in known:
                yield f"the deletion of {name} was {change} and never asked for"
            elif change == "resumed" and not known[name]:
                yield f"the deletion of {name} was resumed and did not wait"
            known[name] = change == "halted" or (change == "started" and known.get(name, False))
